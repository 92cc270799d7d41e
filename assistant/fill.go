package assistant

import (
	"cmp"
	"maps"
	"regexp"
	"strings"
	"time"
)

// placeholder matches a placeholder in a text.
var placeholder = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

// builtIn are the names that have values without being variables.
var builtIn = map[string]func(now time.Time, user string) string{
	"date": func(now time.Time, _ string) string { return now.Format("Monday, 2 January 2006") },
	"time": func(now time.Time, _ string) string { return now.Format("15:04 MST") },
	"user": func(_ time.Time, user string) string { return cmp.Or(user, "not known") },
}

// Fill replaces the placeholders in a text: {{date}} and {{time}} by now, in its zone, {{user}} by the user's name, and
// others by the values of variables, or by nothing. What is put in is not searched for placeholders.
func Fill(text string, now time.Time, user string, variables map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(all string) string {
		name := placeholder.FindStringSubmatch(all)[1]
		if value, ok := builtIn[name]; ok {
			return value(now, user)
		}
		return variables[name]
	})
}

// Filled replaces the placeholders in an assistant's texts, for a user with this name, empty if it is not known.
func (a Assistant) Filled(now time.Time, user string) Assistant {
	values := maps.Clone(a.Variables)
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, a.Values)
	a.RecordingNotice = Fill(a.RecordingNotice, now, user, values)
	a.Instructions, a.Greeting = Fill(a.Instructions, now, user, values), Fill(a.Greeting, now, user, values)
	return a
}

// UnknownPlaceholder returns the first placeholder of a text that has no value; empty if there is none.
func UnknownPlaceholder(text string) string {
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if _, ok := builtIn[m[1]]; !ok {
			return strings.TrimSpace(m[0])
		}
	}
	return ""
}
