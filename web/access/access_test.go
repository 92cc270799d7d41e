package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/admission"
	"voicebridge/persistence/persistencetest"
	"voicebridge/web/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that tests can move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

func TestRateLimitForgets(t *testing.T) {
	t.Parallel()
	c := &clock{t: time.Unix(1, 0)}
	l := NewRateLimit(1, c.now)
	for i := range maxAddresses + 10 {
		testkit.Must(t, l.Take(fmt.Sprint(i)))
	}
	if n := len(l.all); n > maxAddresses {
		t.Errorf("%d addresses are kept", n)
	}
	c.advance(time.Hour)
	if err := l.Take("new"); err != nil || len(l.all) != 1 {
		t.Errorf("%d addresses are kept after an hour, err %v", len(l.all), err)
	}
}

// TestExpiredSecretsMakeRoom has as many secrets as are allowed expire.
func TestExpiredSecretsMakeRoom(t *testing.T) {
	t.Parallel()
	c := &clock{t: time.Unix(1_000_000, 0)}
	m, err := newMint(kindSecret, NewSecret("a secret that only tests know"), persistencetest.SQLite(t).Admission, c.now)
	testkit.Must(t, err)
	s := &Secrets{m, 2}
	for i, want := range []bool{true, true, false, true} {
		if i == 3 {
			c.advance(time.Minute)
		}
		_, err := s.Add(t.Context(), ClientSecret{Owner: "alice", Thread: "t", Expires: c.now().Add(time.Minute)})
		if (err == nil) != want {
			t.Errorf("secret %d: %v", i, err)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const canary = "canary-secret"
	hidden := struct{ inner StaticToken }{StaticToken{"alice", NewSecret(canary)}}
	var out strings.Builder
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.Info("m", "secret", hidden.inner.Token, "struct", hidden, "auth", Auth{JWTSecret: hidden.inner.Token})
	encoded, err := json.Marshal(hidden.inner)
	testkit.Must(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+" "+verb, hidden, hidden.inner.Token)
	}
	if all := out.String() + string(encoded); strings.Contains(all, canary) || strings.Contains(all, fmt.Sprintf("%x", canary)) {
		t.Errorf("the secret is in %s", all)
	}
	if NewSecret(canary).Reveal() != canary || NewSecret("").IsSet() {
		t.Error("the secret does not hold its value")
	}
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"EC","crv":"P-256","x":"","y":""},{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		keys, err := parseKeys(body)
		if err == nil && len(keys) == 0 {
			t.Error("no keys and no error")
		}
	})
}

func TestKeysOverHTTP(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]http.RoundTripper{
		"status": roundTrip(func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusInternalServerError, Body: http.NoBody, Request: r}
		}),
		"not JSON": roundTrip(func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("<html>")), Request: r}
		}),
		"endless": roundTrip(func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(endless{}), Request: r}
		}),
		"empty": roundTrip(func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"keys":[]}`)), Request: r}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := newKeySet("https://keys.example", &http.Client{Transport: k}, time.Now)
			token := &jwt.Token{Header: map[string]any{"kid": "x", "alg": "RS256"}, Method: jwt.SigningMethodRS256}
			waited := set.renew(t.Context(), true)
			if _, err := set.of(token); !waited || !errors.Is(err, errUnknownKey) || set.unavailable() == nil {
				t.Errorf("err %v, %v", err, set.unavailable())
			}
		})
	}
}

// TestKeysOfAnEndpointThatHangs has keys that are stale, and an endpoint that does not answer: one token waits for it, and
// not each.
func TestKeysOfAnEndpointThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := true
		set := newKeySet("https://keys.example", &http.Client{Transport: roundTrip(func(r *http.Request) *http.Response {
			body := `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"x","alg":"EdDSA","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`
			if !first {
				<-r.Context().Done()
				body = ""
			}
			first = false
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body)), Request: r}
		})}, time.Now)
		waited := func() time.Duration {
			began := time.Now()
			set.renew(t.Context(), false)
			if _, err := set.of(&jwt.Token{Header: map[string]any{"kid": "x", "alg": "EdDSA"}, Method: jwt.SigningMethodEdDSA}); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		waited()
		time.Sleep(keysStale + time.Second)
		for i, want := range []time.Duration{keysTimeout, 0, 0} {
			testkit.Equal(t, waited(), want, "token %d waited", i)
		}
		time.Sleep(2 * keysTimeout) // for the last fetch
	})
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

func TestNameIn(t *testing.T) {
	t.Parallel()
	for name, want := range map[any]string{"Anna Berg": "Anna Berg", " Anna ": "Anna", "a\nb": "", strings.Repeat("x", 81): "", 7: "", nil: ""} {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "x", "name": name}).SignedString([]byte("key"))
		testkit.Must(t, err)
		testkit.Equal(t, nameIn(token), want, "nameIn(%v)", name)
	}
	testkit.Equal(t, nameIn("alice-token-of-tests"), "", "a static token has the name")
}

// shared is what all instances count together.
type shared struct {
	left int
	err  error
}

