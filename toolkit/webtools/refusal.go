package webtools

import "fmt"

// refusal says why the guard blocks a request, in words for the model. It does not contain the
// address to which a name resolved: a private network's names are nobody's business.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }
