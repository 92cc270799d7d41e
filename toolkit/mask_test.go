package toolkit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

func TestMask(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"nothing to hide":     {`{ "url" : "https://example.org", "max_tokens": 5 }`, `{ "url" : "https://example.org", "max_tokens": 5 }`},
		"a header":            {`{"headers":{"Authorization":"Bearer x","Accept":"*/*"}}`, `{"headers":{"Authorization":"[masked]","Accept":"*/*"}}`},
		"several names":       {`{"api_key":"a","x-api-key":"b","accessToken":"c","Set-Cookie":"d","client_secret":"e"}`, `{"api_key":"[masked]","x-api-key":"[masked]","accessToken":"[masked]","Set-Cookie":"[masked]","client_secret":"[masked]"}`},
		"everything below":    {`{"credentials":{"user":"u","list":["p",{"q":"r"}],"n":1},"after":"x"}`, `{"credentials":{"user":"[masked]","list":["[masked]",{"q":"[masked]"}],"n":1},"after":"x"}`},
		"in a list":           {`[{"password":"p"},{"password":""}]`, `[{"password":"[masked]"},{"password":"[masked]"}]`},
		"quotes and escapes":  {`{"token":"a\\\"b\\","next":"\"token\":\"x\""}`, `{"token":"[masked]","next":"\"token\":\"x\""}`},
		"a key with escapes":  {`{"pass\u0077ord":"p"}`, `{"pass\u0077ord":"[masked]"}`},
		"numbers and nothing": {`{"token":5,"secret":null,"cookie":true}`, `{"token":5,"secret":null,"cookie":true}`},
		"JSON in a text":      {`{"body":" {\"token\":\"t\",\"n\":1}","q":"[{\"a\":\"password=x\"}]"}`, `{"body":" {\"token\":\"[masked]\",\"n\":1}","q":"[{\"a\":\"password=x\"}]"}`},
		"an address":          {`{"url":"https://a.org/?q=1&api_key=k&x=<2>#f","text":"see https://a.org/?token=t"}`, `{"url":"https://a.org/?q=1&api_key=[masked]&x=<2>#f","text":"see https://a.org/?token=t"}`},
		"a password":          {`{"url":"https://user:p:@ss@a.org:8080/@x?q=1","text":"at @home"}`, `{"url":"https://[masked]@a.org:8080/@x?q=1","text":"at @home"}`},
		"a token for a user":  {`{"url":"https://ghp_x@a.org/b"}`, `{"url":"https://[masked]@a.org/b"}`},
		"an @ in a path":      {`{"url":"https://a.org/@user:x@b?to=a@b.org"}`, `{"url":"https://a.org/@user:x@b?to=a@b.org"}`},
		"addresses in a text": {`{"body":"[\"http://a.org/?token=t\"]"}`, `{"body":"[\"http://a.org/?token=[masked]\"]"}`},
		"not JSON":            {`password=hunter2`, `password=hunter2`},
		"half JSON":           {`{"password":"p"`, `{"password":"p"`},
		"two texts":           {`{"password":"p"} {}`, `{"password":"p"} {}`},
		"a scalar":            {`"token"`, `"token"`},
		"empty":               {``, ``},
		"deep":                {strings.Repeat(`{"a":`, 500) + `{"token":"t"}` + strings.Repeat(`}`, 500), strings.Repeat(`{"a":`, 500) + `{"token":"[masked]"}` + strings.Repeat(`}`, 500)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, string(Mask([]byte(tt.in))), tt.want, "Mask(%s)", tt.in)
		})
	}
}

