package mcptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

// Limits on what one server may offer.
const (
	maxDescription = 1024     // runes
	maxSchema      = 32 << 10 // bytes
	// Some servers name a next page without end, so a list is read up to these limits.
	maxPages    = maxTools
	maxReceived = 16 * maxTools // different names
)

// pages asks the server for its list of tools and yields its pages. Of a list that has no end, or takes
// too long, it yields the beginning.
func (s *server) pages(ctx context.Context, l *link) iter.Seq2[[]*mcp.Tool, error] {
	return func(yield func([]*mcp.Tool, error) bool) {
		var late time.Time // when half of the attempt's time is over
		if deadline, ok := ctx.Deadline(); ok {
			late = time.Now().Add(time.Until(deadline) / 2)
		}
		var cursor string
		for n := 1; ; n++ {
			page, err := l.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
			if err != nil {
				yield(nil, fmt.Errorf("list tools: %w", err))
				return
			}
			if !yield(page.Tools, nil) || page.NextCursor == "" {
				return
			}
			if n == maxPages || !late.IsZero() && time.Now().After(late) {
				s.log.Warn("MCP tools left out, the server's list has ever more pages", "pages_read", n)
				return
			}
			cursor = page.NextCursor
		}
	}
}

// list asks the server for its tools and returns those that are allowed and valid.
func (s *server) list(ctx context.Context, l *link) ([]*tool, error) {
	r, err := s.receiveAll(ctx, l, s.log)
	if err != nil {
		return nil, err
	}
	listed := r.listed
	for _, name := range s.config.AllowedTools {
		if !slices.ContainsFunc(listed, func(t *mcp.Tool) bool { return t.Name == name }) {
			s.log.Warn("allowedTools names a tool that the MCP server does not offer", "tool", name)
		}
	}
	remotes := make([]string, len(listed))
	for i, t := range listed {
		remotes[i] = t.Name
	}
	names := exposedNames(s.name, remotes)
	var offer []*tool
	for _, t := range listed {
		made, err := s.tool(t, names[t.Name])
		if err != nil {
			s.log.Warn("MCP tool left out", "tool", t.Name, "error", err)
			continue
		}
		if made.unchecked {
			s.log.Warn("arguments of an MCP tool are checked only by its server", "tool", t.Name,
				"error", toolkit.CheckParameters(made.def.Parameters))
		}
		offer = append(offer, made)
	}
	if offer, err = s.hold(ctx, offer, r.barred); err != nil {
		return nil, err
	}
	l.listed.Store(r.sum())
	return offer, nil
}

// received are the tools of a list that is being read.
type received struct {
	listed []*mcp.Tool    // to be offered
	barred []*tool        // by the configuration
	times  map[string]int // how often each name has occurred
	log    *slog.Logger
}

// sum changes when the tools to be offered do.
func (r *received) sum() uint64 {
	h := fnv.New64a()
	_, _ = h.Write(toolkit.Encode(r.listed)) // it never fails
	return h.Sum64()
}

