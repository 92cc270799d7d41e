package realtimetest

import (
	"encoding/binary"
	"math"
	"time"
)

// ear finds speech by its energy. All its times are by the sound that came.
type ear struct {
	rest     []byte
	samples  int
	buffered int
	loud     int // windows
	quiet    int
	speaking bool
}

// window is what the ear looks at at once, and onset how many loud ones are speech.
const (
	window = 20 * time.Millisecond
	onset  = 4
	level  = 400
)

type spoken struct {
	began bool
	at    time.Duration
}

func (e *ear) hear(sound []byte, rate int, turns tree) (happened []spoken) {
	e.buffered += len(sound)
	e.rest = append(e.rest, sound...)
	size := 2 * int(window*time.Duration(rate)/time.Second)
	silence := 500.0
	if ms, ok := turns["silence_duration_ms"].(float64); ok {
		silence = ms
	}
	for len(e.rest) >= size {
		sum := 0.0
		for i := 0; i < size; i += 2 {
			v := float64(int16(binary.LittleEndian.Uint16(e.rest[i:])))
			sum += v * v
		}
		e.rest = e.rest[size:]
		e.samples += size / 2
		at := time.Duration(e.samples) * time.Second / time.Duration(rate)
		if math.Sqrt(sum/float64(size/2)) > level {
			e.loud, e.quiet = e.loud+1, 0
		} else {
			e.quiet++
			if e.quiet > 10 {
				e.loud = 0
			}
		}
		switch {
		case turns == nil:
		case !e.speaking && e.loud >= onset:
			e.speaking = true
			happened = append(happened, spoken{true, at})
		case e.speaking && float64(e.quiet)*float64(window.Milliseconds()) >= silence:
			e.speaking, e.loud = false, 0
			happened = append(happened, spoken{false, at})
		}
	}
	return happened
}
