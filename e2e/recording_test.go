package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// recordedCalls is the setting with which calls may be recorded.
var recordedCalls = []string{"VOICEBRIDGE_RECORDING__ENABLED=true"}

// oggPackets returns the packets of an Ogg file (RFC 3533) but for the two of its head.
func oggPackets(t *testing.T, file string) (packets [][]byte) {
	t.Helper()
	var packet []byte
	for rest := []byte(file); len(rest) > 0; {
		if len(rest) < 27 || string(rest[:4]) != "OggS" {
			t.Fatalf("no page of Ogg: %.40q", rest)
		}
		segments := int(rest[26])
		table, body := rest[27:27+segments], rest[27+segments:]
		for _, n := range table {
			packet, body = append(packet, body[:n]...), body[n:]
			if n == 255 {
				continue
			}
			packets = append(packets, packet)
			packet = nil
		}
		rest = body
	}
	return packets[2:]
}

// isFill reports whether a packet of a recording takes the place of a gap.
func isFill(packet []byte) bool { return len(packet) <= 3 }

// soundsOf returns the packets of an Ogg file but for its head and what fills gaps.
func soundsOf(t *testing.T, file string) (packets [][]byte) {
	t.Helper()
	return slices.DeleteFunc(oggPackets(t, file), isFill)
}

// tapes lists the recordings that are not finished.
func (r *rig) tapes(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(strings.TrimPrefix(r.database, "sqlite:")), "*", "tapes", "*.tape"))
	must(t, err)
	return paths
}

// trackFile reads a track of a call's recording, as a file, once it is there.
func (r *rig) trackFile(t *testing.T, callID, name string) (file string) {
	t.Helper()
	testkit.Eventually(t, "a recording", func() bool {
		got := r.do(t, http.MethodGet, "/api/calls/"+callID+"/recording?track="+name, "", "")
		file = got.body
		return got.status == http.StatusOK
	})
	return file
}

// track is trackFile for its packets of sound.
func (r *rig) track(t *testing.T, callID, name string) (packets [][]byte) {
	t.Helper()
	return soundsOf(t, r.trackFile(t, callID, name))
}

// sound reads the sound of the message with these words.
func (r *rig) sound(t *testing.T, threadID, words string) (packets [][]byte, at thread.AudioSpan) {
	t.Helper()
	var list struct{ Messages []thread.Message }
	must(t, json.Unmarshal([]byte(r.do(t, http.MethodGet, "/api/threads/"+threadID+"/messages", "", "").body), &list))
	for _, m := range list.Messages {
		if m.Text() != words || m.Metadata.Audio == nil {
			continue
		}
		got := r.do(t, http.MethodGet, "/api/threads/"+threadID+"/messages/"+m.ID+"/audio", "", "")
		if got.status != http.StatusOK {
			t.Fatalf("the sound of %q: %d %s", words, got.status, got.body)
		}
		return soundsOf(t, got.body), *m.Metadata.Audio
	}
	t.Fatalf("of %q no sound is kept", words)
	return nil, at
}

