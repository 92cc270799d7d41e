package mcptool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"voicebridge/thread"
	"voicebridge/toolkit"
)

const (
	// codeNoAnswer is the SDK's for what its transport could not do (internal/jsonrpc2/wire.go, ErrRejected).
	codeNoAnswer = -32005
	// ownJSON is the key of _meta under which a tool's schema and a call's result pass the SDK as the server wrote
	// them: it would round their large integers, and refuse them all for one odd field.
	ownJSON = "voicebridge/json"
	// maxLogged is how many different oddities of a server are logged.
	maxLogged = 50
)

var errNoMessage = errors.New("its answer is no message of MCP")

// message is one that the SDK can decode. An answer has a result or an error, anything else a method.
type message struct {
	data   []byte
	answer bool
}

// reading reads what a server wrote, by one rule: a piece of another kind than the protocol says is left out, and the
// rest is kept. PHP's [] is the empty object where one is due, and text in place of a number or a boolean is that.
type reading struct{ odd []string }

// read returns the messages in what a server wrote. An answer gets the id of the call to which it belongs by its
// place, if that is not nil. The error says why there is none; then it may be noise.
func (s *server) read(data []byte, call json.RawMessage) ([]message, error) {
	switch depth, values := toolkit.Shape(data); {
	case values > toolkit.MaxValues:
		return nil, fmt.Errorf("its answer has more than %d values", toolkit.MaxValues)
	case depth > thread.MaxDepth:
		return nil, fmt.Errorf("its answer nests deeper than %d levels", thread.MaxDepth)
	}
	data = leading.ReplaceAll(data, nil)
	var list []json.RawMessage
	if !bytes.HasPrefix(data, []byte("[")) {
		list = []json.RawMessage{data}
	} else if json.Unmarshal(data, &list) != nil { // before 2025-06-18, several messages may come at once
		return nil, errNoMessage
	}
	r := &reading{}
	var messages []message
	for _, one := range list {
		if m, ok := r.message(one, call); ok {
			messages = append(messages, m)
		}
	}
	s.logOdd(r.odd)
	if len(messages) == 0 {
		return nil, errNoMessage
	}
	return messages, nil
}

// leading is what may come before a message: white space, a byte order mark, colours of a terminal.
var leading = regexp.MustCompile(`^(?:\s|\x{feff}|\x1b\[[0-9;?]*[A-Za-z])+`)

// logOdd logs what was left out, each once.
func (s *server) logOdd(odd []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range odd {
		if len(s.logged) < maxLogged && !s.logged[what] {
			s.logged[what] = true
			s.log.Warn("a part of what the MCP server sent left out", "part", what)
		}
	}
}

// noAnswer is an error in place of an answer.
func noAnswer(call json.RawMessage, why error) []byte {
	return toolkit.Encode(map[string]any{
		"jsonrpc": "2.0", "id": call, "error": map[string]any{"code": codeNoAnswer, "message": why.Error()},
	})
}

// lastID finds the id at the end of an answer, as the TypeScript SDK writes it. Within a text, its quotes would be
// escaped.
var lastID = regexp.MustCompile(`[,{]\s*"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// answeredBy returns the id of the call to which an answer belongs that cannot be read; nil if it does not say.
func answeredBy(broken []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(leading.ReplaceAll(broken, nil)))
	if brace, _ := d.Token(); brace != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		if err != nil || key == "method" {
			break
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break
		}
		if key == "id" {
			return numberOf(value)
		}
	}
	if found := lastID.FindSubmatch(broken); found != nil {
		return found[1]
	}
	return nil
}

// numberOf returns an id as we give it, a number; nil if it is none.
func numberOf(id json.RawMessage) json.RawMessage {
	id = bytes.Trim(id, `"`)
	var number int64
	if json.Unmarshal(id, &number) != nil || len(id) == 0 || id[0] == 'n' {
		return nil
	}
	return id
}

