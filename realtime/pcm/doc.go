// Package pcm computes with samples of sound: mono, 16 bits, usually at 8, 16, 24 or 48 kHz. It writes them as the
// Realtime API does, converts their rate, and measures how loud they are.
package pcm