// receiveAll asks the server for its tools, and logs what is left out.
func (s *server) receiveAll(ctx context.Context, l *link, log *slog.Logger) (*received, error) {
	r := &received{times: map[string]int{}, log: log}
	for page, err := range s.pages(ctx, l) {
		if err != nil {
			return nil, err
		}
		if !s.receive(r, page) {
			break
		}
	}
	slices.SortFunc(r.listed, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// receive takes a page of the list, and reports whether there is room for more tools.
func (s *server) receive(r *received, page []*mcp.Tool) bool {
	for _, t := range page {
		if len(r.times) == maxReceived {
			r.log.Warn("MCP tools left out, the server lists more and more", "limit", maxReceived)
			return false
		}
		r.times[t.Name]++
		switch n := r.times[t.Name]; {
		case n == 2:
			r.log.Warn("MCP tool left out, the server lists it twice", "tool", t.Name)
		case n > 2:
		case !s.allows(t.Name):
			if made, err := s.tool(t, t.Name); err == nil && len(r.barred) < maxTools {
				r.barred = append(r.barred, made)
			}
		case len(r.listed) == maxTools:
			r.log.Warn("MCP tools left out, there are too many", "limit", maxTools)
			return false
		default:
			r.listed = append(r.listed, t)
		}
	}
	return true
}

// allows reports whether the configuration lets a tool be offered.
func (s *server) allows(name string) bool {
	return (s.config.AllowedTools == nil || slices.Contains(s.config.AllowedTools, name)) &&
		!slices.Contains(s.config.DeniedTools, name)
}

func (s *server) tool(t *mcp.Tool, name string) (*tool, error) {
	if t.Name == "" {
		return nil, errors.New("it has no name")
	}
	own, _ := t.Meta[ownJSON].(string)
	parameters, err := objectSchema(json.RawMessage(own))
	if err != nil {
		return nil, err
	}
	if len(parameters) > maxSchema {
		return nil, fmt.Errorf("its schema is %d bytes long, the limit is %d", len(parameters), maxSchema)
	}
	made := &tool{server: s, owner: s.owner, remote: t.Name, def: toolkit.Definition{
		Name:        name,
		Description: toolkit.Cut(strings.ToValidUTF8(cmp.Or(t.Description, t.Title), "\uFFFD"), maxDescription),
		Parameters:  parameters,
	}}
	made.unchecked = toolkit.CheckParameters(parameters) != nil
	return made, nil
}

// objectSchema returns a schema of type object, without PHP's [] for the empty object. That is what the protocol
// demands of a tool's input, but some servers leave the type out, or say object or null.
func objectSchema(raw json.RawMessage) (json.RawMessage, error) {
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // defaults may be large integers
	switch err := d.Decode(&fields); {
	case len(raw) == 0:
		return json.RawMessage(`{"type":"object","properties":{}}`), nil
	case err != nil || fields == nil:
		return nil, errors.New("its schema is not an object")
	}
	tidySchema(fields, false)
	kinds, _ := fields["type"].([]any)
	if kind := fields["type"]; kind != nil && kind != "object" && !slices.Contains(kinds, any("object")) {
		return nil, fmt.Errorf("its schema is of type %.100s, not object", toolkit.Encode(kind))
	}
	fields["type"] = "object"
	return toolkit.Encode(fields), nil
}

// The keywords of JSON Schema (2020-12 and before) with an object of schemas, with one schema, and with data.
var (
	manySchemas = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	oneSchema   = []string{
		"additionalProperties", "items", "contains", "not", "if", "then", "else", "propertyNames",
		"unevaluatedProperties", "unevaluatedItems", "additionalItems",
	}
	noSchema = []string{"default", "const", "enum", "examples"}
)

// tidySchema makes objects of the empty lists in a schema that stand for them; named means that it is an object of
// schemas.
func tidySchema(node any, named bool) {
	switch node := node.(type) {
	case []any: // of allOf and the like
		for _, one := range node {
			tidySchema(one, false)
		}
	case map[string]any:
		for key, value := range node {
			list, isList := value.([]any)
			many := !named && slices.Contains(manySchemas, key)
			switch {
			case isList && len(list) == 0 && (named || many || slices.Contains(oneSchema, key)):
				node[key] = map[string]any{}
			case named || !slices.Contains(noSchema, key):
				tidySchema(value, many)
			}
		}
	}
}

// separator is between the server and the tool in an exposed name. Such names are never parsed: the
// tool is found by the value registered under the name.
const separator = "__"

// exposedName returns the name under which models know a server's tool: server__tool, with each
// invalid character replaced by _, and at most 64 long. A name that is too long is cut and marked
// with a hash of the whole name; so is a name that could also arise from another server and tool, as those of servers
// whose names are in other scripts, of which nothing is left but _.
func exposedName(server, tool string) string {
	prefix := toolkit.CleanName(server)
	name := prefix + separator + toolkit.CleanName(tool)
	// With such a prefix "a__b" + "c" and "a" + "b__c", or "a_" + "b" and "a" + "_b", are one name.
	// The configuration guarantees that no two other servers have the same prefix.
	ambiguous := strings.Contains(prefix, separator) || strings.HasSuffix(prefix, "_") || isForeign(server)
	if len(name) > toolkit.MaxName || ambiguous {
		return hashedName(server, tool)
	}
	return name
}

// isForeign reports whether a server's name has letters of which its tools' names have nothing.
func isForeign(server string) bool {
	return strings.ContainsFunc(server, func(r rune) bool { return r >= utf8.RuneSelf })
}

// hashedName returns the name with eight hexadecimal digits of the hash of server and tool.
func hashedName(server, tool string) string {
	return toolkit.MarkedName(toolkit.CleanName(server)+separator+toolkit.CleanName(tool), server+"\x00"+tool)
}

// exposedNames returns the exposed name of each tool of a server. If two tools would have the same
// name ("a.b" and "a_b"), both get the hash, so that the names do not depend on the order.
func exposedNames(server string, tools []string) map[string]string {
	taken := map[string]int{}
	for _, tool := range tools {
		taken[exposedName(server, tool)]++
	}
	names := make(map[string]string, len(tools))
	for _, tool := range tools {
		name := exposedName(server, tool)
		if taken[name] > 1 {
			name = hashedName(server, tool)
		}
		names[tool] = name
	}
	return names
}
