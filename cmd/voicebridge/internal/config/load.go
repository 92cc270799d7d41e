package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"voicebridge/assistant"
	"voicebridge/assistant/schema"
	"voicebridge/realtime/live"
	"voicebridge/realtime/ws"
	"voicebridge/toolkit/webhook"
	"voicebridge/web"
	"voicebridge/web/access"
)

// Sources are where settings come from.
type Sources struct {
	// File is the path of the YAML file given by flag; empty means VOICEBRIDGE_CONFIG, else
	// voicebridge.yaml if it exists.
	File string
	// Environ is the environment, as returned by os.Environ.
	Environ []string
	// Flags are the given flags, by key.
	Flags map[string]any
	// Offline is set for commands that serve nobody: they accept any address without authentication.
	Offline bool
}

const defaultFile = "voicebridge.yaml"

// Load reads and checks the settings. Its error names everything that is wrong, not only the first
// problem.
func Load(src Sources) (Config, error) {
	l := newLoader()
	l.readFile(src)
	l.readEnvironment(src.Environ)
	l.readFlags(src.Flags)
	l.decode()
	l.readKeys(&l.cfg.Cascade, src.Environ, "")
	l.nameUpstream(src.Environ, Defaults().Realtime)
	l.readUpstreams(src.Environ)
	if len(l.cfg.Upstreams) == 0 {
		l.cfg.Upstreams = []Upstream{l.cfg.unlisted()}
	}
	l.nameCascade()
	l.readAssistants(src.Environ)
	l.readHooks(src.Environ)
	l.readLines(src.Environ)
	l.problems = append(l.problems, l.cfg.validate(src.Offline)...)
	if len(l.problems) > 0 {
		return Config{}, &Error{l.problems}
	}
	return l.cfg, nil
}

// Defaults returns the settings of an empty environment.
func Defaults() Config {
	l := newLoader()
	l.decode()
	return l.cfg
}

// LoadLog reads and checks the settings of the log, from the environment and the flags, for a command that reads no
// others.
func LoadLog(src Sources) (Log, error) {
	l := newLoader()
	l.readEnvironment(slices.DeleteFunc(slices.Clone(src.Environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		group, _, _ := strings.Cut(keyOf(name), ".")
		return group != "log"
	}))
	l.readFlags(src.Flags)
	l.decode()
	if len(l.problems) > 0 {
		return Log{}, &Error{l.problems}
	}
	return l.cfg.Log, nil
}

// loader collects the settings of all sources and their problems.
type loader struct {
	values   map[string]any // as in the file
	cfg      Config
	problems []error
	// refused are keys of the file whose problem has already been noted.
	refused map[string]bool
}

func newLoader() *loader {
	return &loader{values: map[string]any{}, refused: map[string]bool{}}
}

func (l *loader) note(err error) {
	if err != nil {
		l.problems = append(l.problems, err)
	}
}

// put sets what is at a path in values. Groups keep what they have besides.
func put(values map[string]any, path []string, value any) {
	name, rest := path[0], path[1:]
	inner, _ := values[name].(map[string]any)
	group, isGroup := value.(map[string]any)
	switch {
	case len(rest) == 0 && !isGroup:
		values[name] = value
		return
	case inner == nil:
		inner = map[string]any{}
		values[name] = inner
	}
	if len(rest) > 0 {
		put(inner, rest, value)
		return
	}
	for name, v := range group {
		put(inner, []string{name}, v)
	}
}

func (l *loader) readFlags(flags map[string]any) {
	for key, value := range flags {
		if list, ok := value.([]string); ok {
			items := []any{}
			for _, item := range list {
				items = append(items, item)
			}
			value = items
		}
		put(l.values, strings.Split(key, "."), value)
		if key == "database_url" {
			l.cfg.Secrets.DatabaseURL = access.Secret{} // the flag takes precedence over the environment
		}
	}
}

func (l *loader) readFile(src Sources) {
	path := cmp.Or(src.File, lookup(src.Environ, "VOICEBRIDGE_CONFIG"))
	asked := path != ""
	text, err := os.ReadFile(cmp.Or(path, defaultFile))
	if errors.Is(err, fs.ErrNotExist) && !asked {
		return
	}
	if err != nil {
		l.note(fmt.Errorf("read settings file (choose another with --config or VOICEBRIDGE_CONFIG): %w", err))
		return
	}
	values, err := document(text)
	if err != nil {
		l.note(fmt.Errorf("read settings file %s: %w", cmp.Or(path, defaultFile), err))
		return
	}
	l.refuseSecrets("", values)
	for name, value := range values {
		put(l.values, []string{name}, value)
	}
}

