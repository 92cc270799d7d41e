package voicebridge_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"voicebridge/internal/testkit"
)

// notSettings are words in capitals with an underscore in the documents that are
// not environment variables of ours.
var notSettings = []string{"CGO_ENABLED", "CAP_NET_BIND_SERVICE", "XAI_API_KEY"} // the last is an example of a name that an operator chooses

// tree is what the documents may name.
type tree struct {
	files    fs.FS
	targets  []string // of the Makefile
	sources  string   // the text of everything that is neither a document nor generated
	tables   []string // tables and views of both engines
	headings map[string][]string
}

// document is a Markdown file, taken apart.
type document struct {
	name     string // path from the root
	prose    string // without fenced code
	code     string // fenced code blocks, and code in backticks one to a line
	ticked   []string
	headings []string // as anchors
}

var (
	fence       = regexp.MustCompile("(?ms)^ *```[^\n]*\n(.*?)^ *```")
	tick        = regexp.MustCompile("`([^`\n]+)`")
	heading     = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	link        = regexp.MustCompile(`\]\(([^)\s]+)(?: "[^"]*")?\)|(?m)^\[[^\]]+\]: +(\S+)|(?:src|href)="([^"]+)"`)
	makeTarget  = regexp.MustCompile(`(?m)(?:^|[;&|] *)(?:\$ )?make +([a-z][a-z-]*)`)
	setting     = regexp.MustCompile(`\b[A-Z][A-Z0-9]*(?:__?[A-Z0-9]+)+\b`)
	sqlSource   = regexp.MustCompile(`(?i)\b(?:from|join)\s+([a-z_]+)`)
	sqlText     = regexp.MustCompile(`(?i)\bselect\b`)
	sqlObject   = regexp.MustCompile(`(?i)\bcreate\s+(?:or replace\s+)?(?:virtual\s+)?(?:table|view)\s+(?:if not exists\s+)?([a-z_]+)`)
	makeRule    = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
	bareProgram = regexp.MustCompile(`(?m)(?:^|[;&|] *)(?:\$ )?(voicebridge +\S+)`)
	anchorStrip = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	treePath    = regexp.MustCompile(`^\.?[A-Za-z][\w.-]*(?:/[\w.*{},-]+)*/?$`)
)

// parse takes a document apart.
func parse(name, text string) document {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	d := document{name: name}
	var code strings.Builder
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		code.WriteString(m[1])
	}
	d.prose = fence.ReplaceAllString(text, "")
	for _, m := range tick.FindAllStringSubmatch(d.prose, -1) {
		d.ticked = append(d.ticked, m[1])
		code.WriteString(m[1] + "\n")
	}
	d.code = code.String()
	for _, m := range heading.FindAllStringSubmatch(d.prose, -1) {
		d.headings = append(d.headings, anchor(m[1]))
	}
	return d
}

// anchor is the name that GitHub gives a heading.
func anchor(heading string) string {
	plain := anchorStrip.ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(plain, " ", "-")
}

