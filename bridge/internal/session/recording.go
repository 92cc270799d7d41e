package session

import (
	"log/slog"
	"time"

	"voicebridge/thread"
)

// recording is the recording of a call, in which messages have their place.
type recording struct {
	*core
	state RecordingState
	began time.Time
}

// begin begins the recording, if there is to be one: the client learns of it first.
func (r *recording) begin() {
	if !r.KeepSound || r.NoticeFirst {
		return
	}
	r.state, r.began = RecordingOn, r.now
	r.tell()
	r.do(Record{On: true})
}

// set pauses the recording or goes on with it, and reports whether there is one.
func (r *recording) set(in SetRecording) {
	recorded := r.state == RecordingOn || r.state == RecordingPaused
	if recorded {
		r.to(in.State)
	}
	r.do(Answer{To: in.Recorded, Yes: recorded})
}

// to pauses a recording or goes on with it.
func (r *recording) to(state RecordingState) {
	if state != r.state && r.phase < draining {
		r.state = state
		if state == RecordingPaused {
			r.do(Record{On: false}) // before the client believes it
			r.tell()
		} else {
			r.tell()
			r.do(Record{On: true})
		}
	}
}

// unheard gives the recording up, because its notice was not heard.
func (r *recording) unheard() {
	r.log(slog.LevelWarn, "call not recorded, the notice of it was not heard to its end")
	r.state = RecordingOff
	r.tell()
}

// failed tells the client that nothing more is kept.
func (r *recording) failed() {
	if r.state != "" && r.phase < ended {
		r.state = RecordingOff
		r.tell()
	}
}

func (r *recording) tell() { r.notify(r.event()) }

func (r *recording) event() recordingEvent {
	return recordingEvent{Type: "bridge.recording", State: r.state}
}

// span returns the place of a sound in the recording; nil if there is none.
func (r *recording) span(from, to time.Time) *thread.AudioSpan {
	if r.began.IsZero() || from.IsZero() || !to.After(from) || !to.After(r.began) {
		return nil
	}
	place := func(at time.Time) int64 { return max(0, at.Sub(r.began).Milliseconds()) }
	return &thread.AudioSpan{StartMS: place(from), EndMS: place(to)}
}
