package access

import "log/slog"

// Secret is a value that must not be printed: a token, a key, a password. It prints as a
// placeholder in every format, even as an unexported field of a struct. The zero value is unset.
type Secret struct{ value *string }

// NewSecret wraps s. An empty s is an unset secret.
func NewSecret(s string) Secret {
	if s == "" {
		return Secret{}
	}
	return Secret{value: &s}
}

// Reveal returns the value, empty if unset.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet reports whether there is a value.
func (s Secret) IsSet() bool { return s.value != nil }

// String implements [fmt.Stringer] without the value.
func (s Secret) String() string {
	if s.value == nil {
		return "(not set)"
	}
	return "(set)"
}

// GoString implements [fmt.GoStringer] without the value.
func (s Secret) GoString() string { return s.String() }

// LogValue implements [slog.LogValuer] without the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText implements [encoding.TextMarshaler] without the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
