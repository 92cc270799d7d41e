package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"voicebridge/realtime/opus"
)

const (
	// frame is how many samples are read of each side at a time.
	frame = sampleRate / 50
	// peaksPerSecond is how many values the course of a second's loudness has.
	peaksPerSecond = 20
	peakSamples    = sampleRate / peaksPerSecond
)

// Peaks are how loud each side was in the course of a call: for each twentieth of a second its loudest sample, from 0
// to 100.
type Peaks struct {
	PerSecond int    `json:"per_second"`
	User      []int8 `json:"user"` // as bytes they would become base64
	Assistant []int8 `json:"assistant"`
}

// samplesOf turns a track into samples.
type samplesOf struct {
	in      *oggReader
	decoder *opus.Decoder
	pcm     []int16 // decoded and not yet read
	ended   bool
	level   []int8
	loudest int // of the samples since the last level
	counted int
}

func newSamples(file io.Reader) (*samplesOf, error) {
	decoder, err := opus.NewDecoder(sampleRate)
	if err != nil {
		return nil, err
	}
	return &samplesOf{in: newOggReader(file), decoder: decoder, level: []int8{}}, nil
}

// read fills pcm, at the end with silence, and reports whether there was anything left.
func (s *samplesOf) read(pcm []int16) (bool, error) {
	for len(s.pcm) < len(pcm) && !s.ended {
		packet, err := s.in.next()
		if errors.Is(err, io.EOF) {
			s.ended = true
			break
		}
		if err != nil {
			return false, err
		}
		n := opus.Duration(packet)
		decoded, err := s.decoder.Decode(packet)
		if err != nil || len(decoded) != n { // it might as well have been lost
			decoded = s.decoder.Conceal(n)
		}
		s.pcm = append(s.pcm, decoded...)
	}
	n := copy(pcm, s.pcm)
	s.pcm = s.pcm[:copy(s.pcm, s.pcm[n:])]
	clear(pcm[n:])
	s.count(pcm[:n])
	return n > 0, nil
}

// count adds the loudness of samples to the levels.
func (s *samplesOf) count(pcm []int16) {
	for _, sample := range pcm {
		s.loudest = max(s.loudest, abs(int(sample)))
		if s.counted++; s.counted == peakSamples {
			s.level = append(s.level, int8(s.loudest*100/(1<<15)))
			s.loudest, s.counted = 0, 0
		}
	}
}

// mix writes both tracks as one file, the caller left and the assistant right, and returns their levels. So that calls
// do not feel it, it rests as long as it works.
func mix(ctx context.Context, w io.Writer, user, assistant io.Reader) (Peaks, error) {
	var sides [tracks]*samplesOf
	for track, file := range map[Track]io.Reader{User: user, Assistant: assistant} {
		side, err := newSamples(file)
		if err != nil {
			return Peaks{}, fmt.Errorf("mix recording: %w", err)
		}
		sides[track] = side
	}
	encoder, err := opus.NewStereoEncoder(sampleRate)
	if err != nil {
		return Peaks{}, fmt.Errorf("mix recording: %w", err)
	}
	out := newOgg(w, 2, preSkip)
	var mono [tracks][frame]int16
	stereo := make([]int16, 0, 2*frame)
	began := time.Now()
	for frames := 1; ; frames++ {
		more := false
		for track, side := range sides {
			some, err := side.read(mono[track][:])
			if err != nil {
				return Peaks{}, fmt.Errorf("mix recording: %w", err)
			}
			more = more || some
		}
		if !more {
			return Peaks{PerSecond: peaksPerSecond, User: sides[User].level, Assistant: sides[Assistant].level}, out.close()
		}
		stereo = stereo[:0]
		for i := range frame {
			stereo = append(stereo, mono[User][i], mono[Assistant][i])
		}
		packet, err := encoder.Encode(stereo)
		if err == nil {
			err = out.put(packet, frame)
		}
		if err != nil {
			return Peaks{}, fmt.Errorf("mix recording: %w", err)
		}
		if frames%50 == 0 {
			select {
			case <-ctx.Done():
				return Peaks{}, fmt.Errorf("mix recording: %w", context.Cause(ctx))
			case <-time.After(time.Since(began)):
			}
			began = time.Now()
		}
	}
}