// document reads a file that is one YAML document.
func document(text []byte) (map[string]any, error) {
	documents := yaml.NewDecoder(bytes.NewReader(text))
	var settings map[string]any
	if err := documents.Decode(&settings); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "map[string]interface {}", "a group of settings"))
	}
	for {
		var more any
		switch err := documents.Decode(&more); {
		case errors.Is(err, io.EOF):
			return settings, nil
		case err != nil:
			return nil, err
		case more != nil:
			return nil, errors.New("it has a second document after ---: put all settings into one")
		}
	}
}

// readEnvironment reads the environment: secrets into Secrets, settings under their keys. If a
// setting is given under two names, the values must agree.
func (l *loader) readEnvironment(environ []string) {
	values := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = strings.TrimSpace(value) // if there are several, the last one counts, as for os/exec
	}
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
	from := map[string]string{} // the variable that set a key or a secret
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		secret, isSecret := secrets[name]
		if of, inFile := strings.CutSuffix(name, inFileSuffix); inFile {
			if secret, isSecret = secrets[of]; isSecret {
				var err error
				if value, err = secretIn([]string{name + "=" + value}, of); err != nil {
					l.note(err)
					continue
				}
				values[name] = value
			} else if resembles(of) {
				l.note(fmt.Errorf("%s: there is no such setting: these are read from files: %s", name, secretFiles()))
				continue
			}
		}
		target := secret.Name
		if !isSecret {
			if target = keyOf(name); target == "" {
				continue
			}
		}
		if other, twice := from[target]; twice && values[other] != value {
			l.note(fmt.Errorf("%s: its value differs from that of %s, which is the same setting", name, other))
			continue
		}
		from[target] = name
		var err error
		if isSecret {
			err = l.cfg.Secrets.set(secret, value)
		} else {
			err = l.set(target, value)
		}
		if err != nil {
			l.note(fmt.Errorf("%s: %w", name, err))
		}
	}
}

// set stores the text of a variable under a key.
func (l *loader) set(key, text string) error {
	f, ok := settingOf(key)
	if !ok && l.isIdle(key) {
		return nil
	}
	if !ok {
		return noSetting(key, Variable)
	}
	value, err := parse(f.Type, text)
	if err == nil {
		put(l.values, strings.Split(key, "."), value)
	}
	return err
}

// decode stores the collected values in the config and notes what is wrong with them.
func (l *loader) decode() {
	r := rules()
	r.Unknown = func(key string) error {
		if l.refused[key] || l.isIdle(key) {
			return nil
		}
		return noSetting(key, func(key string) string { return key })
	}
	for _, p := range r.Read(&l.cfg, l.values) {
		l.note(fmt.Errorf("%s: %w", named(p.Path), p.Reason))
	}
}

// isIdle reports whether a key is one of idle, and notes that.
func (l *loader) isIdle(key string) bool {
	if !idle.MatchString(key) {
		return false
	}
	l.cfg.Notices = append(l.cfg.Notices, key+" has no effect any more: the simulator is no GPT-Live, and what GPT-Live "+
		"delegates is done by text turns on the same thread, with the provider and the model of `text`. Remove it")
	return true
}

// readUpstreams reads the variables that upstreams name.
func (l *loader) readUpstreams(environ []string) {
	for i := range l.cfg.Upstreams {
		u, key := &l.cfg.Upstreams[i], fmt.Sprintf("upstreams[%d].", i)
		if u.APIKeyEnv != "" {
			u.Key = l.readKey(environ, key+"api_key_env", u.APIKeyEnv)
		} else if u.Profile == UpstreamOpenAI || u.Profile == UpstreamLiveName {
			u.Key = cmp.Or(u.Key, l.cfg.Secrets.OpenAIKey)
		}
		if u.Profile == UpstreamOpenAI && u.URL == "" && l.cfg.OpenAIBaseURL != openAIURL {
			u.URL = strings.TrimSuffix(l.cfg.OpenAIBaseURL, "/") + "/realtime"
			if u.By() == TransportWebRTC {
				u.URL += "/calls"
			}
		}
		if u.Profile == UpstreamLiveName && u.URL == "" {
			u.URL = strings.TrimSuffix(l.cfg.OpenAIBaseURL, "/") + "/live/sessions"
		}
		if u.Cascade != nil {
			l.readKeys(u.Cascade, environ, key)
		}
		if u.IsLive() {
			u.Model = cmp.Or(u.Model, live.Model)
		}
		if name := u.HeadersEnv; name != "" {
			var s Secrets
			value, err := secretIn(environ, name)
			if err = errors.Join(err, parseTraceHeaders(&s, value)); err != nil {
				l.note(fmt.Errorf("%s: %w", name, err))
			}
			u.Headers = s.TraceHeaders
		}
	}
}

