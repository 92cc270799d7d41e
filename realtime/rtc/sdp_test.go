package rtc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pion/sdp/v3"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

func readSDP(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	must(t, err)
	return string(b)
}

// TestAnswerBrowsers answers offers of the shapes that browsers make.
func TestAnswerBrowsers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file, opus string
		limit      int
	}{
		{"chrome_offer.sdp", "111", 262144},
		{"firefox_offer.sdp", "109", 1073741823},
		{"safari_offer.sdp", "96", 65536},
	} {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			a := newAPI(t, Config{})
			p, answer, err := a.Answer(testContext(t), readSDP(t, tt.file), media.Handlers{})
			must(t, err)
			defer closePeer(t, p)
			testkit.Equal(t, p.MaxMessageSize(), tt.limit, "remote's limit")
			checkAnswer(t, answer, tt.opus)
		})
	}
}

func checkAnswer(t *testing.T, answer, opus string) {
	t.Helper()
	var desc sdp.SessionDescription
	must(t, desc.UnmarshalString(answer))
	if n := strings.Count(answer, "a=fingerprint:sha-256 "); n == 0 {
		t.Error("answer has no fingerprint")
	}
	for _, m := range desc.MediaDescriptions {
		switch m.MediaName.Media {
		case "audio":
			testkit.Equal(t, strings.Join(m.MediaName.Formats, " "), opus, "audio formats alone")
			if v, _ := m.Attribute("rtpmap"); v != opus+" opus/48000/2" {
				t.Errorf("rtpmap %q", v)
			}
			if v, _ := m.Attribute("fmtp"); v != opus+" "+opusFormat {
				t.Errorf("fmtp %q", v)
			}
			if _, ok := m.Attribute("sendrecv"); !ok {
				t.Error("audio is not sendrecv")
			}
			if _, ok := m.Attribute("candidate"); !ok {
				t.Error("answer has no candidates")
			}
		case "video":
			_, inactive := m.Attribute("inactive")
			if m.MediaName.Port.Value != 0 && !inactive {
				t.Errorf("video is not refused: port %d", m.MediaName.Port.Value)
			}
		case "application":
			if v, _ := m.Attribute("max-message-size"); v != "262144" {
				t.Errorf("max-message-size %q, want 262144", v)
			}
		}
	}
}

// TestUpstreamAnswer accepts an answer like that of an ICE-lite upstream with UDP and passive TCP candidates.
func TestUpstreamAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	p, offer, err := a.Offer(testContext(t), media.Handlers{})
	must(t, err)
	defer closePeer(t, p)
	for _, want := range []string{
		"a=rtpmap:111 opus/48000/2\r\n", "a=fmtp:111 minptime=10;useinbandfec=1\r\n", "a=sendrecv\r\n",
		"m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n", "a=max-message-size:917504\r\n", "a=setup:actpass\r\n",
	} {
		if !strings.Contains(offer, want) {
			t.Errorf("offer lacks %q", want)
		}
	}
	testkit.Equal(t, strings.Count(offer, "\r\na=rtpmap:"), 1, "offer has codecs, want Opus alone")
	must(t, p.Accept(testContext(t), readSDP(t, "upstream_answer.sdp")))
	testkit.Equal(t, p.MaxMessageSize(), 1073741823, "remote's limit")
	if err := p.Accept(testContext(t), readSDP(t, "upstream_answer.sdp")); !errors.Is(err, ErrBadSDP) {
		t.Errorf("second answer: %v, want ErrBadSDP", err)
	}
}

