package input

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/semaphore"

	"voicebridge/toolkit"
	"voicebridge/web/problem"
)

// Limits on JSON that is decoded, whatever its size in bytes.
const (
	MaxValues = toolkit.MaxValues
	MaxDepth  = 128
	// valueBytes is about what one value takes while it is decoded, and maxDecoding limits what all that are decoded at
	// the same moment take, in bytes.
	valueBytes  = 256
	maxDecoding = 64 << 20
)

// decoding has the memory of what is being decoded. Nothing waits for a client while it holds some.
var decoding = semaphore.NewWeighted(maxDecoding)

// decode is json.Unmarshal within the limits.
func decode(data []byte, dst any) error {
	depth, values := toolkit.Shape(data)
	switch {
	case depth > MaxDepth:
		return problem.BadRequest("invalid_json", "", fmt.Sprintf("The JSON nests deeper than %d levels.", MaxDepth))
	case values > MaxValues:
		return problem.TooLarge("", fmt.Sprintf("The JSON has more than %d values.", MaxValues))
	}
	n := int64(min(len(data)+values*valueBytes, maxDecoding))
	if err := decoding.Acquire(context.Background(), n); err != nil {
		return err
	}
	defer decoding.Release(n)
	return json.Unmarshal(data, dst)
}

// Memory is what the bodies of one owner may take; *access.ByteLimit implements it for all.
type Memory func(ctx context.Context, n int64) (release func(), err error)

const (
	memoryKey, heldKey, withinKey = "memory", "held", "within"
	// freeBytes is how large a body may be that is read without a place.
	freeBytes = 64 << 10
	// holdWait is how long a body waits for its place.
	holdWait = 30 * time.Second
)

// SetMemory says whose memory the bodies of a request take. They give it back by [Release].
func SetMemory(c echo.Context, m Memory) { c.Set(memoryKey, m) }

var errTooManyBodies = problem.TooMany("too_many_requests",
	"You are sending too much at the same time. Try again when it has arrived.", problem.RetryFull)

// Hold waits until there is memory for the request's body, of which at most limit bytes are kept, and holds it until
// [Release]. The client may then take as long to send it as it may without waiting.
func Hold(c echo.Context, limit int64) error {
	size := c.Request().ContentLength
	if size < 0 || size > limit {
		size = limit
	}
	memory, ok := c.Get(memoryKey).(Memory)
	if !ok || size <= freeBytes || c.Get(heldKey) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), holdWait)
	defer cancel()
	release, err := memory(ctx, size)
	if errors.Is(err, context.DeadlineExceeded) {
		// A client that is cut off while sending may not read why.
		_, _ = io.Copy(io.Discard, c.Request().Body)
		return errTooManyBodies
	}
	if err != nil {
		return err
	}
	c.Set(heldKey, release)
	if within, ok := c.Get(withinKey).(time.Duration); ok {
		Arrives(c, within)
	}
	return nil
}

// Arrives sets how long the request's body may take to arrive from now on.
func Arrives(c echo.Context, within time.Duration) {
	c.Set(withinKey, within)
	// In tests, not every ResponseWriter has deadlines.
	_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Now().Add(within))
}

// Release gives back the memory of the request's body, once nothing refers to it any more.
func Release(c echo.Context) {
	if release, ok := c.Get(heldKey).(func()); ok && release != nil {
		release()
		c.Set(heldKey, nil)
	}
}
