package speech_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/speech"
)

// wire answers requests as a connection would that ends with the request's context.
type wire func(r *http.Request) (status int, header http.Header, send func(io.Writer))

func (answer wire) RoundTrip(r *http.Request) (*http.Response, error) {
	status, header, send := answer(r)
	if status == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	in, out := io.Pipe()
	stop := context.AfterFunc(r.Context(), func() { _ = out.CloseWithError(r.Context().Err()) })
	go func() {
		send(out)
		stop()
		_ = out.Close()
	}()
	return &http.Response{StatusCode: status, Header: header, Body: in, Request: r}, nil
}

// TestTimes runs out of patience in virtual time.
func TestTimes(t *testing.T) {
	t.Parallel()
	samples := strings.Repeat("ab", 500)
	one := func(w io.Writer) { _, _ = io.WriteString(w, samples) }
	type answer struct {
		status int
		after  string // Retry-After
		send   func(io.Writer)
	}
	whole, nothing := answer{status: 200, send: one}, answer{}
	pause := func(d time.Duration) answer {
		return answer{status: 200, send: func(w io.Writer) {
			for range 3 {
				one(w)
				time.Sleep(d)
			}
		}}
	}
	busy := func(status int, after string) answer { return answer{status, after, func(io.Writer) {}} }
	for name, tt := range map[string]struct {
		answers []answer // the last one for all later requests
		calls   int      // that succeed before
		takes   time.Duration
		asks    int
		kind    llm.ErrorKind
		samples int
	}{
		"the first call":     {[]answer{nothing}, 0, 30 * time.Second, 1, llm.KindTimeout, 0},
		"a later call":       {[]answer{whole, nothing}, 1, 10 * time.Second, 2, llm.KindTimeout, 0},
		"only a header":      {[]answer{{200, "", func(w io.Writer) { time.Sleep(time.Minute) }}}, 0, 30 * time.Second, 1, llm.KindTimeout, 0},
		"slow":               {[]answer{pause(4 * time.Second)}, 0, 12 * time.Second, 1, "", 1500},
		"too slow":           {[]answer{pause(6 * time.Second)}, 0, 5 * time.Second, 1, llm.KindTimeout, 500},
		"busy, then not":     {[]answer{busy(503, ""), busy(429, "3"), whole}, 0, 4 * time.Second, 3, "", 500},
		"busy for long":      {[]answer{busy(503, "")}, 0, 30 * time.Second, 31, llm.KindOverloaded, 0},
		"busy for too long":  {[]answer{busy(429, "60")}, 0, 0, 1, llm.KindRate, 0},
		"busy for some time": {[]answer{busy(429, "7")}, 0, 28 * time.Second, 5, llm.KindRate, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(time.Minute) // the server goes on
				asks := 0
				client := &http.Client{Transport: wire(func(*http.Request) (int, http.Header, func(io.Writer)) {
					a := tt.answers[min(asks, len(tt.answers)-1)]
					asks++
					return a.status, http.Header{"Content-Type": {"audio/pcm"}, "Retry-After": {a.after}}, a.send
				})}
				s, err := speech.NewSpeaker(speech.SpeakerConfig{Server: speech.Server{URL: "http://x", HTTPClient: client}})
				testkit.Must(t, err)
				for range tt.calls {
					_, _, err := say(t.Context(), s, "Hello")
					testkit.Must(t, err)
				}
				began := time.Now()
				sound, _, err := say(t.Context(), s, "Hello")
				testkit.Equal(t, time.Since(began), tt.takes, "time")
				testkit.Equal(t, asks, tt.asks, "requests")
				testkit.Equal(t, len(sound), tt.samples, "samples")
				if e, ok := errors.AsType[*llm.Error](err); ok != (tt.kind != "") || ok && e.Kind != tt.kind {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // who listens slowly is no slow server
		s, err := speech.NewSpeaker(speech.SpeakerConfig{Server: speech.Server{URL: "http://x", HTTPClient: &http.Client{
			Transport: wire(func(*http.Request) (int, http.Header, func(io.Writer)) {
				return 200, http.Header{}, pause(time.Second).send
			}),
		}}})
		testkit.Must(t, err)
		for _, err := range s.Speak(t.Context(), "Hello", "", 0) {
			testkit.Must(t, err)
			time.Sleep(time.Minute)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a long utterance has more time
		tr := transcriber(t, speech.Server{URL: "http://x", HTTPClient: &http.Client{
			Transport: wire(func(*http.Request) (int, http.Header, func(io.Writer)) { return 0, nil, nil }),
		}})
		began := time.Now()
		_, _, err := hear(t.Context(), tr, speech.Utterance{Samples: make([]int16, 20*speech.Rate)})
		check(t, err, llm.KindTimeout, 0, "in time")
		testkit.Equal(t, time.Since(began), 50*time.Second, "time")
	})
}

// TestLimits stops servers that send for ever.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"sound": "audio/pcm", "events": "text/event-stream", "text": "text/plain", "page": "text/html"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := speech.Server{URL: "http://x", HTTPClient: &http.Client{
				Transport: wire(func(*http.Request) (int, http.Header, func(io.Writer)) {
					return 200, http.Header{"Content-Type": {kind}}, func(w io.Writer) {
						piece := []byte(strings.Repeat("data: {\"x\":\""+strings.Repeat("x", 9000)+"\"}\n\n", 10))
						for err := error(nil); err == nil; {
							_, err = w.Write(piece)
						}
					}
				}),
			}}
			s, err := speech.NewSpeaker(speech.SpeakerConfig{Server: server})
			testkit.Must(t, err)
			samples, _, err := say(t.Context(), s, "Hello")
			if len(samples) > 9<<20 || err == nil {
				t.Errorf("%d samples, %v", len(samples), err)
			}
			pieces, _, err := hear(t.Context(), transcriber(t, server), speech.Utterance{})
			if len(pieces) > 0 || err == nil {
				t.Errorf("%d pieces, %v", len(pieces), err)
			}
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
