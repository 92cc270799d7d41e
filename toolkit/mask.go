package toolkit

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
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
	if !json.Valid(data) {
		return data
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var out []byte
	kept := 0   // how many bytes of data have been copied to out or replaced
	secret := 0 // the depth of the secret name above what is read; 0: there is none
	for {
		depth := d.StackDepth()
		if depth < secret {
			secret = 0
		}
		if d.PeekKind() != '"' {
			if _, err := d.ReadToken(); err != nil { // the end
				break
			}
			continue
		}
		raw, err := d.ReadValue()
		var text string
		if err != nil || json.Unmarshal(raw, &text) != nil {
			return data
		}
		masked := Masked
		switch kind, n := d.StackIndex(depth); {
		case kind == '{' && n%2 == 1: // it was a name
			if secret == 0 || secret == depth {
				secret = 0
				if isSecretName(text) {
					secret = depth
				}
			}
			continue
		case secret == 0:
			masked = inner(text)
		}
		if masked != text {
			end := int(d.InputOffset())
			out = append(append(out, data[kept:end-len(raw)]...), Encode(masked)...)
			kept = end
		}
	}
	if kept == 0 {
		return data
	}
	return append(out, data[kept:]...)
}

var separators = strings.NewReplacer("-", "", "_", "", " ", "")

// isSecretName reports whether a field of this name contains a secret.
func isSecretName(name string) bool {
	plain := separators.Replace(strings.ToLower(name))
	return slices.ContainsFunc(maskedNames, func(end string) bool { return strings.HasSuffix(plain, end) })
}

// hide replaces digits that are secret in a text, also if they stand in groups.
func hide(text string, secrets []string) string {
	for _, digits := range secrets {
		grouped := regexp.MustCompile(strings.Join(strings.Split(digits, ""), `[ ./-]?`))
		text = grouped.ReplaceAllLiteralString(text, Masked)
	}
	return text
}