// readKeys reads the variables that a cascade names.
func (l *loader) readKeys(c *Cascade, environ []string, key string) {
	c.STT.Key = l.readKey(environ, key+"cascade.stt.api_key_env", c.STT.APIKeyEnv)
	c.TTS.Key = l.readKey(environ, key+"cascade.tts.api_key_env", c.TTS.APIKeyEnv)
}

// readKey reads the key that a variable holds, which a setting names.
func (l *loader) readKey(environ []string, setting, name string) (key access.Secret) {
	if !variableName.MatchString(name) {
		return key // reported by its tag, if it is not empty
	}
	value, err := secretIn(environ, name)
	if err == nil {
		err = checkKey(value)
	}
	if err != nil {
		l.note(fmt.Errorf("%s: %w", name, err))
	} else if value == "" {
		l.note(fmt.Errorf("%s: %s is not set", named(setting), name))
	}
	return access.NewSecret(value)
}

// readAssistants reads the assistants of the settings, and the variables that hold their secrets.
func (l *loader) readAssistants(environ []string) {
	for i, given := range l.cfg.Assistants {
		key := fmt.Sprintf("assistants[%d]", i)
		a, err := readAssistant(given, environ, l.cfg.AssistantNames())
		if e, ok := errors.AsType[*assistant.Error](err); ok {
			err = fmt.Errorf("%s: %s", named(key+"."+e.Path), e.Reason)
		}
		if err == nil && slices.ContainsFunc(l.cfg.Fixed, func(other assistant.Assistant) bool { return other.ID == a.ID }) {
			err = fmt.Errorf("%s: %q is the id of another", named(key+".id"), a.ID)
		}
		if err != nil {
			l.note(err)
			continue
		}
		l.cfg.Fixed = append(l.cfg.Fixed, a)
	}
}

// readHooks reads the variables that hooks name.
func (l *loader) readHooks(environ []string) {
	for i := range l.cfg.Hooks.Endpoints {
		e := &l.cfg.Hooks.Endpoints[i]
		if e.SecretEnv == "" {
			continue // reported by its tag
		}
		var err error
		if e.Secret, err = webhookSecret(environ, e.SecretEnv); err != nil {
			l.note(fmt.Errorf("%s: %w", named(fmt.Sprintf("hooks.endpoints[%d].secret_env", i)), err))
		}
	}
}

// readLines reads the variables that lines name.
func (l *loader) readLines(environ []string) {
	for name, line := range l.cfg.Phone.Lines {
		value, err := secretIn(environ, line.SecretEnv)
		if err == nil && value == "" && line.SecretEnv != "" { // else it was reported by its tag
			err = fmt.Errorf("%s is not set", line.SecretEnv)
		}
		if err = cmp.Or(err, checkKey(value)); err != nil {
			l.note(fmt.Errorf("%s: %w", named("phone.lines."+name+".secret_env"), err))
		}
		line.Name, line.Secret = name, access.NewSecret(value)
		l.cfg.Phone.Lines[name] = line
	}
}

// webhookSecret reads the variable that holds a secret in the form of Standard Webhooks.
func webhookSecret(environ []string, name string) (webhook.Secret, error) {
	value, err := secretIn(environ, name)
	if err != nil {
		return webhook.Secret{}, err
	}
	secret, err := webhook.ParseSecret(value)
	if err != nil || !strings.HasPrefix(value, webhook.Prefix) {
		return secret, fmt.Errorf("%s must be set to whsec_ and 24 to 64 bytes in base64", name)
	}
	return secret, nil
}

// Error is everything that is wrong with the settings.
type Error struct {
	// Problems are the problems found, each naming its setting.
	Problems []error
}

// Error lists them, one per line.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.Error())
	}
	slices.Sort(lines)
	return "these settings are wrong:\n" + strings.Join(slices.Compact(lines), "\n")
}

// Unwrap returns the problems.
func (e *Error) Unwrap() []error { return e.Problems }

// readAssistant reads one of the settings, and the secret that a variable holds.
func readAssistant(given map[string]any, environ []string, known web.AssistantNames) (assistant.Assistant, error) {
	given = maps.Clone(given)
	name, _ := given["secret_env"].(string)
	delete(given, "secret_env")
	raw, err := json.Marshal(given)
	if err != nil {
		return assistant.Assistant{}, &assistant.Error{Path: "name", Reason: "it holds what JSON has no form for"}
	}
	a, err := assistant.Parse(raw)
	if err == nil {
		err = web.CheckAssistant(a, known)
	}
	if err != nil || name == "" {
		return a, err
	}
	secret, err := webhookSecret(environ, name)
	if err != nil {
		return a, &assistant.Error{Path: "secret_env", Reason: err.Error()}
	}
	a.Secret = secret.Reveal()
	return a, nil
}