func (s *shared) TakeRate(context.Context, string, int) (time.Duration, error) {
	s.left--
	if s.left < 0 {
		return time.Second, s.err
	}
	return 0, s.err
}

// TestGuessesOfAllInstances has a client guess at two of them.
func TestGuessesOfAllInstances(t *testing.T) {
	t.Parallel()
	refused, away := problem.Unauthorized("no"), errors.New("the database is away")
	for name, c := range map[string]struct {
		records *shared
		want    []int
	}{
		"together":             {&shared{left: 3}, []int{401, 401, 401, 429}},
		"without the database": {&shared{err: away}, []int{401, 401, 401, 401}},
	} {
		one, other := newGuesses(3, c.records, time.Now), newGuesses(3, c.records, time.Now)
		for i, want := range c.want {
			err := []*Guesses{one, other}[i%2].wrong(t.Context(), Peer{Client: "10.0.0.1", Remote: "10.0.0.1"}, refused)
			if e, ok := errors.AsType[*problem.Error](err); !ok || e.Status != want {
				t.Errorf("%s: guess %d: %v, want %d", name, i+1, err, want)
			}
		}
	}
}

// TestByteLimit has one owner who uses up their own bytes, and owners who together use up all.
func TestByteLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewByteLimit(10, 4)
		take := func(owner string, n int64) func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			release, err := l.Take(ctx, owner, n)
			if (err != nil) != (release == nil) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: %v", owner, err)
			}
			return release
		}
		first := take("alice", 4)
		if take("alice", 1) != nil {
			t.Error("alice has more than an owner may")
		}
		second, third := take("bob", 4), take("carol", 2)
		if second == nil || third == nil || take("dave", 1) != nil {
			t.Error("the others have not what is left, or more")
		}
		var waits sync.WaitGroup
		waits.Go(func() {
			if release := take("dave", 3); release == nil {
				t.Error("dave does not get what alice gives back")
			} else {
				release()
			}
		})
		synctest.Wait()
		first()
		waits.Wait()
		second()
		third()
		if all := take("erin", 4); all == nil || len(l.owners) != 1 {
			t.Errorf("%d owners are kept", len(l.owners))
		}
	})
}

func TestCountLimit(t *testing.T) {
	t.Parallel()
	l := NewCountLimit(3, 2)
	var first func()
	for i, c := range []struct {
		owner string
		want  bool
	}{{"alice", true}, {"alice", true}, {"alice", false}, {"bob", true}, {"carol", false}} {
		release, ok := l.Take(c.owner)
		if ok != c.want || ok != (release != nil) {
			t.Errorf("%d: %s gets %v", i, c.owner, ok)
		}
		if i == 0 {
			first = release
		}
	}
	first()
	if _, ok := l.Take("carol"); !ok {
		t.Error("what was given back is lost")
	}
}

func TestMayUse(t *testing.T) {
	t.Parallel()
	some := Limits{AllowedModels: []string{"openai/a", "ollama/*"}}
	for name, want := range map[string]bool{"/": true, "openai/a": true, "openai/b": false, "ollama/b": true, "ollama/": true, "/a": true, "x/": false, "x/a": false} {
		provider, model, _ := strings.Cut(name, "/")
		if some.MayUse(provider, model) != want || !(Limits{}).MayUse(provider, model) {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}

// TestSetUpOnThisMachine has the local user start more calls than an address may.
func TestSetUpOnThisMachine(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	c := &clock{t: time.Unix(1, 0)}
	for address, free := range map[string]bool{"127.0.0.1": true, "::ffff:127.0.0.1": true, "::1": true, "192.0.2.1": false, "odd": false} {
		l := NewAllowances(Limits{SetupsPerMinute: 1}, store.Records, store.Admission, false, c.now)
		first, second := l.SetUp(t.Context(), address), l.SetUp(t.Context(), address)
		if first != nil || (second == nil) != free {
			t.Errorf("%s: %v, then %v", address, first, second)
		}
	}
}

func TestHasOpened(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t).Admission
	c := &clock{t: time.Now()}
	m, err := newMint(kindSecret, NewSecret("a secret that only tests know"), store, c.now)
	testkit.Must(t, err)
	secrets := &Secrets{m, 10}
	secret, other := &ClientSecret{Owner: "alice", Thread: "t", id: "one"}, &ClientSecret{Owner: "alice", Thread: "t", id: "two"}
	testkit.Must(t, store.SaveToken(t.Context(), admission.Token{ID: "one", Kind: kindSecret, Owner: "alice", Data: "{}", CreatedAt: c.now(), ExpiresAt: c.now().Add(time.Hour)}, 10))
	for i, want := range []bool{false, true} {
		if got, err := secrets.HasOpened(t.Context(), secret); err != nil || got != want {
			t.Errorf("after %d calls: %v, %v", i, got, err)
		}
		testkit.Must(t, secrets.Opened(t.Context(), secret, fmt.Sprint("call-", i)))
	}
	if got, err := secrets.HasOpened(t.Context(), other); err != nil || got {
		t.Errorf("another one: %v, %v", got, err)
	}
}
