package wire

import (
	"errors"
	"strings"
	"testing"
)

func TestLimitOfAnswer(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("data: 1\n\n", 100)
	for limit, whole := range map[int64]bool{int64(len(body)): true, int64(len(body)) - 1: false, 1: false} {
		s := NewEvents(strings.NewReader(body), SSE)
		s.left = limit
		var err error
		n := 0
		for ; err == nil; n++ {
			_, err = s.Next()
		}
		if errors.Is(err, ErrTooLarge) == whole || whole != (n == 101) {
			t.Errorf("with a limit of %d, %d events arrive, then %v", limit, n-1, err)
		}
	}
}
