package webtools

import (
	"bytes"
	"fmt"
	"html"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// mediaType returns the type of a body in lower case: the one in the header, else a guess from its
// first bytes.
func mediaType(header http.Header, body []byte) string {
	declared, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err == nil && declared != "application/octet-stream" && declared != "unknown/unknown" {
		return declared
	}
	sniffed, _, err := mime.ParseMediaType(http.DetectContentType(body))
	if err != nil {
		return "application/octet-stream"
	}
	return sniffed
}

// packing returns how a body is compressed that the client has not unpacked, because it did not ask for it: gzip alone
// is unpacked, and leaves the header. It is empty if the body is not compressed.
func packing(header http.Header) string {
	if packing := header.Get("Content-Encoding"); !strings.EqualFold(packing, "identity") {
		return packing
	}
	return ""
}

// describe says what a body is that cannot be read as text.
func describe(header http.Header, body []byte) string {
	if packing := packing(header); packing != "" {
		return fmt.Sprintf("%.60s, compressed by %.20q, which was not asked for", mediaType(header, body), packing)
	}
	return fmt.Sprintf("%.60s", mediaType(header, body))
}

// textual are the media types outside text/ that contain text.
var textual = map[string]bool{
	"application/json": true, "application/xml": true, "application/javascript": true, "application/ecmascript": true,
	"application/x-javascript": true, "application/x-ndjson": true, "application/ndjson": true,
	"application/jsonl": true, "application/yaml": true, "application/x-yaml": true, "application/toml": true,
	"application/sql": true, "application/graphql": true, "application/x-www-form-urlencoded": true,
	"application/x-sh": true, "application/rtf": true, "application/csv": true, "application/xhtml+xml": true,
	"image/svg+xml": true, "message/rfc822": true, "application/sdp": true,
}

func isTextual(mediaType string) bool {
	return strings.HasPrefix(mediaType, "text/") || textual[mediaType] || strings.HasSuffix(mediaType, "+json") ||
		strings.HasSuffix(mediaType, "+xml")
}

func isHTML(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}

// textOf returns a body as UTF-8 without control characters; ok is false if it is not text.
func textOf(header http.Header, body []byte) (text string, ok bool) {
	if !isTextual(mediaType(header, body)) || packing(header) != "" {
		return "", false
	}
	text = toUTF8(header.Get("Content-Type"), body)
	if strings.ContainsRune(text, 0) {
		return "", false
	}
	return clean(text), true
}

// toUTF8 decodes by byte order mark, header, meta element or, if all are missing, by guess.
func toUTF8(contentType string, body []byte) string {
	encoding, name, certain := charset.DetermineEncoding(body, contentType)
	// The guess sees only the first kilobyte.
	if name == "utf-8" || !certain && looksUTF8(body) {
		return string(bytes.TrimPrefix(body, []byte("\xef\xbb\xbf")))
	}
	decoded, err := encoding.NewDecoder().Bytes(body)
	if err != nil {
		return string(body)
	}
	return strings.TrimPrefix(string(decoded), "\uFEFF")
}

// looksUTF8 reports whether a body is UTF-8, perhaps with a truncated last character.
func looksUTF8(body []byte) bool {
	valid := bytes.ToValidUTF8(body, nil)
	return len(body)-len(valid) < utf8.UTFMax && bytes.HasPrefix(body, valid)
}

// clean makes text valid UTF-8 and replaces control characters other than line breaks and tabs,
// which readers cannot use and which take six bytes each in JSON.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return utf8.RuneError
	}, text)
}

// plainLine returns text on one line, without control characters.
func plainLine(text string) string {
	return strings.Join(strings.Fields(clean(text)), " ")
}

// tag matches the tags that services put into texts to make words bold.
var tag = regexp.MustCompile(`</?[A-Za-z][^<>]{0,200}>`)

// plainText removes markup from a text.
func plainText(text string) string {
	return strings.TrimSpace(clean(html.UnescapeString(tag.ReplaceAllString(text, ""))))
}
