package speech

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

// pieces cuts data anywhere.
func pieces(data []byte, cuts uint16) (out [][]byte) {
	for n := int(cuts); len(data) > 0; n = n*31 + 7 {
		size := min(len(data), 1+n&0xffff%9)
		out = append(out, data[:size])
		data = data[size:]
	}
	return out
}

// FuzzSound reads sound whole and in pieces.
func FuzzSound(f *testing.F) {
	wav := WAV([]int16{1, -2, 3, 4}, 22050)
	f.Add(wav, uint16(1), false)
	f.Add(wav[:30], uint16(3), true)
	f.Add([]byte("RIFF\xff\xff\xff\xffWAVELIST\x03\x00\x00\x00abc\x00fmt \x12\x00\x00\x00\x01\x00\x02\x00\x40\x1f\x00\x00"+
		"\x00\x00\x00\x00\x04\x00\x10\x00\x00\x00data\xff\xff\xff\xff\x01\x02\x03\x04\x05"), uint16(9), false)
	f.Add([]byte("RIFx\x01\x02"), uint16(2), true)
	f.Add([]byte("RIFF\x00\x00\x00\x00WAVEfmt \xff\xff\xff\xffdata"), uint16(2), false)
	f.Fuzz(func(t *testing.T, data []byte, cuts uint16, raw bool) {
		whole := decoder{rate: 24000, raw: raw}
		want, failed := whole.decode(data)
		parts := decoder{rate: 24000, raw: raw}
		var got []int16
		for _, piece := range pieces(data, cuts) {
			samples, err := parts.decode(piece)
			if err != nil {
				if failed == nil || err.Error() != failed.Error() {
					t.Fatalf("in pieces: %v; whole: %v", err, failed)
				}
				return
			}
			got = append(got, samples...)
		}
		if failed != nil || !slices.Equal(got, want) || parts.rate != whole.rate {
			t.Fatalf("in pieces %v at %d Hz; whole %v at %d Hz, %v", got, parts.rate, want, whole.rate, failed)
		}
		if whole.begun && (!isRate(whole.rate) || len(want) > len(data)/2) {
			t.Fatalf("%d samples at %d Hz", len(want), whole.rate)
		}
	})
}

// reader returns an answer with a body that comes in pieces.
func reader(body []byte, cuts uint16) *answer {
	service, err := newService(Server{URL: "http://x"}, "/")
	if err != nil {
		panic(err)
	}
	var parts []io.Reader
	for _, piece := range pieces(body, cuts) {
		parts = append(parts, bytes.NewReader(piece))
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	return &answer{
		service: service, ctx: ctx, cancel: cancel, timer: time.NewTimer(time.Hour), left: maxTranscription,
		Response: &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(io.MultiReader(parts...))},
	}
}

// FuzzAnswers reads answers of both paths whole and in pieces.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"text":" Hello","segments":[{"no_speech_prob":0.5}]}`, "Hello\n", "<html>", `{"error":{"message":"x"}}`, `{"detail":[1]}`,
		"data: {\"type\":\"transcript.text.delta\",\"delta\":\"Hi \"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"Hi\"}\n\n",
		": x\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n", "event: x\ndata: {\"text\":\"a\"}\r\n\r\ndata:{\"text\":\"b\"}",
		"data: {\"audio\":\"AAAA\"}\n\ndata: {\"delta\":\"AQ==\",\"error\":null}\n\n", "data: {\"error\":\"x\"}\n\n", "data: {\"delta\":{}}\n\n",
	} {
		f.Add([]byte(seed), uint16(5))
	}
	f.Fuzz(func(t *testing.T, body []byte, cuts uint16) {
		words := func(cuts uint16) (out []Words, failed string) {
			a := reader(body, cuts)
			defer a.Close()
			tr := transcript{answer: a, yield: func(w Words, _ error) bool { out = append(out, w); return true }}
			if err := tr.read(); err != nil {
				failed = err.Error()
			}
			return out, failed
		}
		want, wantError := words(0xffff)
		got, gotError := words(cuts)
		testkit.Equal(t, got, want, "words")
		testkit.Equal(t, gotError, wantError, "error")
		sound := func(cuts uint16) (out []int16, failed string) {
			a := reader(body, cuts)
			defer a.Close()
			a.Header.Set("Content-Type", "text/event-stream")
			s := Speaker{config: SpeakerConfig{Rate: 24000}}
			if err := s.read(a, func(s Sound) bool { out = append(out, s.Samples...); return true }); err != nil {
				failed = err.Error()
			}
			return out, failed
		}
		wantSound, wantError := sound(0xffff)
		gotSound, gotError := sound(cuts)
		testkit.Equal(t, gotSound, wantSound, "sound")
		testkit.Equal(t, gotError, wantError, "error of the sound")
	})
}
