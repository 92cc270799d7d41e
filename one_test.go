package voicebridge_test

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// mechanisms are the rows of ARCHITECTURE.md's table "Of which there is one": what finds them in the tree. A capture is
// the name of one, after that of its package; without a capture the folder is the name.
var mechanisms = map[string]struct {
	files *regexp.Regexp
	one   *regexp.Regexp
}{
	"door":      {product, exported("Door")},
	"queue":     {product, exported("Queue")},
	"registry":  {product, exported("Registry")},
	"router":    {product, exported("Router")},
	"spool":     {regexp.MustCompile(`/spool/[a-z]+\.go$`), exported("Writer")},
	"reducer":   {product, regexp.MustCompile(`(?m)^func \(.*\) (Reduce)\(`)},
	"event log": {regexp.MustCompile(`^db/migrations/postgres/`), regexp.MustCompile(`(?m)^CREATE TABLE (\w*events)\b`)},
	"claim":     {regexp.MustCompile(`^db/queries/(postgres/)?[a-z]+\.sql$`), regexp.MustCompile(`(?m)^-- name: (Claim\w+)`)},
	"backoff":   {product, regexp.MustCompile(`"github.com/cenkalti/backoff/v5"`)},
	"fake":      {regexp.MustCompile(`/([a-z]+test|simulator)/[a-z_]+\.go$`), regexp.MustCompile(`(?m)^package [a-z]*(?:test|simulator)$`)},
}

// product are the files of Go that are not tests, nor written by sqlc.
var product = regexp.MustCompile(`^(assistant|bridge|chat|cmd|hooks|llm|persistence|realtime|recording|thread|toolkit|web)/.*\.go$`)

// unfoldered is what the names of tables and queries go without.
var unfoldered = regexp.MustCompile(`^(postgres|queries)\.`)

func exported(name string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^type (` + name + `) struct`)
}

// TestOfWhichThereIsOne compares the table of ARCHITECTURE.md with the tree: what it counts, and what it names.
func TestOfWhichThereIsOne(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("ARCHITECTURE.md")
	testkit.Must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## Of which there is one\n")
	section, _, _ = strings.Cut(section, "\n## ")
	told := map[string][]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([a-z ]+) \| (\d+) \| (.+?) \|`).FindAllStringSubmatch(section, -1) {
		for _, name := range tick.FindAllStringSubmatch(row[3], -1) {
			told[row[1]] = append(told[row[1]], name[1])
		}
		slices.Sort(told[row[1]])
		if n, _ := strconv.Atoi(row[2]); n != len(told[row[1]]) {
			t.Errorf("%s: the table counts %d and names %d", row[1], n, len(told[row[1]]))
		}
	}
	found := map[string][]string{}
	err = fs.WalkDir(os.DirFS("."), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			if entry != nil && (entry.Name() == "node_modules" || entry.Name() == "testdata") {
				return fs.SkipDir
			}
			return err
		}
		for what, m := range mechanisms {
			if strings.HasSuffix(file, "_test.go") || !m.files.MatchString(file) {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for _, one := range m.one.FindAllStringSubmatch(string(text), -1) {
				name := path.Dir(file)
				if len(one) > 1 {
					name = path.Base(name) + "." + one[1]
				}
				found[what] = append(found[what], unfoldered.ReplaceAllString(name, ""))
			}
		}
		return nil
	})
	testkit.Must(t, err)
	for what := range maps.Keys(found) {
		slices.Sort(found[what])
		found[what] = slices.Compact(found[what])
	}
	testkit.Equal(t, found, told, "the table and the tree differ")
}
