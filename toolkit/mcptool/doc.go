// Package mcptool offers the tools of MCP servers (modelcontextprotocol.io): child processes over
// stdio, and remote servers over streamable HTTP or SSE.
//
// [Open] prepares all servers of a [Config], [Servers.Run] keeps them connected, and
// [Servers.Tools] returns what they offer right now. A tool stays usable when its server
// disconnects and comes back; while the server is gone, calls fail with an error that says so.
//
// What servers send is not trusted: names, descriptions, schemas, progress and results are limited
// and cleaned, and a child sees only the environment that its configuration gives it. Secrets of
// the configuration are removed from errors and log lines: the values of headers, the part of a URL
// after the host, and values of env that are named like secrets or are URLs with a password.
package mcptool