// AssistantNames returns the names that assistants may use. Those of MCP servers are not known yet.
func (c *Config) AssistantNames() web.AssistantNames {
	out := web.AssistantNames{Providers: c.TextProviders(), Upstreams: []string{}}
	for _, u := range c.Upstreams {
		out.Upstreams = append(out.Upstreams, u.Name)
	}
	return out
}

// usual is what a profile takes that VOICEBRIDGE_UPSTREAM names by itself: the variable of its key, whether it answers
// nobody without one, and names in the place of OpenAI's.
type usual struct {
	key                         string
	needsKey                    bool
	model, voice, transcription string
}

// usuals are those of the profiles whose vendors have one. Source: the vendors' pages about keys and models.
var usuals = map[string]usual{
	"azure": {key: "AZURE_OPENAI_API_KEY", needsKey: true},
	"xai": {
		key: "XAI_API_KEY", needsKey: true, model: "grok-voice-latest", voice: "eve", transcription: "grok-transcribe",
	},
	"inworld": {key: "INWORLD_API_KEY", needsKey: true},
	"localai": {key: "LOCALAI_API_KEY"},
	"vllm":    {key: "VLLM_API_KEY"},
	"qwen":    {key: "DASHSCOPE_API_KEY", needsKey: true, model: "qwen3.8-omni-flash-realtime"},
	"litellm": {key: "LITELLM_API_KEY"},
	"live":    {key: "OPENAI_API_KEY", needsKey: true, model: live.Model},
}

// nameUpstream puts the upstream that the setting upstream names to the head of the list. Without a list, openai and
// the simulator need none, and the address of a WebSocket is an upstream by itself. initial are the settings of an
// empty environment.
func (l *loader) nameUpstream(environ []string, initial Realtime) {
	c := &l.cfg
	listed := slices.IndexFunc(c.Upstreams, func(u Upstream) bool { return u.Name == c.Upstream })
	_, known := ws.Find(c.Upstream)
	known = known || c.Upstream == UpstreamLiveName || c.Upstream == UpstreamCascade
	alone := len(c.Upstreams) == 0
	switch {
	case alone && isSocket(c.Realtime.URL) && c.Upstream != UpstreamSimulator:
		c.Upstreams = []Upstream{{
			Name: "realtime", Profile: "realtime", Transport: TransportWebSocket, URL: c.Realtime.URL, Key: c.VoiceKey(),
			KeyHeader: c.Realtime.APIKeyHeader,
		}}
	case c.Upstream == "" || alone && (c.Upstream == UpstreamOpenAI || c.Upstream == UpstreamSimulator):
	case listed >= 0:
		first := c.Upstreams[listed]
		c.Upstreams = slices.Insert(slices.Delete(c.Upstreams, listed, listed+1), 0, first)
	case known || c.Upstream == UpstreamSimulator:
		c.Upstreams = slices.Insert(c.Upstreams, 0, l.usualUpstream(environ, initial))
	default:
		l.note(fmt.Errorf("%s: %q is neither the name of one of upstreams nor a profile", named("upstream"), c.Upstream))
	}
}

// nameCascade makes the settings cascade an upstream, if there are any: the last one, or the only one where otherwise
// the simulator would answer for want of a key.
func (l *loader) nameCascade() {
	c, used := &l.cfg, l.cfg.Cascade == Defaults().Cascade
	for i := range c.Upstreams {
		if u := &c.Upstreams[i]; u.IsCascade() && u.Cascade == nil {
			u.Cascade, used = &c.Cascade, true
		}
	}
	if used {
		return
	}
	if first := c.Upstreams[0]; first.BuiltIn() && first.Unlisted && c.Upstream == "" {
		c.Upstreams = nil
	}
	c.Upstreams = append(c.Upstreams, Upstream{Name: UpstreamCascade, Profile: UpstreamCascade, Cascade: &c.Cascade})
}