func TestMaskArguments(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ in, want string }{
		"as Mask":            {`{"headers":{"Authorization":"Bearer x"},"n":1}`, `{"headers":{"Authorization":"[masked]"},"n":1}`},
		"nothing to hide":    {`{ "question" : "What is a token: a word?", "n": 5 }`, `{ "question" : "What is a token: a word?", "n": 5 }`},
		"JSON in a text":     {`{"body":"{\"user\":\"u\",\"password\":\"p<\"}"}`, `{"body":"{\"user\":\"u\",\"password\":\"[masked]\"}"}`},
		"a list in a text":   {`{"body":" [{\"token\":\"t\"}]"}`, `{"body":" [{\"token\":\"[masked]\"}]"}`},
		"broken in a text":   {`{"body":"{\"token\":\"t"}`, `{"body":"{\"token\":\"[masked]"}`},
		"an address":         {`{"url":"https://a.org/?q=1&api_key=k&x=<2>#f"}`, `{"url":"https://a.org/?q=1&api_key=[masked]&x=<2>#f"}`},
		"a form":             {`{"body":"client_secret=s&grant=g"}`, `{"body":"client_secret=[masked]&grant=g"}`},
		"a program":          {`{"code":"get(u, {'Authorization': 'Bearer x', 'A': 'b'})"}`, `{"code":"get(u, {'Authorization': '[masked]', 'A': 'b'})"}`},
		"a command":          {`{"command":"curl -H 'Authorization: Bearer x' -H \"X-Api-Key: k\" u"}`, `{"command":"curl -H 'Authorization: [masked]' -H \"X-Api-Key: [masked]\" u"}`},
		"headers in a text":  {`{"raw":"Accept: a\r\nCookie: a=b; c=d\r\nHost: h"}`, `{"raw":"Accept: a\r\nCookie: [masked]\r\nHost: h"}`},
		"half JSON":          {`{"password":"p","a":"b"`, `{"password":"[masked]","a":"b"`},
		"less than half":     {`{"a":{"api_key":"sk-1\"2`, `{"a":{"api_key":"[masked]`},
		"two texts":          {`{"password":"p"} {"secret":"s"}`, `{"password":"[masked]"} {"secret":"[masked]"}`},
		"a text, half":       {`{"body":"{\"token\":\"t\"}"`, `{"body":"{\"token\":\"[masked]\"}"`},
		"not JSON":           {`password=hunter2`, `password=[masked]`},
		"a password":         {`{"url":"https://user:pass@a.org","to":"a@b.org"}`, `{"url":"https://[masked]@a.org","to":"a@b.org"}`},
		"in a program":       {`{"code":"connect('postgres://me:pw@db/x'); fetch(\"https://me:pw@a.org\")"}`, `{"code":"connect('postgres://[masked]@db/x'); fetch(\"https://[masked]@a.org\")"}`},
		"a password, half":   {`{"url":"https://user:pass@a.org`, `{"url":"https://[masked]@a.org`},
		"a password's error": {`Get "https://user:pass@a.org/x": refused`, `Get "https://[masked]@a.org/x": refused`},
		"an error":           {`https://a.org/?api_key=k: connection refused`, `https://a.org/?api_key=[masked] connection refused`},
		"empty":              {``, ``},
		"deep in texts":      {`{"a":"{\"b\":\"{\\\"token\\\":\\\"t\\\"}\"}"}`, `{"a":"{\"b\":\"{\\\"token\\\":\\\"[masked]\\\"}\"}"}`},
		"numbers stay":       {`{"token":5,"n":1e400}`, `{"token":5,"n":1e400}`},
		"a name with blanks": {`{"api key":"k"`, `{"api key":"[masked]"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, MaskArguments(tt.in), tt.want, "MaskArguments(%s)", tt.in)
		})
	}
}

func TestIsSecretName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Authorization": true, "Proxy-Authorization": true, "Set-Cookie": true, "x-api-key": true, "accessToken": true, "client secret": true,
		"secretKey": true, "secret_key": true, "secretAccessKey": true, "aws_secret_access_key": true, "access_key": true, "X-Auth-Key": true,
		"Ocp-Apim-Subscription-Key": true, "DD-APPLICATION-KEY": true, "signing_key": true, "encryptionKey": true,
		"pwd": true, "passcode": true, "jwt": true, "bearer": true, "auth": true, "basic_auth": true,
		"": false, "key": false, "keys": false, "author": false, "authority": false, "max_tokens": false, "tokens": false, "secretary": false,
		"primary_key": false, "keyboard": false, "access_key_id": false, "authenticated": false, "password_hint": false,
	} {
		if got := isSecretName(name); got != want {
			t.Errorf("isSecretName(%q) = %v", name, got)
		}
	}
}

func FuzzMaskArguments(f *testing.F) {
	for _, seed := range []string{`{"body":"{\"token\":\"a\"}","x":[1,{"password":"\\"}]}`, `{"secret":"`, `a?token=b`, `"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out := MaskArguments(text)
		if json.Valid([]byte(text)) && !json.Valid([]byte(out)) {
			t.Errorf("MaskArguments(%q) = %q", text, out)
		}
	})
}

func FuzzMask(f *testing.F) {
	for _, seed := range []string{`{"token":"a\"b","x":[1,{"password":"\\"}]}`, `[]`, `"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out := Mask(data)
		if json.Valid(data) != json.Valid(out) {
			t.Errorf("Mask(%q) = %q", data, out)
		}
		if again := Mask(out); string(again) != string(out) {
			t.Errorf("Mask(Mask(%q)) = %q", data, again)
		}
	})
}

// TestHide has digits that a caller has typed in what models and tools make of them.
func TestHide(t *testing.T) {
	t.Parallel()
	call := Call{Name: "pay", Arguments: `{"card":"4711 1234-5678 9010","n":4711,"of":471}`, Secrets: []string{"4711123456789010", "4711"}}
	v := NewRegistry().Invoke("", call, 0, time.Now())
	testkit.Equal(t, string(v.Part().Input), `"{\"card\":\"[masked]\",\"n\":[masked],\"of\":471}"`, "arguments")
	testkit.Equal(t, v.Call.Arguments, call.Arguments, "what the tool gets")
	v.Finish(Result{Output: []byte(`{"said":"4711","n":1}`), Model: "You said 4711."}, time.Now())
	testkit.Equal(t, string(v.Part().Output), `{"said":"[masked]","n":1}`, "output")
	testkit.Equal(t, v.Result().Model, "You said 4711.", "what the model reads")
}