// without drops the lines that begin with prefix.
func without(text, prefix string) string {
	var out []string
	for line := range strings.SplitAfterSeq(text, "\r\n") {
		if !strings.HasPrefix(line, prefix) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

var badSDPs = []struct {
	name string
	edit func(good string) string
	want error
}{
	{"empty", func(string) string { return "" }, ErrBadSDP},
	{"garbage", func(string) string { return "\x00\xff\xfe garbage" }, ErrBadSDP},
	{"json", func(string) string { return `{"type":"offer"}` }, ErrBadSDP},
	{"version only", func(string) string { return "v=0" }, ErrBadSDP},
	{"session only", func(string) string { return "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n" }, ErrNoOpus},
	{"half", func(s string) string { return s[:len(s)/8] }, ErrBadSDP},
	{"too large", func(s string) string { return s + strings.Repeat("a=x:y\r\n", maxAnswerSize/7) }, ErrBadSDP},
	{"no fingerprint", func(s string) string { return without(s, "a=fingerprint") }, ErrBadSDP},
	{"short fingerprint", func(s string) string {
		return strings.ReplaceAll(s, "a=fingerprint:sha-256 ", "a=fingerprint:sha-256 AB:CD\r\na=x:")
	}, ErrBadSDP},
	{"fingerprint not hexadecimal", func(s string) string {
		return strings.ReplaceAll(s, "a=fingerprint:sha-256 ", "a=fingerprint:sha-256 ZZ:")
	}, ErrBadSDP},
	{"unknown hash", func(s string) string {
		return strings.ReplaceAll(s, "a=fingerprint:sha-256 ", "a=fingerprint:md17 ")
	}, ErrBadSDP},
	{"no ice-ufrag", func(s string) string { return without(s, "a=ice-ufrag") }, ErrBadSDP},
	{"no ice-pwd", func(s string) string { return without(s, "a=ice-pwd") }, ErrBadSDP},
	{"no audio", func(s string) string {
		return s[:strings.Index(s, "m=audio")] + s[strings.Index(s, "m=application"):]
	}, ErrNoOpus},
	{"no opus", func(s string) string { return strings.ReplaceAll(s, " opus/48000/2", " G722/8000") }, ErrNoOpus},
	{"opus without a payload type", func(s string) string {
		return strings.ReplaceAll(s, "UDP/TLS/RTP/SAVPF 111", "UDP/TLS/RTP/SAVPF 0")
	}, ErrNoOpus},
	{"audio refused", func(s string) string { return strings.Replace(s, "m=audio 9 ", "m=audio 0 ", 1) }, ErrNoOpus},
	{"too many sections", func(s string) string {
		return s + strings.Repeat(s[strings.Index(s, "m=application"):], maxSections)
	}, ErrBadSDP},
	{"too many candidates", func(s string) string {
		return strings.Replace(s, "a=sctp-port", strings.Repeat("a=candidate:1 1 udp 1 192.0.2.1 9 typ host\r\n", maxCandidates+1)+"a=sctp-port", 1)
	}, ErrBadSDP},
	{"m-line broken", func(s string) string { return strings.Replace(s, "m=audio 9 ", "m=audio nine ", 1) }, ErrBadSDP},
}

func TestBadOffer(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	for _, tt := range badSDPs {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, answer, err := a.Answer(testContext(t), tt.edit(readSDP(t, "chrome_offer.sdp")), media.Handlers{})
			if !errors.Is(err, tt.want) || p != nil || answer != "" {
				t.Errorf("Answer: peer %v, error %v, answer of %d bytes, want %v", p != nil, err, len(answer), tt.want)
			}
		})
	}
}

func TestBadAnswer(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	for _, tt := range badSDPs {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, _, err := a.Offer(testContext(t), media.Handlers{})
			must(t, err)
			defer closePeer(t, p)
			if err := p.Accept(testContext(t), tt.edit(readSDP(t, "upstream_answer.sdp"))); !errors.Is(err, tt.want) {
				t.Errorf("Accept: %v, want %v", err, tt.want)
			}
		})
	}
}

// TestDirections answers offers that send, receive, do both or neither.
func TestDirections(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	chrome := readSDP(t, "chrome_offer.sdp")
	offer := func(session, audio string) string {
		text := strings.Replace(chrome, "a=sendrecv\r\n", audio, 1)
		return strings.Replace(text, "m=audio", session+"m=audio", 1)
	}
	for name, tt := range map[string]struct{ offer, want string }{
		"sendrecv":            {chrome, "sendrecv"},
		"sendonly":            {offer("", "a=sendonly\r\n"), "recvonly"},
		"recvonly":            {offer("", "a=recvonly\r\n"), "sendonly"},
		"inactive":            {offer("", "a=inactive\r\n"), "inactive"},
		"none":                {offer("", ""), "sendrecv"},
		"that of the session": {offer("a=recvonly\r\n", ""), "sendonly"},
		"its own":             {offer("a=recvonly\r\n", "a=sendonly\r\n"), "recvonly"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, answer, err := a.Answer(testContext(t), tt.offer, media.Handlers{})
			must(t, err)
			defer closePeer(t, p)
			parts := split(answer)
			if len(parts) != 3 || !strings.HasPrefix(parts[1], "m=audio 9 ") || directionOf(parts[1]) != tt.want {
				t.Errorf("answer is %s", answer)
			}
		})
	}
}

