package simulator

import (
	"embed"
	"hash/fnv"
	"strings"
	"sync"
)

//go:generate ./gen.sh

// wordFrames is how long a word takes in a text that has no clip: 320 ms.
const wordFrames = 16

//go:embed clips/clips.txt clips/*.ogg
var clipFiles embed.FS

//go:embed testdata/user.ogg
var userSpeech []byte

// clip is one recorded sentence or two.
type clip struct {
	text   string
	frames [][]byte // 20 ms of Opus each
}

// voice holds the clips in the order of clips.txt.
type voice struct{ clips []clip }

// loadVoice reads the embedded clips once; the frames are shared and never changed.
var loadVoice = sync.OnceValue(func() *voice {
	list, _ := clipFiles.ReadFile("clips/clips.txt") // it is embedded, as the clips are
	v := new(voice)
	for line := range strings.Lines(string(list)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), "\t")
		file, _ := clipFiles.ReadFile("clips/" + name + ".ogg")
		v.clips = append(v.clips, clip{text: text, frames: oggPackets(file)})
	}
	return v
})

// UserSpeech returns a person's question as 20 ms Opus frames (48 kHz, mono): about four seconds of
// speech and two and a half of silence, so that sending it in a loop makes turns. The frames must
// not be changed.
func UserSpeech() [][]byte { return oggPackets(userSpeech) }

// Speech returns how the simulator says a text, as UserSpeech returns a question.
func Speech(text string) [][]byte { return loadVoice().say(text) }

// say returns the frames that speak the text: the clips of sentences that have one, and the sound
// of another clip for all others.
func (v *voice) say(text string) [][]byte {
	var frames [][]byte
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		if c, ok := v.prefix(rest); ok {
			frames = append(frames, c.frames...)
			rest = rest[len(c.text):]
			continue
		}
		sentence := rest
		if i := strings.IndexAny(rest, ".!?"); i >= 0 {
			sentence = rest[:i+1]
		}
		frames = append(frames, v.placeholder(sentence)...)
		rest = rest[len(sentence):]
	}
	return frames
}

func (v *voice) prefix(text string) (clip, bool) {
	for _, c := range v.clips {
		if strings.HasPrefix(text, c.text) {
			return c, true
		}
	}
	return clip{}, false
}

// placeholder returns sound of the right length for a sentence that was never recorded; the same
// sentence always sounds the same.
func (v *voice) placeholder(sentence string) [][]byte {
	h := fnv.New32a()
	h.Write([]byte(sentence))
	next := int(h.Sum32() % uint32(len(v.clips)))
	want := wordFrames * max(1, len(strings.Fields(sentence)))
	var frames [][]byte
	for len(frames) < want {
		frames = append(frames, v.clips[next].frames...)
		next = (next + 1) % len(v.clips)
	}
	return frames[:want]
}

// oggPackets returns the Opus packets of an Ogg file (RFC 3533, RFC 7845) without the two header packets. It is for our
// own clips only, and checks nothing.
func oggPackets(file []byte) (packets [][]byte) {
	var packet []byte
	for len(file) > 0 {
		segments := int(file[26])
		table, body := file[27:27+segments], file[27+segments:]
		for _, n := range table {
			packet = append(packet, body[:n]...)
			body = body[n:]
			if n < 255 { // a shorter segment ends the packet
				packets = append(packets, packet)
				packet = nil
			}
		}
		file = body
	}
	return packets[2:]
}
