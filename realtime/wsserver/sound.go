package wsserver

import (
	"slices"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/transcode"
)

// hush is the level, in dBFS, below which there is no sound.
const hush = -70

const (
	// maxUnannounced is how much sound is kept that comes before its beginning was announced: the words of GPT-Live come
	// up to 400 ms after their sound, and several at a time.
	maxUnannounced = 1500 * time.Millisecond
	// maxEarlySound is how much sound may wait for the client beside what is due.
	maxEarlySound = 10 * time.Second
	// maxUnnamed is how much of it may wait for the event that says what it is part of, beside what is due, and
	// maxUnnamedSound how much at all.
	maxUnnamed, maxUnnamedSound = time.Second, maxUnread * time.Millisecond
)

// sound is the model's sound in the client's format.
type sound struct {
	format media.Format
	next   media.Format // what the client has asked for, from the next session.updated on
	reader *transcode.Reader
	bytes  []byte         // sound that is no event yet
	hushed int            // how many bytes of that are quiet at its end, while nothing is heard
	early  []media.Packet // sound that comes before it is heard, and waits for what it is part of to be announced
}

// convert appends the sound of a packet in the client's format.
func (s *sound) convert(sound []byte, p *media.Packet) (more []byte, quiet bool, err error) {
	if p.Format == s.format {
		return append(sound, p.Payload...), false, nil
	}
	if s.reader == nil {
		s.reader = transcode.NewReader(s.format.Rate)
	}
	samples, err := s.reader.Read(p)
	return s.format.Encoding.Append(sound, samples), pcm.Level(samples) < hush, err
}

// pause leaves out the silence between answers, before the next packet.
func (s *sound) pause() {
	if s.reader != nil {
		s.reader.Pause()
	}
}

func (s *sound) length() time.Duration { return s.format.Lasts(len(s.bytes)) }

// trim drops what is too old of the sound.
func (s *sound) trim() {
	if excess := s.length() - maxUnannounced; excess > 0 {
		s.bytes = slices.Delete(s.bytes, 0, int(excess/media.FrameTime)*s.format.Frame())
	}
}

func (s *sound) unnamedSound() (d time.Duration) {
	for i := range s.early {
		d += s.early[i].Format.Lasts(len(s.early[i].Payload))
	}
	return d
}
