// Package mcptool offers the tools of MCP servers (modelcontextprotocol.io): child
// processes over stdio, and remote servers over streamable HTTP or SSE.
//
// [Open] connects to all servers of a [Config], [Servers.Run] keeps them connected, and
// [Servers.Tools] is what they offer right now. A tool that was handed out stays usable when its
// server comes back after it was gone; while it is gone, calls fail with words that say so.
//
// What servers say is not trusted: names, descriptions, schemas, progress and results are
// bounded and cleaned, a child sees only the environment that its configuration gives it, and
// secrets of the configuration are cut out of errors and log lines: the values of headers, what
// stands behind the host of an address, and the values of env that are named like secrets or are
// addresses with a password.
package mcptool
