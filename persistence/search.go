package persistence

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

const (
	// commonWord is how many threads with a word make it a common one. Threads with a rare
	// word are looked up in the index; for a common word the threads are searched one after
	// the other, the latest first, until there are enough.
	commonWord = 100
	// maxCandidates is how many messages with a word SearchMessages ranks.
	maxCandidates = 250

	maxQueryBytes = 1000
	// maxLookups is how many words of a query are looked up, one by one.
	maxLookups = 16
)

// wordMatches says which threads may have all words of a query.
type wordMatches struct {
	// ids are those with all rare words; empty where there is no rare word.
	ids []string
	// common are the words for which ListThreads must still search.
	common []string
	// none says that no thread has all words.
	none bool
}

// threadsWith looks the words up, one by one.
func (s *Store) threadsWith(ctx context.Context, owner string, words []string) (h wordMatches, err error) {
	rare := false
	looked := words[:min(len(words), maxLookups)]
	h.common = slices.Clone(words[len(looked):])
	for _, word := range looked {
		ids, err := s.eng.read().ThreadsWithWord(ctx, owner, word, commonWord)
		if err != nil {
			return wordMatches{}, err
		}
		slices.Sort(ids)
		if len(ids) > 0 && ids[0] == "" {
			h.common = append(h.common, word)
			continue
		}
		if rare {
			ids = slices.DeleteFunc(ids, func(id string) bool {
				_, found := slices.BinarySearch(h.ids, id)
				return !found
			})
		}
		if rare, h.ids = true, ids; len(ids) == 0 {
			return wordMatches{none: true}, nil
		}
	}
	return h, nil
}

// searchForm returns a text as it is searched, so that the same letters are found however they are written: composed, of
// ordinary width, and in the case in which Unicode compares letters, whatever stands beside them (nearly NFKC_Casefold,
// https://www.unicode.org/reports/tr44/#NFKC_Casefold).
func searchForm(text string) string {
	form := norm.NFKC.String(cases.Fold().String(norm.NFKC.String(text)))
	if len(form) > 2*len(text)+maxQueryBytes { // signs that stand for whole phrases
		return strings.ToLower(text)
	}
	return form
}

// searchWords returns the words of a query in their search form, long ones first, without those that are found wherever
// another is.
func searchWords(words []string) (out []string) {
	forms := strings.Fields(searchForm(thread.CleanText(strings.Join(words, " "))))
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, w := range forms {
		if !slices.ContainsFunc(out, func(longer string) bool { return strings.Contains(longer, w) }) {
			out = append(out, w)
		}
	}
	return out
}

// FirstMatch returns where in a text the longest of a query's words begins that it has, the first of equally long ones,
// as the searches of the Store find them: short ones are in many words. It returns -1 if there is none.
func FirstMatch(text string, words []string) int {
	var form strings.Builder
	var from []int // the place in text of each byte of form
	for at := 0; at < len(text); {
		n := max(1, norm.NFKC.NextBoundaryInString(text[at:], true))
		folded := searchForm(text[at : at+n])
		form.WriteString(folded)
		for range len(folded) {
			from = append(from, at)
		}
		at += n
	}
	first, length := -1, 0
	for _, w := range searchWords(words) {
		at := strings.Index(form.String(), w)
		if at >= 0 && len(w) >= length && (first < 0 || from[at] < first) {
			first, length = from[at], len(w)
		}
	}
	return first
}

// searchText returns what is searched: every word of a text once, in its search form. The words of a query
// are looked up one by one, so no more is needed, and indexing a whole long answer would be most of
// the cost of saving it.
func searchText(text string) string {
	text = searchForm(text)
	seen := map[string]bool{}
	var words strings.Builder
	for word := range strings.FieldsSeq(text) {
		if seen[word] {
			continue
		}
		seen[word] = true
		if words.Len() > 0 {
			words.WriteByte(' ')
		}
		words.WriteString(word)
	}
	return words.String()
}

// SearchMessages searches the owner's other threads for words: messages with the most of them come
// first, then the latest. Of a word that many messages contain it ranks only some, the latest.
// words are at most 1000 bytes; limit is 1 to 50.
func (s *Store) SearchMessages(ctx context.Context, key thread.Key, words []string, limit int) ([]SearchHit, error) {
	if err := checkKey(key); err != nil {
		return nil, fmt.Errorf("search messages: %w", err)
	}
	if limit < 1 || limit > 50 {
		return nil, fmt.Errorf("search messages: %w", Invalid("limit %d", limit))
	}
	var ids []string
	words = searchWords(words)
	for _, w := range words[:min(len(words), maxLookups)] {
		found, err := s.eng.read().MessagesWithWord(ctx, pgdb.MessagesWithWordParams{
			Owner: key.Owner, ExceptThread: key.Thread, Word: w, MaxRows: maxCandidates,
		})
		if err != nil {
			return nil, s.fail("search messages", err)
		}
		ids = append(ids, found...)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	found, err := s.eng.read().SearchMessages(ctx, pgdb.SearchMessagesParams{
		Owner: key.Owner, ExceptThread: key.Thread, Ids: list(slices.Compact(ids)), Words: list(words),
		MaxRows: int64(limit),
	})
	hits, err := database.Rows(found, err, func(r pgdb.SearchMessagesRow) SearchHit {
		return SearchHit{
			ThreadID: r.ThreadID, Title: r.Title, Role: thread.Role(r.Role), Text: r.Text, CreatedAt: r.CreatedAt.Time,
			Hits: int(r.Hits),
		}
	})
	return hits, s.fail("search messages", err)
}

// list encodes texts as a JSON array, for a query.
func list(texts []string) string {
	if len(texts) == 0 {
		return "[]"
	}
	data, err := json.Marshal(texts)
	if err != nil {
		panic(err) // there is no text that cannot be encoded
	}
	return string(data)
}
