package web

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/realtime/media"
	"voicebridge/recording"
	"voicebridge/thread"
)

// dropped is a Sink that drops everything.
type dropped struct{}

func (dropped) WriteAudio(*media.Packet) error { return nil }

// spoken saves what was said in a call, and returns the message's id.
func (b *bundle) spoken(t *testing.T, key thread.Key, call string, role thread.Role, audio *thread.AudioSpan) string {
	t.Helper()
	m, err := persistencetest.AppendMessage(t.Context(), b.db, key, thread.Message{
		Role: role, Parts: []thread.Part{thread.TextPart("x")}, Metadata: thread.Metadata{CallID: call, Source: thread.SourceVoice, Audio: audio},
	})
	must(t, err)
	return m.ID
}

// record records a call of 200 ms, and waits until the archive has it. The archive runs until the test ends.
func record(t *testing.T, archive *recording.Archive, owner, call string) {
	t.Helper()
	r, err := archive.Begin(owner, call, func() {})
	must(t, err)
	r.Run(true)
	user, assistant := r.User(dropped{}), r.Assistant(dropped{})
	for i := range 10 {
		must(t, user.WriteAudio(&media.Packet{Source: 1, Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Payload: []byte("\xf8user")}))
		must(t, assistant.WriteAudio(&media.Packet{Source: 2, Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Payload: []byte("\xf8assistant")}))
	}
	r.End()
	persistencetest.Start(t, func(ctx context.Context) error { archive.Run(ctx); return nil })
	for {
		file, _, err := archive.Open(t.Context(), owner, call, "user")
		if err == nil {
			must(t, file.Close())
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("there is no recording: %v", err)
		}
	}
}

// TestRecordings reads the recording of a call as a whole and in parts, with its peaks and the sound of its messages, as its
// owner and as somebody else, and deletes it.
func TestRecordings(t *testing.T) {
	t.Parallel()
	var archive *recording.Archive
	b := setup(t, func(c *Config) {
		tokens(c)
		store, err := recording.NewStore(t.TempDir(), recording.S3Config{})
		must(t, err)
		archive, err = recording.New(recording.Config{Tapes: t.TempDir(), Store: store, Records: c.Store.Recordings})
		must(t, err)
		c.Recordings = archive
	})
	alice, bob := as("alice-token-of-tests"), as("bob-token-of-tests")
	key := b.thread(t, "alice")
	must(t, b.db.Records.SaveCall(t.Context(), key, records.Call{ID: "call-1", StartedAt: time.Now(), EndedAt: new(time.Now())}))
	spoken := func(role thread.Role, audio *thread.AudioSpan) string {
		return "/api/threads/" + key.Thread + "/messages/" + b.spoken(t, key, "call-1", role, audio) + "/audio"
	}
	question, answer, typed := spoken(thread.RoleUser, &thread.AudioSpan{EndMS: 200}), spoken(thread.RoleAssistant, &thread.AudioSpan{StartMS: 50, EndMS: 200}), spoken(thread.RoleUser, nil)
	const path = "/api/calls/call-1/recording"
	wantStatus(t, b.do(t, "GET", path, "", alice), 404)

	record(t, archive, "alice", "call-1")
	for target, want := range map[string]string{path + "?track=user": "user", path + "?track=assistant": "assistant", question: "user", answer: "assistant"} {
		got := b.do(t, "GET", target, "", alice)
		wantStatus(t, got, 200)
		if kind := got.Header.Get("Content-Type"); kind != "audio/ogg" || !strings.HasPrefix(got.body, "OggS") || !strings.Contains(got.body, "\xf8"+want) {
			t.Errorf("%s: %s, %.40q", target, kind, got.body)
		}
		part := b.do(t, "GET", target, "", alice, header("Range", "bytes=0-3"))
		wantStatus(t, part, 206)
		testkit.Equal(t, part.body, "OggS", "%s: the first bytes", target)
	}
	wantStatus(t, b.do(t, "GET", path, "", alice), 200) // both
	var peaks struct {
		PerSecond int `json:"per_second"`
		User      []int
	}
	got := b.do(t, "GET", "/api/calls/call-1/peaks", "", alice)
	wantStatus(t, got, 200)
	must(t, json.Unmarshal([]byte(got.body), &peaks))
	if peaks.PerSecond != 20 || len(peaks.User) < 3 {
		t.Errorf("peaks %s", got.body)
	}
	for target, status := range map[string]int{path + "?track=left": 400, typed: 404, "/api/calls/call-2/recording": 404, "/api/calls/a%00b/peaks": 404} {
		wantStatus(t, b.do(t, "GET", target, "", alice), status)
	}
	for _, target := range []string{path, "/api/calls/call-1/peaks", question} {
		wantStatus(t, b.do(t, "GET", target, "", bob), 404)
	}
	wantStatus(t, b.do(t, "DELETE", path, "", bob), 404)
	wantStatus(t, b.do(t, "DELETE", path, "", alice), 204)
	wantStatus(t, b.do(t, "DELETE", path, "", alice), 404)
	wantStatus(t, b.do(t, "GET", question, "", alice), 404)
}

// TestSharedSound plays the messages of a shared thread by its link, and nothing that the link does not show.
func TestSharedSound(t *testing.T) {
	t.Parallel()
	var archive *recording.Archive
	b := setup(t, func(c *Config) {
		tokens(c)
		store, err := recording.NewStore(t.TempDir(), recording.S3Config{})
		must(t, err)
		archive, err = recording.New(recording.Config{Tapes: t.TempDir(), Store: store, Records: c.Store.Recordings})
		must(t, err)
		c.Recordings = archive
	})
	alice := as("alice-token-of-tests")
	spoken := func(call string) (thread.Key, string) {
		key := b.thread(t, "alice")
		must(t, b.db.Records.SaveCall(t.Context(), key, records.Call{ID: call, StartedAt: time.Now(), EndedAt: new(time.Now())}))
		id := b.spoken(t, key, call, thread.RoleUser, &thread.AudioSpan{EndMS: 200})
		record(t, archive, "alice", call)
		return key, id
	}
	key, question := spoken("shared-1")
	_, other := spoken("private-1")
	gone, err := persistencetest.AppendMessage(t.Context(), b.db, key, thread.Message{
		Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("x")}, Metadata: thread.Metadata{
			CallID: "shared-1", Source: thread.SourceVoice, Audio: &thread.AudioSpan{EndMS: 200},
			Extra: map[string]json.RawMessage{thread.MetadataDiscarded: []byte("true")},
		},
	})
	must(t, err)
	discarded := gone.ID
	typed := b.spoken(t, key, "shared-1", thread.RoleUser, nil)

	made := b.do(t, "POST", "/api/threads/"+key.Thread+"/share", "", alice)
	wantStatus(t, made, 200)
	var link struct{ URL string }
	must(t, json.Unmarshal([]byte(made.body), &link))
	sound := func(id string) string { return link.URL + "/messages/" + id + "/audio" }
	for _, accept := range []string{"text/html", "application/json"} {
		page := b.do(t, "GET", link.URL, "", header("Accept", accept)).body
		for id, want := range map[string]bool{question: true, typed: false, discarded: false, other: false} {
			if strings.Contains(page, sound(id)) != want {
				t.Errorf("%s tells the sound of %s: %t", accept, id, !want)
			}
		}
	}
	got := b.do(t, "GET", sound(question), "")
	wantStatus(t, got, 200)
	if !strings.Contains(got.body, "\xf8user") {
		t.Errorf("the sound is %.40q", got.body)
	}
	part := b.do(t, "GET", sound(question), "", header("Range", "bytes=0-3"))
	wantStatus(t, part, 206)
	for _, id := range []string{other, discarded, typed, "nobody", "a%00b"} {
		wantStatus(t, b.do(t, "GET", sound(id), ""), 404)
	}
	wantStatus(t, b.do(t, "DELETE", "/api/threads/"+key.Thread+"/share", "", alice), 204)
	wantStatus(t, b.do(t, "GET", sound(question), ""), 404)
}

// TestRecord asks for recordings, which the server must allow, and pauses one.
func TestRecord(t *testing.T) {
	t.Parallel()
	alice, bob := as("alice-token-of-tests"), as("bob-token-of-tests")
	for _, records := range []bool{false, true} {
		b := setup(t, func(c *Config) {
			tokens(c)
			if records {
				c.Recordings = new(recording.Archive)
			}
		})
		started, minted := 201, 200
		if !records {
			started, minted = 400, 400
		}
		wantStatus(t, b.do(t, "POST", callsPath+"?record=true", sdpOffer, alice, sdpType), started)
		wantStatus(t, b.do(t, "POST", callsPath+"?record=maybe", sdpOffer, alice, sdpType), 400)
		wantStatus(t, b.do(t, "POST", secretsPath, `{"record":true}`, alice), minted)
		if !records {
			continue
		}
		wantStatus(t, b.do(t, "POST", callsPath, sdpOffer, as(mint(t, b, `{"record":true}`, alice).Value), sdpType), 201)
		for i, start := range b.calls.starts {
			if !start.Record {
				t.Errorf("call %d is not recorded", i)
			}
		}
		path := callsPath + "/recorded/recording"
		wantStatus(t, b.do(t, "POST", path, `{"state":"paused"}`, alice), 200)
		wantStatus(t, b.do(t, "POST", path, `{"state":"off"}`, alice), 400)
		wantStatus(t, b.do(t, "POST", path, `{"state":"paused"}`, bob), 404)
		wantStatus(t, b.do(t, "POST", callsPath+"/other/recording", `{"state":"on"}`, alice), 409)
	}
}

// TestSecretFixesRecording has a page ask for what its client secret does not say, or says otherwise.
func TestSecretFixesRecording(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) {
		tokens(c)
		store, err := recording.NewStore(t.TempDir(), recording.S3Config{})
		must(t, err)
		archive, err := recording.New(recording.Config{Tapes: t.TempDir(), Store: store, Records: c.Store.Recordings})
		must(t, err)
		c.Recordings = archive
	})
	for i, c := range []struct {
		secret, query string
		want          bool
	}{
		{`{}`, "", false}, {`{}`, "?record=true", true}, {`{"record":null}`, "?record=true", true},
		{`{"record":true}`, "", true}, {`{"record":true}`, "?record=false", true}, {`{"record":false}`, "?record=true", false},
	} {
		ek := mint(t, b, c.secret, as("alice-token-of-tests")).Value
		wantStatus(t, b.do(t, "POST", callsPath+c.query, sdpOffer, sdpType, as(ek)), 201)
		if got := b.calls.started()[i]; got.Record != c.want {
			t.Errorf("%s %s: recorded %t", c.secret, c.query, got.Record)
		}
	}
	wrong := b.do(t, "POST", secretsPath, `{"variables":{"a":1}}`, as("alice-token-of-tests"))
	if wantStatus(t, wrong, 400); !strings.Contains(wrong.body, `"param":"variables"`) {
		t.Errorf("the parameter is %s", wrong.body)
	}
}
