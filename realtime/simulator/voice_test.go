package simulator

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/served"
)

func TestVoice(t *testing.T) {
	t.Parallel()
	v := loadVoice()
	if len(v.clips) < 12 {
		t.Errorf("%d clips", len(v.clips))
	}
	dec, err := opus.NewDecoder(48_000)
	testkit.Must(t, err)
	for _, c := range v.clips {
		loud := 0
		for _, f := range c.frames {
			samples, err := dec.Decode(f)
			if err != nil || len(samples) != media.FrameStep {
				t.Fatalf("%q: %d samples, %v", c.text, len(samples), err)
			}
			if pcm.Level(samples) > -40 {
				loud++
			}
		}
		if s := len(c.frames) / 50; s < 2 || s > 8 || loud < len(c.frames)/3 {
			t.Errorf("%q: %d s, %d of %d frames are loud", c.text, s, loud, len(c.frames))
		}
	}
	for _, text := range []string{
		textGreet, textGreetAgain, textChartWait, textChartDone, textChartFailed, textThemeDone, textToolWait, textToolDone,
		textToolFailed, textPlain, textPlainAgain, textHistory, textTyped,
	} {
		if !slices.ContainsFunc(v.clips, func(c clip) bool { return c.text == text }) {
			t.Errorf("no clip of %q", text)
		}
	}
	long := 0
	for _, c := range v.clips {
		if strings.Contains(textLong, c.text) {
			long += len(c.frames)
		}
	}
	testkit.Equal(t, len(v.say(textLong)), long, "the long answer has frames, its clips")
	if a, b := v.say("Never recorded words. "+textPlain), v.say("Never recorded words. "+textPlain); len(a) != len(b) || len(a) < 3*wordFrames {
		t.Errorf("%d and %d frames", len(a), len(b))
	}
}

func TestChunks(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "one", "one two three four", "  odd   spaces ", "ünï çødé wörds höre ends", textLong} {
		testkit.Equal(t, strings.Join(chunks(text), ""), text, "became")
	}
	if n := len(chunks(textLong)); n < 15 {
		t.Errorf("%d chunks", n)
	}
}

func TestSampleArguments(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{}`: `{}`,
		`{"type":"object","properties":{"a":{"type":"string"}}}`: `{}`,
		`{"required":["s","n","i","b","e","c","d","o","l","u","x"],"properties":{"s":{"type":"string"},"n":{"type":"number"},"i":{"type":"integer","minimum":5},
			"b":{"type":"boolean"},"e":{"enum":["one","two"]},"c":{"const":7},"d":{"default":"def"},"o":{"type":"object","required":["k"],"properties":{"k":{"type":["string","null"]}}},
			"l":{"type":"array","items":{"type":"number"}},"u":{"anyOf":[{"type":"boolean"}]}}}`: `{"b":true,"c":7,"d":"def","e":"one","i":5,"l":[1],"n":1,"o":{"k":"hello"},"s":"hello","u":true,"x":"hello"}`,
	} {
		o, err := served.Read[object]([]byte(schema))
		testkit.Must(t, err)
		testkit.Equal(t, sampleArguments(o), want, "%s", schema)
	}
	deep := strings.Repeat(`{"type":"array","items":`, 40) + `{}` + strings.Repeat(`}`, 40)
	o, err := served.Read[object]([]byte(`{"required":["a"],"properties":{"a":` + deep + `}}`))
	if err != nil || !json.Valid([]byte(sampleArguments(o))) {
		t.Errorf("deep schema: %v", err)
	}
}