// message reads a message of JSON-RPC.
func (r *reading) message(raw, call json.RawMessage) (message, bool) {
	fields, err := firstObject(raw)
	if err != nil || call == nil && fields["jsonrpc"] == nil { // others log in JSON
		return message{}, false
	}
	out := map[string]any{"jsonrpc": "2.0"}
	if method := take[string](r, fields, "method"); method != "" {
		out["method"], out["params"] = method, r.params(method, fields)
		var id any
		if json.Unmarshal(fields["id"], &id) == nil && id != nil {
			out["id"] = fields["id"]
		}
		switch id.(type) {
		case nil, string, float64:
			return message{data: toolkit.Encode(out)}, true
		}
		return message{}, false
	}
	id := call
	if id == nil {
		id = numberOf(fields["id"])
	}
	result, has := fields["result"]
	refusal := r.refusal(fields["error"], !has || string(result) == "null")
	if id == nil || refusal == nil && !has {
		return message{}, false
	}
	out["id"] = id
	if refusal != nil {
		out["error"] = refusal
	} else {
		out["result"] = r.result(result)
	}
	return message{toolkit.Encode(out), true}, true
}

// firstObject reads an object, and nothing after it: some servers add warnings.
func firstObject(data []byte) (fields map[string]json.RawMessage, err error) {
	if err = json.NewDecoder(bytes.NewReader(data)).Decode(&fields); err == nil && fields == nil {
		err = errNoMessage
	}
	return fields, err
}

// params reads those of a request or notification.
func (r *reading) params(method string, fields map[string]json.RawMessage) any {
	params := take[map[string]json.RawMessage](r, fields, "params")
	if params == nil {
		return struct{}{}
	}
	if method != "notifications/progress" {
		return params
	}
	return map[string]any{
		"progressToken": take[string](r, params, "progressToken"), "message": take[string](r, params, "message"),
		"progress": take[float64](r, params, "progress"), "total": take[float64](r, params, "total"),
	}
}

// refusal reads the error of an answer; nil if there is none. Of an answer without a result, whatever is there is one.
func (r *reading) refusal(raw json.RawMessage, alone bool) any {
	var text string
	fields, err := firstObject(raw)
	switch {
	case err == nil && (len(fields) > 0 || alone):
		out := map[string]any{"code": cmp.Or(take[int64](r, fields, "code"), -32603)}
		out["message"] = cmp.Or(take[string](r, fields, "message"), toolkit.Cut(string(raw), maxReason))
		if data := fields["data"]; data != nil {
			out["data"] = data
		}
		return out
	case json.Unmarshal(raw, &text) != nil || text == "":
		return nil
	}
	return map[string]any{"code": -32603, "message": text}
}

// result reads what a call returned: the parts that this package needs.
func (r *reading) result(raw json.RawMessage) any {
	fields, err := firstObject(raw)
	if err != nil { // PHP's [], or a content alone
		fields = map[string]json.RawMessage{}
		if string(raw) != "[]" && string(raw) != "null" {
			fields["content"] = raw
		}
	}
	out := map[string]any{}
	for _, key := range []string{
		"protocolVersion", "instructions", "nextCursor", "resultType", "requestState", "cacheScope",
	} {
		if value := take[string](r, fields, key); value != "" {
			out[key] = value
		}
	}
	if ttl := take[int](r, fields, "ttlMs"); ttl > 0 {
		out["ttlMs"] = ttl
	}
	if requests := take[map[string]json.RawMessage](r, fields, "inputRequests"); requests != nil {
		out["inputRequests"] = requests
	}
	versions, discovered := fields["supportedVersions"]
	_, begun := fields["capabilities"]
	switch {
	case discovered:
		out["supportedVersions"] = take[[]string](r, map[string]json.RawMessage{"supportedVersions": versions},
			"supportedVersions")
		fallthrough
	case begun, out["protocolVersion"] != nil:
		out["capabilities"] = r.capabilities(fields)
		out["protocolVersion"] = cmp.Or(take[string](r, fields, "protocolVersion"), oldestProtocol)
	case fields["tools"] != nil:
		out["tools"] = r.tools(fields["tools"])
	default:
		out["content"], out["isError"] = []any{}, take[bool](r, fields, "isError")
		out["_meta"] = map[string]any{ownJSON: string(toolkit.Encode(fields))}
	}
	return out
}

