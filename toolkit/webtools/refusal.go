package webtools

import "fmt"

// refusal says why the guard blocks a request, in words for the model. It does not contain the
// address to which a name resolved, because that would reveal a private network.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }
