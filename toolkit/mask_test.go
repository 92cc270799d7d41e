package toolkit

import (
	"encoding/json"
	"strings"
	"testing"
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
		"no JSON":             {`password=hunter2`, `password=hunter2`},
		"half JSON":           {`{"password":"p"`, `{"password":"p"`},
		"two texts":           {`{"password":"p"} {}`, `{"password":"p"} {}`},
		"a scalar":            {`"token"`, `"token"`},
		"empty":               {``, ``},
		"deep":                {strings.Repeat(`{"a":`, 500) + `{"token":"t"}` + strings.Repeat(`}`, 500), strings.Repeat(`{"a":`, 500) + `{"token":"[masked]"}` + strings.Repeat(`}`, 500)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := string(Mask([]byte(tt.in))); got != tt.want {
				t.Errorf("Mask(%s) = %s, want %s", tt.in, got, tt.want)
			}
		})
	}
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