// TestSilenceIsAskedFor asks browsers for no packets in silence (DTX) if that is set, whatever their offers say of
// Opus, and never an upstream, which the offer would ask to save packets, too.
func TestSilenceIsAskedFor(t *testing.T) {
	t.Parallel()
	with, without := newAPI(t, Config{DTX: true}), newAPI(t, Config{})
	chrome, firefox := readSDP(t, "chrome_offer.sdp"), readSDP(t, "firefox_offer.sdp")
	fmtp := "a=fmtp:111 minptime=10;useinbandfec=1\r\n"
	if !strings.Contains(chrome, fmtp) || !strings.Contains(firefox, "a=fmtp:109 ") {
		t.Fatal("the offers have other formats")
	}
	for name, offer := range map[string]string{
		"Chrome":         chrome,
		"Firefox":        firefox,
		"usedtx=1":       strings.Replace(chrome, fmtp, "a=fmtp:111 minptime=10;useinbandfec=1;usedtx=1\r\n", 1),
		"usedtx=0":       strings.Replace(chrome, fmtp, "a=fmtp:111 usedtx=0\r\n", 1),
		"usedtx=maybe":   strings.Replace(chrome, fmtp, "a=fmtp:111 usedtx=maybe; ;=;stereo\r\n", 1),
		"no format":      strings.Replace(chrome, fmtp, "", 1),
		"another's":      strings.Replace(chrome, fmtp, "a=fmtp:999 usedtx=1\r\n", 1),
		"format twice":   strings.Replace(chrome, fmtp, fmtp+fmtp, 1),
		"no space in it": strings.Replace(chrome, fmtp, "a=fmtp:111\r\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for a, want := range map[*API]string{with: opusFormat + ";usedtx=1", without: opusFormat} {
				p, answer, err := a.Answer(testContext(t), offer, media.Handlers{})
				must(t, err)
				defer closePeer(t, p)
				var formats []string
				for line := range strings.Lines(answer) {
					if format, is := strings.CutPrefix(line, "a=fmtp:"); is {
						_, format, _ = strings.Cut(strings.TrimSpace(format), " ")
						formats = append(formats, format)
					}
				}
				testkit.Equal(t, formats, []string{want}, "the answer's formats are, want %q", want)
			}
		})
	}
	p, offer, err := with.Offer(testContext(t), media.Handlers{})
	must(t, err)
	defer closePeer(t, p)
	if strings.Contains(offer, "usedtx") {
		t.Errorf("an upstream is offered\n%s", offer)
	}
}

// TestAnswerWithoutDataChannel refuses at once an upstream that could never be told anything.
func TestAnswerWithoutDataChannel(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	answer := readSDP(t, "upstream_answer.sdp")
	for name, text := range map[string]string{
		"refused":  strings.Replace(answer, "m=application 9", "m=application 0", 1),
		"left out": answer[:strings.Index(answer, "m=application")],
	} {
		p, _, err := a.Offer(testContext(t), media.Handlers{})
		must(t, err)
		defer closePeer(t, p)
		if err := p.Accept(testContext(t), text); !errors.Is(err, ErrBadSDP) {
			t.Errorf("%s: %v, want ErrBadSDP", name, err)
		}
	}
}

// TestNoDataChannel answers an offer of audio alone.
func TestNoDataChannel(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	offer := readSDP(t, "chrome_offer.sdp")
	offer = offer[:strings.Index(offer, "m=application")]
	offer = strings.Replace(offer, "BUNDLE 0 1", "BUNDLE 0", 1)
	p, answer, err := a.Answer(testContext(t), offer, media.Handlers{})
	must(t, err)
	defer closePeer(t, p)
	checkAnswer(t, answer, "111")
	testkit.Equal(t, p.MaxMessageSize(), 0, "remote's limit")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Send(ctx, []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Send without a data channel: %v", err)
	}
}

func FuzzAnswer(f *testing.F) {
	for _, name := range []string{"chrome_offer.sdp", "firefox_offer.sdp", "safari_offer.sdp", "upstream_answer.sdp"} {
		f.Add(readSDP(f, name))
	}
	for _, bad := range badSDPs {
		if text := bad.edit(readSDP(f, "chrome_offer.sdp")); len(text) < maxOfferSize {
			f.Add(text)
		}
	}
	a := newAPI(f, Config{})
	f.Fuzz(func(t *testing.T, text string) {
		p, _, err := a.Answer(t.Context(), text, media.Handlers{})
		if err == nil {
			err = p.Close()
		} else if !errors.Is(err, ErrBadSDP) && !errors.Is(err, ErrNoOpus) {
			t.Errorf("error of no known kind: %v", err)
			return
		}
		if err != nil && p != nil {
			t.Errorf("Close: %v", err)
		}
	})
}
