package webtools

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"voicebridge/toolkit"
)

const (
	maxHeaders      = 64       // fields of a request, and of a result
	maxHeaderBytes  = 16 << 10 // names and values together, of a request and of a result
	maxHeaderValue  = 4 << 10  // of one field of a result
	maxModelHeaders = 2 << 10  // of what the model receives of a long answer
)

// ownHeaders are fields that the client writes itself; the model's are ignored, since they mean the
// same.
var ownHeaders = []string{"Accept-Encoding", "Content-Length"}

// forbiddenHeaders are fields that change where a request goes, how it is framed, or who seems to have
// sent it (RFC 9110, sections 7.2 and 7.6; RFC 7239; and their common relatives).
var forbiddenHeaders = []string{
	"Connection", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization",
	"Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Cf-Connecting-Ip", "Client-Ip",
	"Fastly-Client-Ip", "Forwarded", "True-Client-Ip", "Via", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Host",
	"X-Original-Url", "X-Original-Host", "X-Real-Ip", "X-Rewrite-Url", "Metadata", "Metadata-Flavor",
	"X-Aws-Ec2-Metadata-Token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds",
}

var forbiddenPrefixes = []string{"Proxy-", "Sec-", "X-Forwarded-"}

// requestHeader checks the headers that a model wants to send. Errors name the field but never its
// value.
func requestHeader(fields map[string]string) (http.Header, error) {
	if len(fields) > maxHeaders {
		return nil, refuse("headers: there are %d fields, the limit is %d", len(fields), maxHeaders)
	}
	header := make(http.Header, len(fields))
	size := 0
	for name, value := range fields {
		value = strings.TrimSpace(value)
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, refuse("headers: %.60q is not a valid name", name)
		}
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case slices.Contains(ownHeaders, canonical):
			continue
		case slices.Contains(forbiddenHeaders, canonical),
			slices.ContainsFunc(forbiddenPrefixes, func(p string) bool { return strings.HasPrefix(canonical, p) }):
			return nil, refuse("headers: %.60s must not be set", canonical)
		case !httpguts.ValidHeaderFieldValue(value):
			return nil, refuse("headers: the value of %.60s contains characters that cannot be sent", canonical)
		case header[canonical] != nil:
			return nil, refuse("headers: %.60s is given twice", canonical)
		}
		if size += len(name) + len(value); size > maxHeaderBytes {
			return nil, refuse("headers: they are longer than %d bytes", maxHeaderBytes)
		}
		header[canonical] = []string{value}
	}
	return header, nil
}

// usefulHeaders are the response headers that a model can use; they come first if there is no room
// for all.
var usefulHeaders = []string{
	"content-type", "location", "retry-after", "www-authenticate", "link", "etag", "last-modified", "content-length",
	"date",
}

// responseHeader returns the fields with lower-case names, repeated values joined by commas, up to
// limit bytes.
func responseHeader(header http.Header, limit int) map[string]string {
	byName := make(map[string]string, len(header))
	names := make([]string, 0, len(header))
	for name, values := range header {
		name = strings.ToLower(name)
		byName[name] = toolkit.Head(plainLine(strings.Join(values, ", ")), maxHeaderValue)
		names = append(names, name)
	}
	rank := func(name string) int {
		if i := slices.Index(usefulHeaders, name); i >= 0 {
			return i
		}
		return len(usefulHeaders)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a, b))
	})
	shown := map[string]string{}
	for _, name := range names {
		limit -= len(name) + len(byName[name])
		if limit < 0 || len(shown) == maxHeaders {
			break
		}
		shown[name] = byName[name]
	}
	return shown
}
