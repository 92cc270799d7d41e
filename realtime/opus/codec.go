package opus

import (
	"errors"
	"fmt"

	"github.com/pion/opus"
	"github.com/thesyncim/gopus"
)

// Packets are 20 ms long, the length that every peer takes.
const frameMS = 20

// bitRate is what speech and music need to sound as they came: a measure, which sound that is hard to encode exceeds
// by up to a fifth (VBR). complexity goes from 0 to 10: less than 5 leaves out the filter for the pitch of voices,
// and more costs more, for nothing that can be measured (BenchmarkEncode).
const (
	bitRate    = 48_000
	complexity = 5
)

// largest is the largest packet of one frame (RFC 6716, 3.2.1), with its first byte.
const largest = 1276

// stereoBitRate is for two voices.
const stereoBitRate = 64_000

// Encoder turns the samples of one stream into packets. It keeps state between packets, and is not safe for concurrent
// use.
type Encoder struct {
	opus   *gopus.Encoder
	packet []byte
}

// NewEncoder makes an Encoder. Rates are 8, 12, 16, 24 and 48 kHz.
func NewEncoder(rate int) (*Encoder, error) {
	// 2.5 ms, and not 6.5, which the other way to encode needs.
	return newEncoder(rate, 1, bitRate, gopus.ApplicationLowDelay)
}

// NewStereoEncoder makes an Encoder of two channels, whose samples alternate.
func NewStereoEncoder(rate int) (*Encoder, error) {
	return newEncoder(rate, 2, stereoBitRate, gopus.ApplicationAudio)
}

func newEncoder(rate, channels, bitRate int, application gopus.Application) (*Encoder, error) {
	// Of the two ways in which Opus encodes (RFC 6716, 2.1), the MDCT alone: at this bit rate it sounds as good,
	// takes half the time, forgets a lost packet at once, and is what Pion's encoder will do. For 24 kHz gopus's
	// mixture of both is worse than libopus's.
	e, err := gopus.NewEncoder(gopus.EncoderConfig{SampleRate: rate, Channels: channels, Application: application})
	if err != nil {
		return nil, fmt.Errorf("make opus encoder: %w", err)
	}
	err = errors.Join(
		e.SetMode(gopus.EncoderModeCELT), e.SetFrameSize(rate*frameMS/1000),
		e.SetBitrate(bitRate), e.SetComplexity(complexity),
	)
	if err != nil {
		return nil, fmt.Errorf("set up opus encoder: %w", err)
	}
	e.SetVBRConstraint(false)
	return &Encoder{opus: e, packet: make([]byte, largest)}, nil
}

// Encode returns the packet of 20 ms of samples, for each channel, valid until the next call. Any other number of
// samples is an error.
func (e *Encoder) Encode(pcm []int16) ([]byte, error) {
	n, err := e.opus.EncodeInt16(pcm, e.packet)
	if err != nil {
		return nil, fmt.Errorf("encode opus: %w", err)
	}
	return e.packet[:n], nil
}

// longest is the longest packet in ms (RFC 6716, 2.1.4).
const longest = 120

// Decoder turns the packets of one stream into samples. It keeps state between packets, and is not safe for concurrent
// use.
type Decoder struct {
	opus    opus.Decoder
	rate    int
	pcm     []int16
	conceal concealer
	// repair decodes from the first lost packet on that there is a copy of: Pion's decoder does not know of copies.
	repair *gopus.Decoder
	last   []byte    // packet, with which repair begins
	copied []float32 // of a lost packet
	out    []int16   // of several
}

// NewDecoder makes a Decoder, which takes about 200 KB, and 300 KB more once it has used a copy. Rates are 8, 12, 16,
// 24 and 48 kHz.
func NewDecoder(rate int) (*Decoder, error) {
	d, err := opus.NewDecoderWithOutput(rate, 1)
	if err != nil {
		return nil, fmt.Errorf("make opus decoder: %w", err)
	}
	return &Decoder{opus: d, rate: rate, pcm: make([]int16, rate*longest/1000), conceal: newConcealer(rate)}, nil
}

// Decode returns the samples of a packet, valid until the next call. Stereo is mixed down. A malformed packet is an
// error; the decoder stays usable.
func (d *Decoder) Decode(packet []byte) ([]int16, error) {
	if Duration(packet) == 0 {
		return nil, errors.New("decode opus: malformed packet")
	}
	if IsEmpty(packet) {
		return d.Conceal(Duration(packet) * d.rate / ClockRate), nil
	}
	decode := d.opus.DecodeToInt16
	if d.repair != nil {
		decode = d.repair.DecodeInt16
	} else {
		d.last = append(d.last[:0], packet...)
	}
	n, err := decode(packet, d.pcm)
	if err != nil {
		return nil, fmt.Errorf("decode opus: %w", err)
	}
	pcm := d.pcm[:n]
	d.conceal.heard(pcm)
	return pcm, nil
}

// Conceal returns samples in the place of lost ones, valid until the next call: what was heard last goes on and fades
// to silence within 60 ms.
func (d *Decoder) Conceal(samples int) []int16 { return d.conceal.next(samples) }

// HasCopy reports whether a packet has a copy, of lower quality, of the one before it (in-band FEC, RFC 6716, 4.2.4).
func HasCopy(packet []byte) bool {
	const silkOrHybrid = 16 // and below, of the configurations of section 3.1
	if len(packet) < 2 || packet[0]>>3 >= silkOrHybrid || packet[0]&3 > 1 {
		return false // of several frames of different sizes it is not looked for
	}
	frames := 1 // of SILK, in the first frame
	if config := packet[0] >> 3; config < 12 {
		frames = max(1, int(config%4))
	}
	return packet[1]>>(7-frames)&1 == 1
}

// Recover returns the samples that were lost before a packet, which has a copy of the last of them, valid until the
// next call. Decode that packet next.
func (d *Decoder) Recover(next []byte, samples int) []int16 {
	frame := d.rate * frameMS / 1000
	d.out = d.out[:0]
	if samples > frame {
		d.out = append(d.out, d.Conceal(samples-frame)...)
	}
	if samples < frame || !d.decodeCopy(next, frame) {
		return append(d.out, d.Conceal(min(samples, frame))...)
	}
	copied := d.pcm[:frame]
	for i, s := range d.copied {
		copied[i] = int16(max(-1<<15, min(1<<15-1, s*(1<<15))))
	}
	d.conceal.heard(copied)
	return append(d.out, copied...)
}

// decodeCopy decodes the copy in a packet, and reports whether it has the length of a frame.
func (d *Decoder) decodeCopy(packet []byte, frame int) bool {
	if d.repair == nil {
		repair, err := gopus.NewDecoder(gopus.DecoderConfig{SampleRate: d.rate, Channels: 1})
		if err != nil {
			return false
		}
		d.repair, d.copied = repair, make([]float32, frame)
		_, _ = d.repair.DecodeInt16(d.last, d.pcm) // what it cannot decode was no sound for Pion's either
	}
	n, err := d.repair.DecodeWithFEC(packet, d.copied, true)
	return err == nil && n == frame
}
