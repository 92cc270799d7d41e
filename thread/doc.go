// Package thread holds the words in which everybody here speaks of a conversation: messages and their parts, tool
// calls, approvals, and what was heard. It only describes: it imports nothing of this program, stores nothing, and may
// be imported by every other package.
package thread
