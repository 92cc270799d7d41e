package bridge

import (
	"cmp"
	"regexp"
	"strings"
	"time"
)

// placeholder stands in instructions for a value of the call.
var placeholder = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// values are what the placeholders stand for.
func values(now time.Time, user string) map[string]string {
	return map[string]string{
		"date": now.Format("Monday, 2 January 2006"),
		"time": now.Format("15:04 MST"),
		"user": cmp.Or(user, "not known"),
	}
}

// FillInstructions puts the values of a call into its instructions: {{date}} and {{time}} of its
// beginning, in the zone of now, and {{user}}, what the user is called. Other placeholders stay.
func FillInstructions(text string, now time.Time, user string) string {
	known := values(now, user)
	return placeholder.ReplaceAllStringFunc(text, func(all string) string {
		if value, ok := known[placeholder.FindStringSubmatch(all)[1]]; ok {
			return value
		}
		return all
	})
}

// UnknownPlaceholder returns the first placeholder of instructions that has no value; empty for none.
func UnknownPlaceholder(text string) string {
	known := values(time.Time{}, "")
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if _, ok := known[m[1]]; !ok {
			return strings.TrimSpace(m[0])
		}
	}
	return ""
}
