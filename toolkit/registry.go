package toolkit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// MaxName limits the length of a tool's name, in bytes. It is OpenAI's limit for function names
// (Realtime API reference, session.tools).
const MaxName = 64

// MaxOffered is how many tools a model is offered. OpenAI rejects a request with more, as other vendors
// do (Chat Completions API reference, tools).
const MaxOffered = 128

// ErrDuplicate is wrapped by errors about two tools with the same name.
var ErrDuplicate = errors.New("the name is taken")

// Entry is a tool in a registry with its executor and, for MCP, its server.
type Entry struct {
	Tool     Tool
	Executor Executor
	// Server is the MCP server's configured name, else empty.
	Server string
	// Asks means that each call needs the user's approval, whatever the settings say.
	Asks bool
	// Unchecked means that the arguments are only checked to be a JSON object: the executor checks
	// the rest. It is for schemas of MCP servers that our validator cannot read.
	Unchecked bool

	// made is what a registry has derived from the entry: others that get it from there need not do so again.
	made *registered
}

// registered is an entry with what was derived from it when it was added. It never changes, so clones
// of a registry share it.
type registered struct {
	entry  Entry
	name   string
	def    Definition      // with a name and parameters that models' APIs accept
	schema json.RawMessage // of the arguments; nil: the executor checks them
}

// Registry holds the tools of a session by name. It is safe for concurrent use.
type Registry struct {
	mu    sync.RWMutex
	tools map[string]*registered // it is replaced, never changed: clones share it
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{tools: make(map[string]*registered)}
}

// Add adds one tool. It rejects a name that is not [A-Za-z0-9_-]{1,64}, parameters that are not a
// JSON Schema of type object, and a second tool with the same name: that error wraps [ErrDuplicate] and
// names both executors.
func (r *Registry) Add(e Entry) error { return r.Replace(nil, []Entry{e}) }

// Replace removes the named tools and adds the given ones in one step: completely or, if an entry
// is rejected as by Add, not at all. Unknown names are ignored, and running calls of a removed tool
// go on.
func (r *Registry) Replace(remove []string, add []Entry) error {
	checked := make([]*registered, 0, len(add))
	for _, e := range add {
		t, err := register(e)
		if err != nil {
			return err
		}
		checked = append(checked, t)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	added := make(map[string]*registered, len(checked))
	for _, t := range checked {
		name := t.name
		taken := added[name]
		if old := r.tools[name]; taken == nil && old != nil && !slices.Contains(remove, name) {
			taken = old
		}
		if taken != nil {
			return fmt.Errorf("add tool %q (%s): %w by a tool of the executor %s",
				name, t.entry.source(), ErrDuplicate, taken.entry.source())
		}
		added[name] = t
	}
	tools := maps.Clone(r.tools)
	for _, name := range remove {
		delete(tools, name)
	}
	maps.Copy(tools, added)
	r.tools = tools
	return nil
}

// Lookup returns the tool with that name, which may be that of its definition.
func (r *Registry) Lookup(name string) (Entry, bool) {
	t, ok := r.lookup(name)
	if !ok {
		return Entry{}, false
	}
	return t.entry, true
}

func (r *Registry) lookup(name string) (*registered, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if t, ok := r.tools[name]; ok {
		return t, true
	}
	for _, t := range r.tools {
		if t.def.Name == name {
			return t, true
		}
	}
	return nil, false
}

// Len returns the number of tools.
func (r *Registry) Len() int {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.tools)
}

// Definitions returns the definitions of the first [MaxOffered] tools for a model, in a stable order
// (client, app, MCP, then by name), so that a prompt cache sees equal prefixes. Names are as [ModelName] writes them,
// parameters never empty.
func (r *Registry) Definitions() []Definition {
	sorted := r.sorted()
	sorted = sorted[:min(len(sorted), MaxOffered)]
	defs := make([]Definition, len(sorted))
	for i, t := range sorted {
		defs[i] = t.def
	}
	return defs
}

