package database

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"unicode/utf16"
)

// CleanJSON turns a valid document into one that jsonb accepts: without \u0000, lone surrogates
// and invalid UTF-8. Numbers that no reader could represent become strings.
func CleanJSON(raw []byte) []byte {
	raw = bytes.ToValidUTF8(raw, []byte("\ufffd"))
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			out, i = cleanString(out, raw, i)
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(raw) && strings.IndexByte("0123456789+-.eE", raw[end]) >= 0 {
				end++
			}
			out = appendNumber(out, raw[i:end])
			i = end
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

// cleanString copies the string that begins at i and returns its end.
func cleanString(out, raw []byte, i int) ([]byte, int) {
	out = append(out, '"')
	for i++; raw[i] != '"'; {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		if raw[i+1] != 'u' {
			out = append(out, raw[i], raw[i+1])
			i += 2
			continue
		}
		code := hex4(raw, i+2)
		switch {
		case code == 0:
			i += 6
		case !utf16.IsSurrogate(code):
			out = append(out, raw[i:i+6]...)
			i += 6
		case raw[i+6] == '\\' && raw[i+7] == 'u' && utf16.DecodeRune(code, hex4(raw, i+8)) != '\ufffd':
			out = append(out, raw[i:i+12]...)
			i += 12
		default:
			out = append(out, `\ufffd`...)
			i += 6
		}
	}
	return append(out, '"'), i + 1
}

func hex4(raw []byte, i int) rune {
	n, _ := strconv.ParseUint(string(raw[i:i+4]), 16, 16) // the document is valid
	return rune(n)
}

func appendNumber(out, num []byte) []byte {
	_, err := strconv.ParseFloat(string(num), 64)
	_, exp, _ := strings.Cut(strings.ToLower(string(num)), "e")
	if e, expErr := strconv.Atoi(cmp.Or(exp, "0")); err == nil && expErr == nil && e > -400 && len(num) <= 400 {
		return append(out, num...)
	}
	return append(append(append(out, '"'), num...), '"')
}
