package webtools

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func BenchmarkReadPage(b *testing.B) {
	page := []byte("<html><head><title>T</title></head><body><nav><a href=/>Home</a></nav><article><h1>T</h1>" +
		strings.Repeat("<p>Some words, with <a href='/x'>a link</a>, commas, and <b>more</b> words to read.</p>\n", 5000) + "</article></body></html>")
	address := &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
	header := http.Header{"Content-Type": {"text/html; charset=utf-8"}}
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readPage(address, header, page); err != nil {
			b.Fatal(err)
		}
	}
}
