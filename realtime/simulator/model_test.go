package simulator_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pion/rtp"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// driven is a model controlled by the test, and the sink of the audio of its call.
type driven struct {
	session *simulator.Session
	outputs chan string
	packets atomic.Int64
}

func (d *driven) WriteRTP(*rtp.Packet) error { d.packets.Add(1); return nil }

func (d *driven) Output(callID, output string) { d.outputs <- callID + ": " + output }

func (d *driven) Respond() bool {
	d.session.Forget()
	d.session.AddCall("fc_1", "call_1", "clock")
	d.session.Emit(map[string]any{"type": "test.event"})
	return true
}

// TestDrive has another package listen, speak and answer.
func TestDrive(t *testing.T) {
	d := &driven{outputs: make(chan string, 9)}
	b := newBench(t, simulator.Config{Deaf: true, Drive: func(s *simulator.Session) (rtc.AudioSink, simulator.Model) {
		d.session = s
		return d, d
	}})
	c := b.dial(sessionAudio)
	c.send(realtime.ResponseCreate("r"))
	if it := item(t, c.next(realtime.TypeItemAdded)); it.CallID != "call_1" || it.Name != "clock" {
		t.Errorf("item %+v", it)
	}
	c.next("test.event")
	c.send(realtime.FunctionCallOutput("a", "", "call_1", "noon"))
	c.next(realtime.TypeItemDone)
	if e := c.fails("b", realtime.FunctionCallOutput("b", "", "call_1", "again")); e.Code != "invalid_value" {
		t.Errorf("a second output: %+v", e)
	}
	if got := []string{<-d.outputs, <-d.outputs}; !slices.Equal(got, []string{"call_1: noon", "call_1: again"}) {
		t.Errorf("outputs %q", got)
	}
	settings := make(chan any, 1)
	d.session.Do(func() { settings <- d.session.Settings()["model"] })
	if got := <-settings; got != "gpt-realtime-2.1" {
		t.Errorf("model %v", got)
	}
	for packets := 0; packets == 0 || d.packets.Load() == 0; packets, _, _ = c.sink.counts() {
		c.packet([]byte{0xf8, 0xff, 0xfe})
		if err := d.session.WriteRTP(&rtp.Packet{
			Header: rtp.Header{Version: 2, SSRC: 9, SequenceNumber: c.seq, Timestamp: c.mic}, Payload: []byte{0xf8, 0xff, 0xfe},
		}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-c.ctx.Done():
			t.Fatal("no audio arrived")
		}
	}
}