// usualUpstream returns the profile that the setting upstream names, with its usual key.
func (l *loader) usualUpstream(environ []string, initial Realtime) Upstream {
	c, way := &l.cfg, usuals[l.cfg.Upstream]
	u := Upstream{Name: c.Upstream, Profile: c.Upstream}
	if u.Profile == UpstreamSimulator || u.IsCascade() { // whose settings come later
		return u
	}
	if u.URL = c.Realtime.URL; u.URL != "" {
		u.Transport = TransportWebRTC
		if isSocket(u.URL) {
			u.Transport = TransportWebSocket
		}
	}
	if u.Profile == UpstreamLiveName {
		u.Transport = TransportWebRTC
		u.URL = cmp.Or(u.URL, strings.TrimSuffix(c.OpenAIBaseURL, "/")+"/live/sessions")
	}
	if u.Address() == "" {
		l.note(fmt.Errorf("%s: the profile %s needs VOICEBRIDGE_REALTIME_URL", named("upstream"), c.Upstream))
	}
	key, err := secretIn(environ, way.key)
	l.note(err)
	u.Key = cmp.Or(c.Secrets.RealtimeKey, access.NewSecret(key))
	if u.Profile == UpstreamLiveName {
		u.Key = c.VoiceKey()
	}
	elsewhere := u.Profile == UpstreamLiveName && (c.OpenAIBaseURL != openAIURL || c.Realtime.URL != "")
	if way.needsKey && !u.Key.IsSet() && !elsewhere {
		l.note(fmt.Errorf("%s: %s needs %s", named("upstream"), c.Upstream, way.key))
	}
	if err := checkKey(u.Key.Reveal()); err != nil {
		l.note(fmt.Errorf("%s: %w", way.key, err))
	}
	if c.Realtime.Model == initial.Model {
		u.Model = way.model
	}
	if c.Realtime.Voice == initial.Voice {
		u.Voice = way.voice
	}
	if c.Realtime.TranscriptionModel == initial.TranscriptionModel {
		u.TranscriptionModel = way.transcription
	}
	return u
}

// Default returns a setting's value in an empty environment as it is written, the zero value for those of a list's
// entries.
func (s Setting) Default() reflect.Value {
	v := reflect.New(s.Field.Type).Elem()
	if strings.Contains(s.Key, "[") {
		return v
	}
	cfg := Defaults()
	v = reflect.ValueOf(cfg)
	for name := range strings.SplitSeq(s.Key, ".") {
		for n, f := range rules().Fields(v.Type()) {
			if n == name {
				v = v.FieldByIndex(f.Index)
				break
			}
		}
	}
	if v.Kind() == reflect.Int64 {
		return reflect.ValueOf(v.Int() / schema.Unit(s.Key, v.Type()))
	}
	return v
}

// secretKey matches keys that would hold secrets, if there were such settings.
var secretKey = regexp.MustCompile(
	`(?i)(^|[._-])(api_?keys?|key|secret|tokens?|api_tokens|(ssl)?password|passwd|credentials?)$`)

// ofAssistant matches the keys in an assistant under which its owner may write anything.
var ofAssistant = regexp.MustCompile(`^assistants\[\d+\](\.http_tools\[\d+\])?\.(variables|extract|parameters)$`)

// ofLine matches the path of a line's settings.
var ofLine = regexp.MustCompile(`^phone\.lines\.[^.]+\.`)

// entry matches the index of a list's entry.
var entry = regexp.MustCompile(`\[\d+\]`)

// refuseSecrets notes every secret in a value of the file: what is no setting and is called as secrets are, and
// passwords in addresses.
func (l *loader) refuseSecrets(path string, value any) {
	if ofAssistant.MatchString(path) {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			l.refuseSecrets(strings.TrimPrefix(path+"."+key, "."), inner)
		}
		return
	case []any:
		for i, inner := range v {
			l.refuseSecrets(fmt.Sprintf("%s[%d]", path, i), inner)
		}
		return
	case string:
		if u, err := url.Parse(v); err == nil && holdsSecret(u) {
			l.refuseSecret(path)
			return
		}
	}
	key := ofLine.ReplaceAllString(entry.ReplaceAllString(path, "[0]"), "phone.lines[NAME].")
	declared := slices.ContainsFunc(settings(), func(s Setting) bool { return s.Key == key })
	if !declared && secretKey.MatchString(path) {
		l.refuseSecret(path)
	}
}

// holdsSecret reports whether an address has a password, or a parameter that is a secret.
func holdsSecret(u *url.URL) bool {
	for name := range u.Query() {
		if u.Scheme != "" && secretKey.MatchString(name) {
			return true
		}
	}
	_, has := u.User.Password()
	return has
}

func (l *loader) refuseSecret(path string) {
	l.refused[path] = true
	top, _, _ := strings.Cut(strings.ToLower(path), "[")
	where := "the environment"
	if name, ok := secretNames[top]; ok {
		where = name + " in the environment"
	}
	l.note(fmt.Errorf("%s: secrets do not belong in the file: use %s", path, where))
}
