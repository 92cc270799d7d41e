package toolkit

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Masked replaces a secret.
const Masked = "[masked]"

// maskedNames are the ends of the names of secret fields, in lower case and without - and _.
var maskedNames = []string{
	"authorization", "auth", "bearer", "cookie", "token", "jwt", "secret", "credential", "credentials",
	"password", "passwd", "pwd", "passphrase", "passcode",
	"apikey", "secretkey", "privatekey", "accesskey", "authkey", "subscriptionkey", "applicationkey", "signingkey",
	"encryptionkey",
}

// Mask returns a JSON text in which strings below fields named like secrets (Authorization,
// api_key, password, …) are replaced by [Masked], at any depth and even in strings that contain
// JSON. It is for what is saved and shown of a tool call. Parameters with such names in URLs are
// masked, too, and so are the user and the password before a URL's host. Everything else stays the same, byte for byte.
// Text that is not JSON is returned unchanged.
func Mask(data []byte) []byte {
	return maskNested(data, maxMaskNesting, func(text string) string {
		if strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://") {
			return maskWords(userInfo().ReplaceAllString(text, "${1}"+Masked+"@"), parameters())
		}
		return text
	})
}

// maxMaskNesting limits the nesting of JSON in strings of JSON.
const maxMaskNesting = 3

// MaskArguments is [Mask] for the arguments that a model wrote, even malformed ones, and for a
// tool's error. It also looks into other text: a parameter of a URL, a header in a program.
func MaskArguments(text string) string {
	words := func(text string) string {
		return maskWords(userInfo().ReplaceAllString(text, "${1}"+Masked+"@"), secretWords()...)
	}
	if !json.Valid([]byte(text)) {
		return words(text)
	}
	return string(maskNested([]byte(text), maxMaskNesting, words))
}

// maskNested masks a JSON text, the JSON in its strings, and by words all other strings.
func maskNested(data []byte, nesting int, words func(string) string) []byte {
	return mask(data, func(text string) string {
		inner := strings.TrimSpace(text)
		if nesting > 0 && inner != "" && (inner[0] == '{' || inner[0] == '[') && json.Valid([]byte(inner)) {
			return string(maskNested([]byte(text), nesting-1, words))
		}
		return words(text)
	})
}

// secretWords find names with their values in a text: the second group is the name, and what follows
// the first three is the value.
var secretWords = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`(")([\w.\- ]{1,100})("\s*:\s*")(?:[^"\\]|\\.)+`),          // "name": "value
		regexp.MustCompile(`(')([\w.\- ]{1,100})('\s*:\s*')(?:[^'\\]|\\.)+`),          // 'name': 'value
		regexp.MustCompile(`(\\")([\w.\- ]{1,100})(\\"\s*:\s*\\")(?:[^"\\]|\\[^"])+`), // \"name\": \"value
		parameters(),
		// X-Name: value. Prose has colons, too, so only header names count.
		regexp.MustCompile(
			`(?i)(^|[\s"'])((?:proxy-)?authorization|(?:set-)?cookie|x-[\w\-]{1,100})(:[ \t]*)[^\s"'\\][^"'\\\r\n]*`,
		),
	}
})

// parameters finds ?name=value.
var parameters = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[?&;])([\w.\-]{1,100})(=)[^&;#\s"'\\]+`)
})

// userInfo finds what precedes the host in a URL: a user with a password, or a token in place of either.
var userInfo = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(\b[a-zA-Z][a-zA-Z0-9+.\-]{1,20}://)[^\s/?#"'\\<>]{1,1000}@`)
})

// maskWords masks the values of secret names in a text that is not JSON.
func maskWords(text string, patterns ...*regexp.Regexp) string {
	for _, find := range patterns {
		text = find.ReplaceAllStringFunc(text, func(all string) string {
			g := find.FindStringSubmatch(all)
			if !isSecretName(g[2]) {
				return all
			}
			return g[1] + g[2] + g[3] + Masked
		})
	}
	return text
}

// mask replaces the values of secret names, and passes every other string through inner.
func mask(data []byte, inner func(string) string) []byte {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	m := masker{data: data, decoder: d, inner: inner}
	if !json.Valid(data) || m.value(false) != nil {
		return data
	}
	if m.kept == 0 {
		return data
	}
	return append(m.out, data[m.kept:]...)
}

// masker copies a JSON text and replaces secrets on the way.
type masker struct {
	data    []byte
	decoder *json.Decoder
	inner   func(string) string
	out     []byte
	kept    int // how many bytes of data have been copied to out or replaced
}

func (m *masker) value(secret bool) error {
	token, err := m.decoder.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		for m.decoder.More() {
			if err := m.value(secret); err != nil {
				return err
			}
		}
		_, err = m.decoder.Token()
		return err
	case json.Delim('{'):
		return m.object(secret)
	}
	text, isText := token.(string)
	switch {
	case isText && secret:
		m.replace(Masked)
	case isText:
		if masked := m.inner(text); masked != text {
			m.replace(masked)
		}
	}
	return nil
}

func (m *masker) object(secret bool) error {
	for m.decoder.More() {
		key, err := m.decoder.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		if err := m.value(secret || isSecretName(name)); err != nil {
			return err
		}
	}
	_, err := m.decoder.Token()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// replace puts a text in place of the string that was just read.
func (m *masker) replace(text string) {
	end := int(m.decoder.InputOffset())
	// The decoder reports where a token ends. A string begins at the first quote after the previous
	// token, after white space and a colon or comma.
	start := m.start(end)
	m.out = append(m.out, m.data[m.kept:start]...)
	m.out = append(m.out, Encode(text)...)
	m.kept = end
}

// start finds the opening quote of the string that ends at end.
func (m *masker) start(end int) int {
	for i := end - 2; i >= 0; i-- {
		if m.data[i] != '"' {
			continue
		}
		slashes := 0
		for j := i - 1; j >= 0 && m.data[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
	return 0
}

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// isSecretName reports whether a field of this name contains a secret.
func isSecretName(name string) bool {
	plain := separators.Replace(strings.ToLower(name))
	return slices.ContainsFunc(maskedNames, func(end string) bool { return strings.HasSuffix(plain, end) })
}
