package served

import (
	"time"

	"voicebridge/realtime/media"
)

// Frame is 20 ms of sound, or says something about the sound.
type Frame struct {
	Opus    []byte // is not changed; nil if there is none
	Spoken  int    // how many bytes of the text have been spoken, or skipped, by its end
	Sent    int    // characters that are being spoken from now on
	Skipped error  // why the text since the frame before is not spoken
}

// A Frame's length.
const (
	frameLength  = media.FrameTime
	frameMS      = int64(frameLength / time.Millisecond)
	frameSamples = media.FrameStep
)