// check returns one sentence for each thing that the document names and the
// tree does not have.
func (t tree) check(d document) []string {
	found := slices.Concat(t.checkLinks(d), t.checkPaths(d))
	for _, m := range makeTarget.FindAllStringSubmatch(d.code, -1) {
		if !slices.Contains(t.targets, m[1]) {
			found = append(found, fmt.Sprintf("%s: the Makefile has no target %s", d.name, m[1]))
		}
	}
	for _, m := range bareProgram.FindAllStringSubmatch(d.code, -1) {
		found = append(found, fmt.Sprintf("%s: nothing puts the program of %q into the PATH: it is bin/voicebridge", d.name, m[1]))
	}
	for _, name := range setting.FindAllString(d.code, -1) {
		if !slices.Contains(notSettings, name) && !t.hasKey(name) && !hasWord(t.sources, name) {
			found = append(found, fmt.Sprintf("%s: no source reads the environment variable %s", d.name, name))
		}
	}
	// Only lines from a SELECT on: prose and shell words are not tables.
	if at := sqlText.FindStringIndex(d.code); at != nil {
		for _, m := range sqlSource.FindAllStringSubmatch(d.code[at[0]:], -1) {
			if !slices.Contains(t.tables, m[1]) {
				found = append(found, fmt.Sprintf("%s: the schema has no table or view %s", d.name, m[1]))
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// hasWord reports whether a text has a name that is not a part of a longer one. A regular expression takes a minute for all.
func hasWord(text, name string) bool {
	isPart := func(c byte) bool { return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }
	for {
		before, after, found := strings.Cut(text, name)
		if !found {
			return false
		}
		if (before == "" || !isPart(before[len(before)-1])) && (after == "" || !isPart(after[0])) {
			return true
		}
		text = after
	}
}

// hasKey reports whether the variable is made from the path of a setting: VOICEBRIDGE_
// and the path in capitals, its parts joined by two underscores.
func (t tree) hasKey(name string) bool {
	path, ours := strings.CutPrefix(name, "VOICEBRIDGE_")
	for part := range strings.SplitSeq(strings.ToLower(path), "__") {
		ours = ours && (strings.Contains(t.sources, `yaml:"`+part+`"`) || strings.Contains(t.sources, `yaml:"`+part+`,`))
	}
	return ours
}

// checkLinks follows the links that stay inside of the project.
func (t tree) checkLinks(d document) []string {
	var found []string
	for _, m := range link.FindAllStringSubmatch(d.prose, -1) {
		target := m[1] + m[2] + m[3]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, fragment, _ := strings.Cut(target, "#")
		headings := d.headings
		if file != "" {
			file = path.Join(path.Dir(d.name), file)
			if _, err := fs.Stat(t.files, file); err != nil {
				found = append(found, fmt.Sprintf("%s: the link %s leads nowhere", d.name, target))
				continue
			}
			headings = t.headings[file]
		}
		if fragment != "" && strings.HasSuffix(file+d.name, ".md") && !slices.Contains(headings, fragment) {
			found = append(found, fmt.Sprintf("%s: the link %s names no heading", d.name, target))
		}
	}
	return found
}

// checkPaths looks up each path in backticks whose first folder is one of ours.
func (t tree) checkPaths(d document) []string {
	var found []string
	for _, word := range d.ticked {
		top, _, isPath := strings.Cut(word, "/")
		if !isPath || !treePath.MatchString(word) {
			continue
		}
		if _, err := fs.Stat(t.files, top); err != nil || slices.Contains(notRead, top) {
			continue // a media type, an import path, a route; what a build makes
		}
		for _, one := range expand(strings.TrimSuffix(word, "/")) {
			matches, err := fs.Glob(t.files, one)
			if err != nil || len(matches) == 0 {
				found = append(found, fmt.Sprintf("%s: the tree has no %s", d.name, one))
			}
		}
	}
	return found
}

// expand writes out one {a,b} of a path.
func expand(word string) []string {
	before, rest, ok := strings.Cut(word, "{")
	if !ok {
		return []string{word}
	}
	choices, after, _ := strings.Cut(rest, "}")
	var all []string
	for choice := range strings.SplitSeq(choices, ",") {
		all = append(all, before+choice+after)
	}
	return all
}

// submatches collects the first group of all matches.
func submatches(re *regexp.Regexp, text string) []string {
	var all []string
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// notRead are folders whose files are not ours or do not count as sources.
var notRead = []string{".git", "node_modules", "data", "bin", "dist", "testdata"}

// readTree gathers the facts and the Markdown files of the project.
func readTree(t *testing.T, files fs.FS) (tree, []document) {
	t.Helper()
	facts := tree{files: files, headings: map[string][]string{}}
	var docs []document
	var sources strings.Builder
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains(notRead, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		ext := path.Ext(name)
		isSource := slices.Contains([]string{".go", ".sql", ".yaml", ".sh"}, ext) || entry.Name() == "Makefile" || path.Dir(name) == ".ci"
		if ext != ".md" && !isSource || strings.HasPrefix(entry.Name(), "docs_test") {
			return nil
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		switch {
		case ext == ".md":
			doc := parse(name, string(text))
			docs = append(docs, doc)
			facts.headings[name] = doc.headings
		case name == "Makefile":
			facts.targets = submatches(makeRule, string(text))
		case ext == ".sql":
			facts.tables = append(facts.tables, submatches(sqlObject, string(text))...)
		}
		if ext != ".md" {
			sources.Write(text)
		}
		return nil
	})
	testkit.Must(t, err)
	facts.sources = sources.String()
	return facts, docs
}

// TestDocuments checks that the Markdown files name only what exists.
func TestDocuments(t *testing.T) {
	t.Parallel()
	facts, docs := readTree(t, os.DirFS("."))
	if len(docs) < 2 || len(facts.targets) == 0 || len(facts.tables) == 0 {
		t.Fatalf("found %d documents, %d make targets, %d tables and views", len(docs), len(facts.targets), len(facts.tables))
	}
	for _, doc := range docs {
		for _, wrong := range facts.check(doc) {
			t.Error(wrong)
		}
	}
}

// TestDocumentsFail shows that every check can find something.
func TestDocumentsFail(t *testing.T) {
	t.Parallel()
	facts := tree{
		files: fstest.MapFS{
			"CONTRIBUTING.md": {}, ".ci/run": {}, ".ci/install": {},
		},
		targets:  []string{"run", "test"},
		sources:  "env:\"DATABASE_URL\" VOICEBRIDGE_LISTEN_MORE `yaml:\"calls\"` `yaml:\"deep\"`",
		tables:   []string{"call_summary", "threads"},
		headings: map[string][]string{"CONTRIBUTING.md": {"tests"}},
	}
	tests := []struct {
		name, text string
		wants      []string
	}{
		{name: "all is there", text: "# What it is, why\n\n" +
			"See [how](CONTRIBUTING.md#tests), [why](#what-it-is-why), [Go](https://go.dev/x.md) and `.ci/run`, `application/sdp`,\n" +
			"`internal/{a,b}`, `.ci/{run,install}`. Make up your mind from nothing.\n" +
			"```sh\nmake run\n$ make test # all\nexport DATABASE_URL=x VOICEBRIDGE_CALLS__DEEP=1\npsql -c 'SELECT * FROM call_summary JOIN threads'\n```\n"},
		{name: "links", text: "[a](MISSING.md) [b](CONTRIBUTING.md#nothing) [c](#nowhere)\n\n[d]: ./gone.png\n<img src=\"docs/page.png\">", wants: []string{
			"D.md: the link #nowhere names no heading",
			"D.md: the link ./gone.png leads nowhere",
			"D.md: the link CONTRIBUTING.md#nothing names no heading",
			"D.md: the link MISSING.md leads nowhere",
			"D.md: the link docs/page.png leads nowhere",
		}},
		{name: "paths", text: "`.ci/gone` and `.ci/{run,lost}`", wants: []string{
			"D.md: the tree has no .ci/gone",
			"D.md: the tree has no .ci/lost",
		}},
		{name: "make", text: "`make fly`\n```\nmake run && make soup\n```", wants: []string{
			"D.md: the Makefile has no target fly",
			"D.md: the Makefile has no target soup",
		}},
		{name: "program", text: "`voicebridge doctor`, `voicebridge.yaml`, `bin/voicebridge migrate`, `voicebridge`\n```\ncd x && voicebridge --help\n```", wants: []string{
			"D.md: nothing puts the program of \"voicebridge --help\" into the PATH: it is bin/voicebridge",
			"D.md: nothing puts the program of \"voicebridge doctor\" into the PATH: it is bin/voicebridge",
		}},
		{name: "settings", text: "`VOICEBRIDGE_LISTEN`, `VOICEBRIDGE_CALLS__IDLE`", wants: []string{
			"D.md: no source reads the environment variable VOICEBRIDGE_CALLS__IDLE",
			"D.md: no source reads the environment variable VOICEBRIDGE_LISTEN",
		}},
		{name: "views", text: "```sql\nselect text from spoken_words;\n```", wants: []string{
			"D.md: the schema has no table or view spoken_words",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, facts.check(parse("D.md", tt.text)), tt.wants, "findings")
		})
	}
}
