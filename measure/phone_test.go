package measure

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime/media"
)

// calling is how many calls there are at a time, and how long they last.
const (
	calling = 10
	lasting = 15 * time.Second
)

// BenchmarkPhone makes calls by telephone and calls over WebSocket in turn, in one program, with the same upstream, µ-law on all sides
// and the same to say and to hear, and reports the medians: what one of each uses of a core, in %, and of memory, in MB.
func BenchmarkPhone(b *testing.B) {
	upstream := simulated(b)
	address, pid := program(b, "OPENAI_API_KEY=load", "VOICEBRIDGE_PUBLIC_URL=https://voice.example", "CARRIER_TOKEN=secret",
		fmt.Sprintf(`VOICEBRIDGE_UPSTREAMS=[{"name":"s","profile":"openai","transport":"websocket","url":"%s/v1/realtime"}]`, strings.Replace(upstream, "http", "ws", 1)),
		fmt.Sprintf(`VOICEBRIDGE_PHONE__LINES={"desk":{"carrier":"twilio","number":"+493012345678","owner":"local","secret_env":"CARRIER_TOKEN","max_calls":%d}}`, 2*calling))
	kinds := map[string]func(*testing.B, string, int) caller{"phone": phoneCaller, "socket": socketCaller}
	figures := map[string][]float64{}
	round := func(kind string, measured bool) {
		idle := memory(b, pid)
		ctx, end := context.WithCancel(b.Context())
		var calls sync.WaitGroup
		for n := range calling {
			c := kinds[kind](b, address, n)
			calls.Go(func() { c.talk(ctx) })
		}
		<-time.After(3 * time.Second)
		began, used := time.Now(), processor(b, pid)
		<-time.After(lasting)
		if measured {
			figures[kind+"-cpu-%"] = append(figures[kind+"-cpu-%"], 100*(processor(b, pid)-used).Seconds()/time.Since(began).Seconds()/calling)
			figures[kind+"-MB"] = append(figures[kind+"-MB"], (memory(b, pid)-idle)/calling)
		}
		end()
		calls.Wait()
		<-time.After(3 * time.Second)
	}
	round("socket", false)
	round("phone", false)
	for b.Loop() {
		round("socket", true)
		round("phone", true)
	}
	median := func(what string) float64 {
		all := slices.Sorted(slices.Values(figures[what]))
		b.ReportMetric(all[len(all)/2], what)
		return all[len(all)/2]
	}
	b.ReportMetric(median("phone-cpu-%")/median("socket-cpu-%"), "cpu-ratio")
	median("phone-MB")
	median("socket-MB")
	b.ReportMetric(0, "ns/op")
}

// caller is a client in a call.
type caller struct {
	conn         *websocket.Conn
	sound        string   // an event with 20 ms of it
	asks         []string // events after which the model speaks
	begins, ends []string
}

// talk sends sound until ctx ends, and has the model speak again and again.
func (c caller) talk(ctx context.Context) {
	send := func(events ...string) {
		for _, e := range events {
			_ = c.conn.Write(context.WithoutCancel(ctx), websocket.MessageText, []byte(e)) // reading ends, too
		}
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	reading.Go(func() {
		for {
			_, data, err := c.conn.Read(context.WithoutCancel(ctx))
			if err != nil {
				return
			}
			if strings.HasPrefix(string(data), `{"event":"mark"`) {
				send(string(data))
			}
		}
	})
	send(c.begins...)
	tick := time.NewTicker(media.FrameTime)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-tick.C:
			if send(c.sound); n%200 == 50 {
				send(c.asks...)
			}
		case <-ctx.Done():
			send(c.ends...)
			<-time.After(500 * time.Millisecond)
			_ = c.conn.CloseNow()
			return
		}
	}
}

func dialed(b *testing.B, address string) *websocket.Conn {
	conn, _, err := websocket.Dial(b.Context(), address, nil) //nolint:bodyclose // of a socket
	must(b, err)
	conn.SetReadLimit(-1)
	return conn
}

// quiet20 is 20 ms of µ-law.
var quiet20 = base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\xff", 160)))

func socketCaller(b *testing.B, address string, _ int) caller {
	const format = `{"format":{"type":"audio/pcmu"}}`
	return caller{
		conn:   dialed(b, address+"/v1/realtime?model=gpt-realtime"),
		begins: []string{`{"type":"session.update","session":{"type":"realtime","audio":{"input":` + format + `,"output":` + format + `}}}`},
		sound:  `{"type":"input_audio_buffer.append","audio":"` + quiet20 + `"}`,
		asks: []string{
			`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"DTMF: 1#"}]}}`, `{"type":"response.create"}`,
		},
	}
}

var streamOf = regexp.MustCompile(`wss://voice\.example(/phone/[^"]+)`)

func phoneCaller(b *testing.B, address string, n int) caller {
	call, path := fmt.Sprint("CA", time.Now().UnixNano()), "/phone/twilio/desk"
	form := url.Values{"CallSid": {call}, "CallStatus": {"ringing"}, "From": {fmt.Sprint("+49301111111", n)}}
	mac := hmac.New(sha1.New, []byte("secret"))
	mac.Write([]byte("https://voice.example" + path + "CallSid" + call + "CallStatusringingFrom" + form.Get("From")))
	r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, address+path, strings.NewReader(form.Encode()))
	must(b, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Twilio-Signature", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(r)
	must(b, err)
	defer func() { _ = res.Body.Close() }()
	answer := make([]byte, 4096)
	size, _ := res.Body.Read(answer)
	m := streamOf.FindSubmatch(answer[:size])
	if m == nil {
		b.Fatalf("%d %s", res.StatusCode, answer[:size])
	}
	start, err := json.Marshal(map[string]any{"event": "start", "streamSid": "MZ1", "start": map[string]any{
		"streamSid": "MZ1", "callSid": call, "mediaFormat": map[string]any{"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
	}})
	must(b, err)
	return caller{
		conn: dialed(b, address+string(m[1])), begins: []string{string(start)},
		sound: `{"event":"media","media":{"track":"inbound","payload":"` + quiet20 + `"}}`,
		asks:  []string{`{"event":"dtmf","dtmf":{"digit":"1"}}`, `{"event":"dtmf","dtmf":{"digit":"#"}}`}, ends: []string{`{"event":"stop","stop":{}}`},
	}
}