// oldestProtocol is the version of a server that names none.
const oldestProtocol = "2024-11-05"

// capabilities reads whether a server says that its tools have changed.
func (r *reading) capabilities(fields map[string]json.RawMessage) any {
	all := take[map[string]json.RawMessage](r, fields, "capabilities")
	switch string(all["tools"]) {
	case "", "null", "false":
		return struct{}{}
	}
	tools := take[map[string]json.RawMessage](r, all, "tools")
	return map[string]any{"tools": map[string]any{"listChanged": take[bool](r, tools, "listChanged")}}
}

// tools reads a list of tools. Those that only run as tasks (MCP specification 2025-11-25, tasks), such as
// simulate-research-query of server-everything, are left out: the SDK does not know of tasks.
func (r *reading) tools(raw json.RawMessage) any {
	list := []any{}
	for _, one := range elements(raw, "name") {
		fields, err := firstObject(one)
		name := take[string](r, fields, "name")
		if err != nil || name == "" {
			r.leave("a tool without a name", one)
			continue
		}
		if execution := take[map[string]json.RawMessage](r, fields,
			"execution"); take[string](r, execution, "taskSupport") == "required" {
			r.odd = append(r.odd, "the tool "+toolkit.Cut(name, 100)+", which runs only as a task")
			continue
		}
		tool := map[string]any{
			"name": name, "title": take[string](r, fields, "title"),
			"description": take[string](r, fields, "description"),
		}
		if schema := fields["inputSchema"]; schema != nil && string(schema) != "null" && string(schema) != "[]" {
			tool["_meta"], tool["inputSchema"] = map[string]any{ownJSON: string(schema)}, schema
		}
		var decoded any
		if json.Unmarshal(fields["inputSchema"], &decoded) != nil { // one of its numbers is too large
			delete(tool, "inputSchema")
		}
		list = append(list, tool)
	}
	return list
}

func (r *reading) leave(what string, raw json.RawMessage) {
	r.odd = append(r.odd, fmt.Sprintf("%s: %s", what, toolkit.Cut(string(raw), 100)))
}

// elements returns the elements of a list. One that is no list, as it has the key of an element or is a text, is the
// only one; PHP writes a list with gaps as an object.
func elements(raw json.RawMessage, key string) (list []json.RawMessage) {
	if json.Unmarshal(raw, &list) == nil {
		return list
	}
	fields, err := firstObject(raw)
	if err != nil || fields[key] != nil {
		return []json.RawMessage{raw}
	}
	for _, name := range slices.SortedFunc(maps.Keys(fields), func(a, b string) int {
		return cmp.Or(len(a)-len(b), strings.Compare(a, b))
	}) {
		list = append(list, fields[name])
	}
	return list
}

// take returns the value of a key, and zero if it is of another kind.
func take[T any](r *reading, fields map[string]json.RawMessage, key string) (value T) {
	raw := fields[key]
	if len(raw) == 0 || string(raw) == "[]" || json.Unmarshal(raw, &value) == nil {
		return value
	}
	var none T
	value = none
	var text string
	switch into := any(&value).(type) {
	case *string:
		var number json.Number
		if json.Unmarshal(raw, &number) == nil {
			*into = number.String()
			return value
		}
	case *[]string:
		for _, one := range elements(raw, "") {
			if json.Unmarshal(one, &text) == nil {
				*into = append(*into, text)
			}
		}
		return value
	default:
		if json.Unmarshal(raw, &text) == nil && json.Unmarshal([]byte(text), &value) == nil {
			return value
		}
		value = none
	}
	r.leave(key, raw)
	return value
}
