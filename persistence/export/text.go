package export

import (
	"bufio"

	"voicebridge/thread"
)

// people are the names of the roles in an export.
var people = map[thread.Role]string{
	thread.RoleUser: "User", thread.RoleAssistant: "Assistant", thread.RoleSystem: "Instructions",
}

func person(r thread.Role) string {
	if name, ok := people[r]; ok {
		return name
	}
	return string(r)
}

// puts writes texts one after the other.
func puts(w *bufio.Writer, texts ...string) error {
	for _, t := range texts {
		if _, err := w.WriteString(t); err != nil {
			return err
		}
	}
	return nil
}
