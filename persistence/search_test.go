package persistence_test

import (
	"slices"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// spellings are texts, and other spellings of the same letters.
var spellings = map[string]string{
	"caf\u00e9 au lait":                       "cafe\u0301",               // decomposed
	"re\u0301sume\u0301 draft":                "R\u00c9SUM\u00c9",         // composed, in capitals
	"\uff36\uff2f\uff29\uff23e":               "voice",                    // full width
	"\uff76\uff9e\uff97\uff7d":                "\u30ac\u30e9\u30b9",       // half-width katakana
	"\u1112\u1161\u11ab\u1100":                "\ud55c",                   // Korean letters
	"the \ufb01rst o\ufb03ce":                 "office",                   // ligatures
	"\u03b7 \u03bf\u03b4\u03cc\u03c2":         "\u039f\u0394\u038c\u03a3", // a final sigma
	"stra\u00dfe":                             "STRASSE",
	"two\u3000\uff57\uff4f\uff52\uff44\uff53": "two words", // a wide space
}

// TestSearchedLetters: the same letters are found however they were written, and are asked for.
func TestSearchedLetters(t *testing.T) {
	t.Parallel()
	for engine, url := range map[string]string{"sqlite": persistencetest.SQLiteURL(t), "postgres": persistencetest.PostgresURL(t)} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := persistencetest.Open(t, url, persistence.Options{})
			texts := map[string]string{}
			for text := range spellings {
				title := "titled"
				if strings.HasPrefix(text, "caf") {
					title = text
				}
				made, err := s.CreateThread(t.Context(), "anna", title)
				must(t, err)
				texts[made.ID] = text
				say(t, s, thread.Key{Owner: "anna", Thread: made.ID}, text)
			}
			find := func(s *persistence.Store) {
				t.Helper()
				for text, asked := range spellings {
					for _, query := range []string{text, asked} {
						found, _, err := s.Threads(t.Context(), "anna", persistence.ThreadFilter{Query: query})
						if err != nil || !slices.ContainsFunc(found, func(f persistence.Thread) bool { return texts[f.ID] == text }) {
							t.Errorf("%+q is not found in %+q: %v", query, text, err)
						}
					}
				}
				hits, err := s.SearchMessages(t.Context(), thread.Key{Owner: "anna", Thread: "other"}, []string{"cafe\u0301"}, 5)
				if err != nil || len(hits) != 1 {
					t.Errorf("SearchMessages() = %v, %v", hits, err)
				}
			}
			find(s)
			must(t, s.Close())
			// What an older version has saved is only in lower case.
			for id, text := range texts {
				lower := strings.ReplaceAll(strings.ToLower(text), "'", "''")
				persistencetest.Rows(t, url, "UPDATE messages SET search_text = '"+lower+"' WHERE thread_id = '"+id+"'")
				persistencetest.Rows(t, url, "UPDATE threads SET search_title = '"+lower+"' WHERE id = '"+id+"'")
			}
			persistencetest.Rows(t, url, "ALTER TABLE responses DROP COLUMN estimated")
			persistencetest.Rows(t, url, "ALTER TABLE assistants DROP COLUMN shared_at")
			persistencetest.Rows(t, url, "ALTER TABLE instances DROP COLUMN url")
			persistencetest.Rows(t, url, "ALTER TABLE instances DROP COLUMN certificate")
			withoutPhone(t, url)
			persistencetest.Rows(t, url, "DELETE FROM goose_db_version WHERE version_id >= 42")
			upgraded, err := persistence.Open(t.Context(), url, persistence.Options{})
			must(t, err)
			t.Cleanup(func() { must(t, upgraded.Close()) })
			find(upgraded)
		})
	}
}
