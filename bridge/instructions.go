package bridge

import (
	"cmp"
	"regexp"
	"strings"
	"time"
)

// placeholder matches a placeholder in instructions.
var placeholder = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// values returns the values of the placeholders.
func values(now time.Time, user string) map[string]string {
	return map[string]string{
		"date": now.Format("Monday, 2 January 2006"),
		"time": now.Format("15:04 MST"),
		"user": cmp.Or(user, "not known"),
	}
}

// FillInstructions replaces the placeholders in a call's instructions: {{date}} and {{time}} by
// when it began, in now's zone, and {{user}} by the user's name. Other placeholders stay.
func FillInstructions(text string, now time.Time, user string) string {
	known := values(now, user)
	return placeholder.ReplaceAllStringFunc(text, func(all string) string {
		if value, ok := known[placeholder.FindStringSubmatch(all)[1]]; ok {
			return value
		}
		return all
	})
}

// UnknownPlaceholder returns the first unknown placeholder of instructions; empty if there is none.
func UnknownPlaceholder(text string) string {
	known := values(time.Time{}, "")
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if _, ok := known[m[1]]; !ok {
			return strings.TrimSpace(m[0])
		}
	}
	return ""
}
