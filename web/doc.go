// Package web is the HTTP side of voicebridge: the Realtime-compatible routes
// under /v1, the API under /api, the thread socket, the page and the routes for
// operators.
//
// There is one file for each noun, whose handler registers its own routes; [newServer]
// puts them together. A handler is a function from a struct, which [route] fills from the
// request as its tags say, to the answer: it calls the bridge, the chat or the store, and
// its error becomes a status and a body in one place, [classify]. Sockets, streams and
// files are served by functions of echo's context.
//
// A request passes, from outside to inside: recovery, request id and log,
// response headers, Host check, CORS, cross-origin check, body limit, trace, gzip,
// and then the route's own authentication.
package web
