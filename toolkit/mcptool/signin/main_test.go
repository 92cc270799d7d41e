package signin

import (
	"testing"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
)

var must = testkit.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
