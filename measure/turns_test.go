package measure

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"voicebridge/realtime/pcm"
	"voicebridge/realtime/served"
	"voicebridge/realtime/vad"
)

var detectors = map[string]func() served.Turns{
	"energy":  func() served.Turns { return new(served.Energy) },
	"network": func() served.Turns { return vad.New() },
}

// utterances have pauses of pauseLengths where there is a |.
var utterances = []string{
	"I would like to book a table|for two people tomorrow evening.", "Please turn off the lights,|and close the door.",
	"What time does the next train|to the city leave?", "Well,|I am not sure about that.",
	"My number is five five one|seven two nine.",
	"Can you tell me the name of|the river in this town?", "I want to go to|let me think|the museum of modern art.",
	"We need to buy milk,|bread,|and some apples.", "The first one is fine.|But the second one is too expensive.",
	"Could you move it to Thursday|or maybe Friday afternoon?",
	"She opened the window,|and looked out into the garden.",
	"Yes,|that is right.", "My brother lives in a small house|near the water.",
	"I called you because|the heating does not work.",
	"Show me the sales of this year|as a chart.", "Hello.|Is anybody there?",
	"If it rains tomorrow,|we will stay at home.",
	"The code is|alpha|seven|bravo.", "It is a small blue bag|with a silver zip.", "No,|I meant the other one.",
}

var pauseLengths = []int{300, 500, 700, 900, 1200} // in ms

// interruptions are meant, agreement is not.
var (
	interruptions = []string{
		"Stop.", "Wait.", "No.", "Hold on.", "Excuse me.", "Wait a moment please.", "Stop talking.", "Not that one.",
		"Go back.", "What about tomorrow?",
		"Can you repeat that?", "That is wrong.", "Sorry?", "Never mind.", "Listen to me.",
		"Let me ask something else.", "Cancel it.", "Hang on a second.", "What?", "Louder please.",
	}
	agreement = []string{"Uh huh.", "Hum.", "Uh huh.", "Yeah.", "Um.", "Uh huh.", "Hum.", "Uh huh.", "Ah.", "Hum."}
)

const mixRate = 16_000 // of flite's voices

var voices = []string{"slt", "rms", "awb", "kal16"}

// say has flite speak, without what is silent before and after it, at -20 dBFS.
func say(b *testing.B, voice, text string) []int16 {
	b.Helper()
	name := filepath.Join(b.TempDir(), "said.wav")
	cmd := exec.CommandContext(b.Context(), "flite", "-voice", voice, "-t", text, "-o", name)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Skipf("no voice: %v %s (Debian has flite)", err, out)
	}
	data, err := os.ReadFile(name)
	must(b, err)
	samples := pcm.Linear.Decode(nil, data[44:])
	gain := math.Pow(10, (-20-pcm.Level(samples))/20)
	first, last := len(samples), 0
	for i, s := range samples {
		samples[i] = int16(max(math.MinInt16, min(math.MaxInt16, float64(s)*gain)))
		if s > 300 || s < -300 {
			first, last = min(first, i), i+1
		}
	}
	return samples[first:last]
}

// cough is a burst of noise and a second, darker one, of 250 to 450 ms together.
func cough(random *rand.Rand) []int16 {
	samples := make([]int16, mixRate*(250+random.IntN(200))/1000)
	dark, last, second := 0.3+0.4*random.Float64(), 0.0, len(samples)*6/10
	for i := range samples {
		age, loud := float64(i), 6000.0
		if i >= second {
			age, loud = float64(i-second), 2500
		}
		last = dark*last + random.NormFloat64()*loud*min(1, age/80)*math.Exp(-age/1000)
		samples[i] = int16(max(math.MinInt16, min(math.MaxInt16, last)))
	}
	return samples
}

// take is what somebody says: its sound, with silence before and after it, and in ms where it is spoken.
type take struct {
	sound  []int16
	pieces [][2]int64
	texts  []string // of the pieces
}

func (t *take) silence(ms int) { t.sound = append(t.sound, make([]int16, mixRate/1000*ms)...) }

func (t *take) speak(text string, samples []int16) {
	from := int64(len(t.sound)) * 1000 / mixRate
	t.sound = append(t.sound, samples...)
	t.pieces, t.texts = append(t.pieces, [2]int64{from, int64(len(t.sound)) * 1000 / mixRate}), append(t.texts, text)
}

func newTake(texts []string, pause int, sound func(text string) []int16) *take {
	t := new(take)
	t.silence(500)
	for i, text := range texts {
		if i > 0 {
			t.silence(pause)
		}
		t.speak(text, sound(text))
	}
	t.silence(2500)
	return t
}

// ways are those by which sound reaches a detector.
var ways = map[string]func(sound []int16) ([]int16, int){
	"quiet": func(sound []int16) ([]int16, int) { return noisy(sound, -70), mixRate },
	"noise": func(sound []int16) ([]int16, int) { return noisy(sound, -40), mixRate },
	"telephone": func(sound []int16) ([]int16, int) {
		r, _ := pcm.NewResampler(mixRate, 8000)
		return pcm.ULaw.Decode(nil, pcm.ULaw.Append(nil, r.Process(noisy(sound, -60)))), 8000
	},
}

func noisy(sound []int16, level float64) []int16 {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same for every run
	out := make([]int16, len(sound))
	for i, s := range sound {
		out[i] = int16(max(math.MinInt16, min(math.MaxInt16, float64(s)+random.NormFloat64()*32768*math.Pow(10, level/20))))
	}
	return out
}

// hear returns what a detector says after each 20 ms.
func (t *take) hear(d served.Turns, way func([]int16) ([]int16, int)) (spoken, quiet []int64) {
	d.Begin(0.5)
	sound, rate := way(t.sound)
	for part := range slices.Chunk(sound, rate/50) {
		s, q := d.Hear(part, rate)
		spoken, quiet = append(spoken, s), append(quiet, q)
	}
	return spoken, quiet
}

// figures are collected by name.
type figures map[string][]float64

func (f figures) add(what string, v float64) { f[what] = append(f[what], v) }

// rules are how long a pause ends a turn after such words.
var rules = map[string]func(words string) int64{"500ms": func(string) int64 { return 500 }, "words": pauseAfter}

var goesOn = regexp.MustCompile(`(,|\b(and|or|but|because|to|of|is|the|for|with))$`)

// pauseAfter is the rule of realtime/served, before it knows the caller's own pauses.
func pauseAfter(words string) int64 {
	switch {
	case goesOn.MatchString(words):
		return 1500
	case strings.HasSuffix(words, ".") || strings.HasSuffix(words, "?"):
		return 300
	}
	return 800
}

// turn adds what rules make of the pauses that a detector hears.
func (t *take) turn(f figures, spoken, quiet []int64) {
	end := t.pieces[len(t.pieces)-1][1]
	at := func(i int) int64 { return int64(i+1) * 20 }
	for name, rule := range rules {
		for i, q := range quiet {
			piece := 0
			for piece+1 < len(t.pieces) && t.pieces[piece+1][0] < at(i)-q {
				piece++
			}
			if spoken[i] == 0 || q < rule(t.texts[piece]) {
				continue
			}
			if at(i) < end {
				f.add("cuts-"+name, 1)
			} else {
				f.add("waits-"+name+"-ms", float64(at(i)-end))
			}
			break
		}
	}
}

// BenchmarkTurns reports what detectors make of twenty utterances with pauses by a real voice, of twenty coughs and words of
// agreement, and of twenty interruptions: how often a rule for pauses cuts a turn in its middle and how long it waits after
// its end (p50, p95), and how many of the other sounds are speech for 250 ms.
func BenchmarkTurns(b *testing.B) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same for every run
	var turns, coughs, agreed, meant []*take
	for i, u := range utterances {
		speak := func(text string) []int16 { return say(b, voices[i%len(voices)], text) }
		turns = append(turns, newTake(strings.Split(u, "|"), pauseLengths[i%len(pauseLengths)], speak))
	}
	for i, text := range agreement {
		coughs = append(coughs, newTake([]string{""}, 0, func(string) []int16 { return cough(random) }))
		agreed = append(agreed, newTake([]string{text}, 0, func(text string) []int16 { return say(b, voices[i%len(voices)], text) }))
	}
	for i, text := range interruptions {
		meant = append(meant, newTake([]string{text}, 0, func(text string) []int16 { return say(b, voices[i%len(voices)], text) }))
	}
	for name, newDetector := range detectors {
		for wayName, way := range ways {
			b.Run(wayName+"/"+name, func(b *testing.B) {
				var f figures
				for b.Loop() {
					f = figures{}
					for _, t := range turns {
						spoken, quiet := t.hear(newDetector(), way)
						t.turn(f, spoken, quiet)
					}
					for what, takes := range map[string][]*take{"cough": coughs, "agreed": agreed, "meant": meant} {
						for _, t := range takes {
							spoken, quiet := t.hear(newDetector(), way)
							for i := range spoken {
								if spoken[i]-quiet[i] >= 250 {
									f.add(what, 1)
									break
								}
							}
						}
					}
				}
				f.report(b)
			})
		}
	}
}

// report reports the median and the 95th percentile of times, and how many there are of other figures.
func (f figures) report(b *testing.B) {
	for what, all := range f {
		slices.Sort(all)
		if before, ok := strings.CutSuffix(what, "-ms"); ok {
			b.ReportMetric(all[len(all)/2], before+"-p50-ms")
			b.ReportMetric(all[len(all)*95/100], before+"-p95-ms")
			continue
		}
		b.ReportMetric(float64(len(all)), what)
	}
	b.ReportMetric(0, "ns/op")
}
