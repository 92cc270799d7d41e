package export

import (
	"bufio"

	"voicebridge/persistence"
)

// people are the names of the roles in an export.
var people = map[persistence.Role]string{
	persistence.RoleUser: "User", persistence.RoleAssistant: "Assistant", persistence.RoleSystem: "Instructions",
}

func person(r persistence.Role) string {
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
