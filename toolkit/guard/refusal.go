package guard

import "fmt"

// Refusal says why a request is blocked, in words for whoever asked for it. It does not contain the
// address to which a name resolved, because that would reveal a private network.
type Refusal struct{ reason string } //nolint:errname // it is shown as a result, too

func (r *Refusal) Error() string { return r.reason }

// Refuse returns a Refusal with a reason, formatted as by fmt.Sprintf.
func Refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }
