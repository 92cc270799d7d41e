//go:build nightly

package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// Series of numbered texts, which differ in how they reach the thread.
const (
	typed  = "typed"  // in a call
	posted = "posted" // by HTTP, into a call or as a text turn
	queued = "queued" // by HTTP, into the queue
)

var textPattern = regexp.MustCompile(`^Echo: (typed|posted|queued) \d+-(\d+)$`)

// ledger is what a person did and was told, with which the thread is compared.
type ledger struct {
	calls   map[string]time.Time // when the person called, by call
	texts   map[string]*text     // by words
	count   map[string]int       // of texts, by series
	waiting map[string]*text     // sent by HTTP and not taken yet, by series
	saved   map[string]thread.Message
	items   map[string]*item
	known   map[string]time.Time // when the person was told that the thread has it, by id, item and words
}

// text is a numbered text.
type text struct {
	words        string
	begun, taken time.Time // when it was first sent, and when a request was answered that it is taken
	link         *link     // over which it was typed; nil if it was not
}

// item is an item of the conversation that was shown in a call.
type item struct {
	link  *link
	text  string // that it was shown with
	words string // said since
	marks []mark
}

// mark is how much of an item's words was shown at a time.
type mark struct {
	at     time.Time
	length int
}

func newLedger() ledger {
	return ledger{
		calls: map[string]time.Time{}, texts: map[string]*text{}, count: map[string]int{}, waiting: map[string]*text{},
		saved: map[string]thread.Message{}, items: map[string]*item{}, known: map[string]time.Time{},
	}
}

// text makes the next text of a series.
func (p *person) text(series string) *text {
	p.count[series]++
	x := &text{words: fmt.Sprintf("Echo: %s %d-%d", series, p.number, p.count[series]), begun: time.Now()}
	p.texts[x.words] = x
	return x
}

// know records that the thread has something.
func (l *ledger) know(name string) {
	if _, ok := l.known[name]; !ok {
		l.known[name] = time.Now()
	}
}

// isTaken records that a text was taken.
func (l *ledger) isTaken(x *text) {
	x.taken = time.Now()
	if strings.Contains(x.words, posted) {
		l.know(x.words)
	}
}

// isSaved records a message that was reported as saved.
func (l *ledger) isSaved(m thread.Message) {
	l.saved[m.ID] = m
	l.know(m.ID)
}

// isShown records that an item was shown.
func (l *ledger) isShown(it realtime.Item, over *link) {
	if l.items[it.ID] != nil {
		return
	}
	l.items[it.ID] = &item{link: over, text: it.Text(), marks: []mark{{at: time.Now()}}}
	l.know(it.ID)
}

// isSaid records words that were added to an item, if it was shown over the same connection:
// else some may have been said between the two.
func (l *ledger) isSaid(id, words string, over *link) {
	if it := l.items[id]; it != nil && it.link == over {
		it.words += words
		it.marks = append(it.marks, mark{time.Now(), len(it.words)})
	}
}

// excuses reports whether what was passed on at a time may be lost, because the process was
// killed soon after.
func (l *life) excuses(at time.Time) bool { return l.killed && l.ended.Sub(at) < unsaved }

// row is a message as it is in the database.
type row struct {
	id, role, source, status, text, item, call string
}

func rowOf(m thread.Message) row {
	return row{m.ID, string(m.Role), string(m.Metadata.Source), string(m.Metadata.Status), m.Text(), m.Metadata.ItemID, m.Metadata.CallID}
}

func (r row) String() string {
	return fmt.Sprintf("%s %s %s %s %s %s %.60q", r.id, r.call, r.item, r.role, r.source, r.status, r.text)
}

// check compares the thread with the ledger.
func (p *person) check() tally {
	if p.thread == "" {
		p.t.Errorf("%s: want a call of person %d, there was none", p.soak.name, p.number)
		return p.tally
	}
	c := comparison{person: p, byID: map[string]row{}, byItem: map[string]row{}, byText: map[string]row{}, rows: p.rows()}
	for _, m := range c.rows {
		c.once(c.byItem, m.item, m)
		if textPattern.MatchString(m.text) && m.role == "user" {
			c.once(c.byText, m.text, m)
		}
		if m.role == "user" && m.source == "voice" {
			p.tally.Spoken++
		}
		c.byID[m.id] = m
	}
	p.tally.Messages = len(c.rows)
	c.order()
	for _, m := range p.saved {
		c.hasSaved(m)
	}
	for id, it := range p.items {
		c.hasItem(id, it)
	}
	for _, x := range p.texts {
		c.hasText(x)
	}
	p.tally.Typed, p.tally.Posted, p.tally.Queued = p.count[typed], p.count[posted], p.count[queued]
	c.report()
	return p.tally
}

// comparison compares a person's ledger with the thread.
type comparison struct {
	*person
	rows                 []row
	byID, byItem, byText map[string]row
	faults               []event // what is wrong, and when it happened
}

// wrong counts a fault.
func (c *comparison) wrong(kind *int, at time.Time, format string, args ...any) {
	*kind++
	c.faults = append(c.faults, event{at, fmt.Sprintf(format, args...)})
}

// once adds a row to an index in which nothing may be there twice.
func (c *comparison) once(index map[string]row, name string, m row) {
	if first, ok := index[name]; ok && name != "" {
		c.wrong(&c.tally.Doubled, c.begun(first), "%s: want it once, there are %s and %s", name, first, m)
	}
	index[name] = m
}

