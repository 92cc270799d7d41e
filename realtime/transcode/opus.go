package transcode

import (
	"fmt"
	"sync"

	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
)

// ToOpus returns a Sink for a side that speaks Opus: packets of Opus pass untouched, others are encoded. As with the
// sinks of realtime/rtc, of two packets that are encoded at the same time one is dropped, so that no writer waits.
func ToOpus(sink media.Sink) media.Sink { return &encoded{sink: sink} }

type encoded struct {
	sink media.Sink

	turn    sync.Mutex // only tried, never waited for
	source  uint32
	rate    int
	encoder *opus.Encoder
	samples []int16
	packet  media.Packet
}

func (e *encoded) WriteAudio(p *media.Packet) error {
	if p.Format == (media.Format{}) {
		return e.sink.WriteAudio(p)
	}
	if !e.turn.TryLock() {
		return nil
	}
	defer e.turn.Unlock()
	if e.encoder == nil || p.Source != e.source || p.Format.Rate != e.rate {
		encoder, err := opus.NewEncoder(p.Format.Rate)
		if err != nil {
			return fmt.Errorf("encode audio: %w", err)
		}
		e.encoder, e.source, e.rate = encoder, p.Source, p.Format.Rate
	}
	e.samples = p.Format.Encoding.Decode(e.samples[:0], p.Payload)
	payload, err := e.encoder.Encode(e.samples)
	if err != nil {
		return fmt.Errorf("encode audio: %w", err)
	}
	e.packet = *p
	e.packet.Format, e.packet.Payload = media.Format{}, payload
	return e.sink.WriteAudio(&e.packet)
}
