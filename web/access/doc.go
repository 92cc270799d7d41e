// Package access decides who has access: tokens, page sessions, client secrets, origins and limits.
// It knows no routes.
package access