// packets returns what the caller has heard so far.
func (c *caller) packets() [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// among reports how many of the packets are among others, which have them in the same order.
func among(packets, others [][]byte) (n int) {
	for _, p := range packets {
		at := slices.IndexFunc(others, func(o []byte) bool { return bytes.Equal(o, p) })
		if at >= 0 {
			n++
			others = others[at+1:]
		}
	}
	return n
}

// TestRecording records a call with a pause. In the files are the packets that passed, of both sides, and each message's own.
func TestRecording(t *testing.T) {
	t.Parallel()
	takePlace(t)
	r := newRig(t, rigConfig{simulator: simulator.Config{Pace: quick}, environ: recordedCalls})
	c := r.dial(t, request{record: true, session: asksMe})
	if ev := c.next("bridge.recording"); !bytes.Contains(ev.Raw, []byte(`"on"`)) {
		t.Errorf("the client gets %s", ev.Raw)
	}
	c.next("bridge.ready")
	c.speak()
	c.played(spokenAnswer)
	pause := func(state string) {
		status, body := r.post(t, "/v1/realtime/calls/"+c.id+"/recording", "application/json", fmt.Sprintf(`{"state":%q}`, state))
		if status != http.StatusOK {
			t.Fatalf("recording %s: %d %s", state, status, body)
		}
		c.next("bridge.recording")
	}
	pause("paused")
	before := c.packets()
	c.say("Not this.")
	c.played("Well.")
	unheard := c.packets()[len(before):]
	pause("on")
	c.say("Echo: this.")
	c.played("Yes.")
	c.hangUp()
	c.ended()
	spoken := r.track(t, c.id, "user")
	if n := among(spoken, c.spoken); n != len(spoken) || n < len(c.spoken)*9/10 {
		t.Errorf("%d of the %d packets that the caller sent are kept, with %d others", n, len(c.spoken), len(spoken)-n)
	}
	answers := r.track(t, c.id, "assistant")
	if n := among(answers, c.got); n < len(answers)-5 || n < (len(c.got)-len(unheard))*9/10 || n > len(c.got)-len(unheard)/2 {
		t.Errorf("%d of %d packets that the caller got are kept, of which %d came in the pause; %d are others", n, len(c.got), len(unheard), len(answers)-n)
	}
	question, asked := r.sound(t, c.thread, spokenWords)
	if n := among(question, c.spoken); n < len(c.spoken)*8/10 {
		t.Errorf("the question has %d of its %d packets, %+v", n, len(c.spoken), asked)
	}
	answer, answered := r.sound(t, c.thread, spokenAnswer)
	if n := among(answer, before); n < len(before)*8/10 || answered.StartMS < asked.EndMS-1000 {
		t.Errorf("the answer has %d of its %d packets, %+v after %+v", n, len(before), answered, asked)
	}
	for _, path := range []string{"/recording", "/recording?track=both", "/peaks"} {
		if got := r.do(t, http.MethodGet, "/api/calls/"+c.id+path, "", ""); got.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	links := 0
	for _, link := range regexp.MustCompile(`\]\((/api/[^)]*)\)`).FindAllStringSubmatch(r.do(t, http.MethodGet, "/api/threads/"+c.thread+"/export", "", "").body, -1) {
		if got := r.do(t, http.MethodGet, link[1], "", ""); got.status != http.StatusOK || len(oggPackets(t, got.body)) == 0 {
			t.Errorf("the export links to %s: %d", link[1], got.status)
		}
		links++
	}
	if links < 4 { // the call, and what was said in it
		t.Errorf("the export has %d links to sound", links)
	}
	if status := r.do(t, http.MethodDelete, "/api/threads/"+c.thread, "", "").status; status != http.StatusNoContent {
		t.Fatalf("delete the thread: %d", status)
	}
	testkit.Equal(t, r.do(t, http.MethodGet, "/api/calls/"+c.id+"/recording", "", "").status, http.StatusNotFound, "the recording of a deleted thread")
}

// TestRecordingKilled kills the process in a call that is recorded: what was said until a second before is kept.
func TestRecordingKilled(t *testing.T) {
	t.Parallel()
	takePlace(t)
	r := newRig(t, rigConfig{simulator: simulator.Config{Pace: quick}, environ: recordedCalls})
	c := r.dial(t, request{record: true, session: asksMe})
	c.next("bridge.ready")
	c.speak()
	c.played(spokenAnswer)
	last := c.packets()
	testkit.Eventually(t, "the last packet on the tape", func() bool { // it is written once a second
		data := []byte(nil)
		if tapes := r.tapes(t); len(tapes) == 1 {
			var err error
			data, err = os.ReadFile(tapes[0])
			must(t, err)
		}
		return bytes.Contains(data, last[len(last)-1])
	})
	r.kill()
	r.start()
	spoken := r.track(t, c.id, "user")
	if n := among(spoken, c.spoken); n != len(spoken) || n < len(c.spoken)*9/10 {
		t.Errorf("%d of the %d packets that the caller sent are kept, with %d others", n, len(c.spoken), len(spoken)-n)
	}
	answers := r.track(t, c.id, "assistant")
	if n := among(answers, c.got); n < len(answers)-5 || n < len(c.got)*9/10 {
		t.Errorf("%d of the %d packets that the caller got are kept", n, len(c.got))
	}
}
