package toolkit

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
)

// Masked stands where a secret was.
const Masked = "[masked]"

// maskedNames are the ends of the names of fields that hold secrets, in lower
// case and without - and _.
var maskedNames = []string{
	"authorization", "cookie", "apikey", "token", "secret", "password", "passwd", "passphrase", "privatekey", "credential", "credentials",
}

// Mask returns a JSON text with the strings below fields that are named like
// secrets (Authorization, api_key, password, …) replaced by [Masked], at any
// depth, for what is kept and shown of a tool call. Everything else stays as it
// is, byte for byte. A text that is no JSON comes back unchanged.
func Mask(data []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	m := masker{data: data, decoder: d}
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
	out     []byte
	kept    int // how much of data is in out, or replaced there
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
	if _, isText := token.(string); isText && secret {
		m.replace()
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
		if err := m.value(secret || IsSecretName(name)); err != nil {
			return err
		}
	}
	_, err := m.decoder.Token()
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// replace puts the mask in place of the string that was just read.
func (m *masker) replace() {
	end := int(m.decoder.InputOffset())
	// The decoder tells where a token ends. A string begins at the first quote
	// after the one before it, which white space and a colon or comma follow.
	start := m.start(end)
	m.out = append(m.out, m.data[m.kept:start]...)
	m.out = append(m.out, '"')
	m.out = append(m.out, Masked...)
	m.out = append(m.out, '"')
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

// IsSecretName says whether a field of this name holds a secret.
func IsSecretName(name string) bool {
	plain := separators.Replace(strings.ToLower(name))
	for _, end := range maskedNames {
		if strings.HasSuffix(plain, end) {
			return true
		}
	}
	return false
}
