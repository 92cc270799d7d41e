// Package web is the HTTP side of voicebridge: the Realtime-compatible routes
// under /v1, the API under /api, the thread socket, the page and the routes for
// operators.
//
// There is one file for each noun, with a handler that has its own dependencies and
// registers its own routes; [newServer] puts them together. Handlers are thin: they
// check the request, call the bridge, the chat or the store, and return an error,
// which [classify] turns into a status and a body in one place.
//
// A request passes, from outside to inside: recovery, request id and log,
// response headers, Host check, CORS, cross-origin check, body limit, trace, gzip,
// and then the route's own authentication.
package web