// begun is a time before which a message cannot have been in the thread.
func (c *comparison) begun(m row) time.Time {
	if x := c.texts[m.text]; x != nil && m.role == "user" {
		return x.begun
	}
	return c.calls[m.call]
}

// order checks that the thread has the texts of each series in order, and that nothing stands
// behind something that began when it was already known to be there.
func (c *comparison) order() {
	numbers := map[string]int{}
	var latest row
	for _, m := range c.rows {
		names := []string{m.id, m.item}
		if found := textPattern.FindStringSubmatch(m.text); found != nil && m.role == "user" {
			names = append(names, m.text)
			n, _ := strconv.Atoi(found[2])
			if n < numbers[found[1]] {
				c.wrong(&c.tally.Misplaced, c.begun(m), "%q: want it before number %d, it comes after it", m.text, numbers[found[1]])
			}
			numbers[found[1]] = n
		}
		for _, name := range names {
			if at, ok := c.known[name]; ok && at.Before(c.begun(latest)) {
				c.wrong(&c.tally.Misplaced, at, "%s: want it before %s, which began later (%s)", m, latest, clock(c.begun(latest)))
				break
			}
		}
		if c.begun(m).After(c.begun(latest)) {
			latest = m
		}
	}
}

// hasSaved looks for a message that was reported as saved.
func (c *comparison) hasSaved(want thread.Message) {
	m, ok := c.byID[want.ID]
	told := want.Text()
	switch {
	case !ok:
		c.wrong(&c.tally.Lost, c.known[want.ID], "message reported as saved: want %s, it is not there", rowOf(want))
	case want.Metadata.Status == thread.StatusCompleted && m.text != told,
		!strings.HasPrefix(m.text, told) && m.role == "assistant":
		c.wrong(&c.tally.Lost, c.known[want.ID], "message reported as saved: want %s, it is %s", rowOf(want), m)
	}
	for _, part := range want.Parts {
		if part.IsTool() && part.State == thread.ToolOutputAvailable {
			c.tally.Charts++
		}
	}
}

// hasItem looks for the words that were shown of an item.
func (c *comparison) hasItem(id string, it *item) {
	i := len(it.marks)
	for i > 0 && it.link.life.excuses(it.marks[i-1].at) {
		i--
	}
	if i == 0 {
		return
	}
	last := it.marks[i-1]
	want := it.words[:last.length]
	m, ok := c.byItem[id]
	if !ok { // said in a later call, too, as another item
		m, ok = c.byText[it.text]
	}
	if !ok {
		c.wrong(&c.tally.Lost, last.at, "item %s: want it with %.60q, it is not there", id, want)
	} else if !strings.HasPrefix(m.text, want) {
		c.wrong(&c.tally.Lost, last.at, "item %s: want %d bytes that end in %q, there are %d: %s", id, len(want), want[max(0, len(want)-20):], len(m.text), m)
	}
}

// hasText looks for a text: one that was taken, or typed over a connection that did not end
// within a moment.
func (c *comparison) hasText(x *text) {
	if _, ok := c.byText[x.words]; ok {
		return
	}
	ended := func(at time.Time) bool { return !at.IsZero() && at.Sub(x.begun) < unsaved }
	switch {
	case !x.taken.IsZero():
		c.wrong(&c.tally.Lost, x.taken, "%q, which was taken at %s: want it in the thread, it is not there", x.words, clock(x.taken))
	case x.link != nil && !ended(x.link.closed) && !ended(x.link.life.ended):
		c.wrong(&c.tally.Lost, x.begun, "%q, which was typed: want it in the thread, it is not there", x.words)
	default:
		c.tally.Unconfirmed++
	}
}

// report says what is wrong, what happened at that time, and what the thread has there.
func (c *comparison) report() {
	if len(c.faults) == 0 {
		return
	}
	slices.SortFunc(c.faults, func(a, b event) int { return a.at.Compare(b.at) })
	var b strings.Builder
	fmt.Fprintf(&b, "%s: thread %s of person %d differs from what its caller did and was told in %d things:\n",
		c.soak.name, c.thread, c.number, len(c.faults))
	for i, e := range c.faults {
		if i == 10 {
			fmt.Fprintf(&b, "  and so on\n")
			break
		}
		fmt.Fprintf(&b, "  %s %s\n", clock(e.at), e.what)
	}
	from, to := c.faults[0].at.Add(-10*time.Second), c.faults[0].at.Add(10*time.Second)
	fmt.Fprintf(&b, "in these seconds:\n%s", c.soak.happened(from, to))
	c.t.Error(b.String())
	var all strings.Builder
	fmt.Fprintf(&all, "%sthe thread:\n", b.String())
	for _, m := range c.rows {
		fmt.Fprintf(&all, "  %s\n", m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&all, "what the person did and was told:\n%s", listed(c.did, time.Time{}, time.Now()))
	keep(c.t, "ledger.txt", []byte(all.String()))
}

func (p *person) rows() []row {
	var rows []row
	for cursor := "0"; ; {
		var page struct {
			Messages []thread.Message
			Next     json.Number `json:"next_after"`
		}
		p.soak.read(p.t, "/api/threads/"+p.thread+"/messages?limit=200&after="+cursor, &page)
		for _, m := range page.Messages {
			rows = append(rows, rowOf(m))
		}
		if page.Next == "" || page.Next == "null" || len(page.Messages) == 0 {
			return rows
		}
		cursor = page.Next.String()
	}
}
