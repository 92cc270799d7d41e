package mcptool

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// place is where a configuration stands: what its variables mean.
type place struct {
	lookup       func(string) (string, bool) // of the environment
	folder, home string
}

func placeOf(path string) (place, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return place{}, err
	}
	here := place{lookup: os.LookupEnv, folder: filepath.Dir(absolute)}
	if slices.Contains([]string{".vscode", ".cursor", ".gemini"}, filepath.Base(here.folder)) {
		here.folder = filepath.Dir(here.folder)
	}
	here.home, _ = os.UserHomeDir() // without one, it is missing where it is used
	return here, nil
}

// variable is ${NAME} or ${NAME:-default}, and of VS Code and Cursor ${env:NAME}, ${userHome}, ${workspaceFolder},
// ${workspaceFolderBasename}, ${pathSeparator} or ${/}, and ${input:ID}, for which they prompt: here the variable ID in
// capitals provides it. What else they know, such as ${config:…}, matches as well, and is refused.
var variable = regexp.MustCompile(`\$\{(?:(env|input|config|command|workspaceFolder):)?([A-Za-z0-9_.-]+|/)(:-([^}]*))?\}`)

// word is $NAME, as in the files of Gemini.
var word = regexp.MustCompile(`(^|\s)\$([A-Za-z_][A-Za-z0-9_]*)($|\s)`)

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// inputVariable returns the environment variable for an input.
func inputVariable(id string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(id))
}

// expander replaces the variables of one server.
type expander struct {
	place
	missing, unset []string
	foreign        string // a variable that only an editor knows
}

// text replaces ${…}.
func (e *expander) text(text string) string {
	return variable.ReplaceAllStringFunc(text, func(match string) string {
		parts := variable.FindStringSubmatch(match)
		kind, id, fallback := parts[1], parts[2], parts[4]
		if kind == "" && parts[3] == "" {
			switch id {
			case "workspaceFolder":
				return e.folder
			case "workspaceFolderBasename":
				return filepath.Base(e.folder)
			case "pathSeparator", "/":
				return string(filepath.Separator)
			case "userHome":
				if e.home != "" {
					return e.home
				}
				id = "HOME"
			}
		}
		switch {
		case kind == "input":
			id = inputVariable(id)
		case kind != "" && kind != "env":
			e.foreign = match
			return match
		case !name.MatchString(id):
			return match
		}
		value, ok := e.lookup(id)
		switch {
		case parts[3] != "" && value == "":
			return fallback
		case !ok:
			e.missing = append(e.missing, id+map[bool]string{true: " (for " + match + ")"}[kind == "input"])
		}
		return value
	})
}

// value replaces also $NAME. One that is not in the environment stays: it may be a part of the value.
func (e *expander) value(key, text string) string {
	return word.ReplaceAllStringFunc(e.text(text), func(match string) string {
		parts := word.FindStringSubmatch(match)
		value, ok := e.lookup(parts[2])
		if !ok {
			e.unset = append(e.unset, fmt.Sprintf("the environment has no %s for %q, which stays as it is", parts[2], key))
			return match
		}
		return parts[1] + value + parts[3]
	})
}

// expand replaces the variables in a server's texts, and adds those of its envFile, which env overrides.
func (s *Server) expand(envFile string, here place) (warnings []string, err error) {
	e := expander{place: here}
	s.Command, s.Cwd, s.URL, envFile = e.text(s.Command), e.text(s.Cwd), e.text(s.URL), e.text(envFile)
	s.ClientID, s.ClientSecret = e.text(s.ClientID), e.text(s.ClientSecret)
	for i := range s.Args {
		s.Args[i] = e.text(s.Args[i])
	}
	for _, texts := range []map[string]string{s.Env, s.Headers} {
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			texts[key] = e.value(key, texts[key])
		}
	}
	switch {
	case e.foreign != "":
		return nil, fmt.Errorf("only an editor knows %s: write its value, or the name of an environment variable", e.foreign)
	case len(e.missing) > 0:
		slices.Sort(e.missing)
		first, _, _ := strings.Cut(e.missing[0], " ")
		return nil, fmt.Errorf("the environment has no %s (write ${%s:-default} for a default)", strings.Join(slices.Compact(e.missing), ", "), first)
	case envFile == "":
		return e.unset, nil
	}
	if !filepath.IsAbs(envFile) {
		envFile = filepath.Join(here.folder, envFile)
	}
	vars, err := readEnvFile(envFile)
	if err != nil {
		return nil, fmt.Errorf("read envFile: %w", err)
	}
	maps.Copy(vars, s.Env)
	s.Env = vars
	return e.unset, nil
}

// readEnvFile reads lines NAME=value. Of a value in quotes these are taken off; an empty line and one that begins with
// # say nothing. No error contains a value.
func readEnvFile(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	vars := map[string]string{}
	lines := bufio.NewScanner(io.LimitReader(f, maxConfigBytes))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if key = strings.TrimSpace(key); !ok || !name.MatchString(key) {
			return nil, fmt.Errorf("%s, line %d, is not NAME=value", path, n)
		}
		value = strings.TrimSpace(value)
		if n := len(value); n > 1 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		if vars[key] = value; len(vars) > maxEntries {
			return nil, fmt.Errorf("%s has more than %d variables", path, maxEntries)
		}
	}
	return vars, lines.Err()
}
