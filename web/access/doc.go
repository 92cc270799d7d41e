// Package access decides who may come in: tokens, page sessions, client secrets,
// origins and limits. It knows no route.
package access
