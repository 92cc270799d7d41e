// Package webtools provides the tools that reach the web: webSearch, webContent and http.
//
// A model decides where they go, and a page that a model has read can talk it into anything. So all
// requests of a model go through one guarded client: public addresses and web ports only, checked
// when a connection is made and again for each redirect, with limits on time, size and headers. See
// [Config] for what an operator can allow.
package webtools

import "voicebridge/toolkit"

// New returns the tools webContent, http and, if a search service is configured, webSearch. They
// share one guarded client and are safe for concurrent use.
func New(config Config) []toolkit.Tool {
	config = config.withDefaults()
	g := newGuard(config)
	tools := []toolkit.Tool{newContent(config, g), newHTTP(config, g)}
	if s := newSearcher(config); s != nil {
		tools = append(tools, newSearch(config, s))
	}
	return tools
}