// Entries returns all tools in the order of Definitions.
func (r *Registry) Entries() []Entry {
	sorted := r.sorted()
	entries := make([]Entry, len(sorted))
	for i, t := range sorted {
		entries[i] = t.entry
	}
	return entries
}

// Clone returns an independent registry of the same tools: the server's tools are cloned for a
// call, which then adds its client's.
func (r *Registry) Clone() *Registry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return &Registry{tools: r.tools}
}

func (r *Registry) sorted() []*registered {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.SortedFunc(maps.Values(r.tools), func(a, b *registered) int {
		return cmp.Or(a.entry.Executor.rank()-b.entry.Executor.rank(),
			cmp.Compare(a.def.Name, b.def.Name))
	})
}

func register(e Entry) (*registered, error) {
	if e.made != nil {
		return e.made, nil
	}
	if e.Tool == nil {
		return nil, errors.New("add tool: the entry has no tool")
	}
	def := e.Tool.Definition()
	if err := CheckName(def.Name); err != nil {
		return nil, fmt.Errorf("add tool: %w", err)
	}
	if e.Executor.rank() < 0 {
		return nil, fmt.Errorf("add tool %q: unknown executor %q", def.Name, e.Executor)
	}
	if len(def.Parameters) == 0 {
		def.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	t := &registered{entry: e, name: def.Name, def: def}
	t.def.Name = ModelName(def.Name)
	t.entry.made = t
	if e.Unchecked {
		t.def.Parameters = forModels(def.Parameters)
		return t, nil
	}
	if err := CheckParameters(def.Parameters); err != nil {
		return nil, fmt.Errorf("add tool %q (%s): %w", def.Name, e.source(), err)
	}
	t.schema, t.def.Parameters = def.Parameters, forModels(def.Parameters)
	return t, nil
}

// executors are in the order of names.
var executors = []Executor{ExecutorClient, ExecutorApp, ExecutorMCP}

// rank returns the executor's position in the order of names; -1 if it is unknown.
func (e Executor) rank() int { return slices.Index(executors, e) }

func (e Entry) source() string {
	if e.Server != "" {
		return fmt.Sprintf("%s, server %q", e.Executor, e.Server)
	}
	return string(e.Executor)
}

// CheckName returns why a model's API would refuse the name of a tool, nil if it would not.
func CheckName(name string) error {
	if name == "" {
		return errors.New("the tool's name is empty")
	}
	if len(name) > MaxName {
		return fmt.Errorf("the tool's name %q… is longer than %d characters", name[:MaxName], MaxName)
	}
	for _, c := range []byte(name) {
		if !NameByte(c) {
			return fmt.Errorf("the tool's name %q contains a character other than A-Z, a-z, 0-9, _ and -", name)
		}
	}
	return nil
}

// CleanName replaces with _ what a tool's name may not contain.
func CleanName(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && NameByte(byte(r)) {
			return r
		}
		return '_'
	}, name)
}

// ModelName returns the name of a tool, which need not exist, as every model takes it: Gemini and Kimi refuse a request
// with one that does not begin with a letter.
func ModelName(name string) string {
	clean := cmp.Or(CleanName(name), "unknown")
	if first := clean[0] | 0x20; first < 'a' || first > 'z' {
		return MarkedName("t_"+clean, name)
	}
	return clean[:min(len(clean), MaxName)]
}

// MarkedName returns a name with eight hexadecimal digits of the hash of what it stands for, at most [MaxName] long.
func MarkedName(name, whole string) string {
	sum := sha256.Sum256([]byte(whole))
	suffix := "_" + hex.EncodeToString(sum[:4])
	return name[:min(len(name), MaxName-len(suffix))] + suffix
}

// NameByte reports whether a tool's name may contain the byte.
func NameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

type waitingKey struct{}

// WithWaiting returns a context in which report gets the name of a server whose tools are waited for.
func WithWaiting(ctx context.Context, report func(server string)) context.Context {
	return context.WithValue(ctx, waitingKey{}, report)
}

// Waiting reports that a server's tools are waited for.
func Waiting(ctx context.Context, server string) {
	if report, ok := ctx.Value(waitingKey{}).(func(string)); ok {
		report(server)
	}
}
