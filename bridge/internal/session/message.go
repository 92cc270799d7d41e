package session

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// message is a message of the thread that this call writes.
type message struct {
	item  *item
	id    string
	role  thread.Role
	meta  thread.Metadata
	texts []growingText // by content index
	half  string        // of a character that a piece of text has ended in, as in JSON
	files []thread.Part // images in a user's text
	tools []thread.Part
	// changed means that the message must be saved.
	changed bool
	// placed means that the message is in the thread, or on its way there.
	placed bool
	// flushAt and publishAt are when partial text is saved and published; zero if there is none.
	flushAt, publishAt time.Time
	// written is the text as last saved, published as last published; pieces means that added text
	// can be saved by itself.
	written, published string
	pieces             bool
	// exact means that the upstream has said how much was played.
	exact bool
	// heard is what was played, if the upstream has said that, too.
	heard *string
	// sound is how long it is spoken, as far as it has come; zero if nobody knows.
	sound time.Duration
	// silent means that the text of an answer is not spoken: the client has asked for text.
	silent bool
	masked bool // it has keys of a telephone, and its text does not
	// transcriptionBy is when to give up on the transcription of an utterance.
	transcriptionBy time.Time
	// response is the response of an assistant's message.
	response *response
	// queued is the id of the queued message that it was.
	queued string
	// after is the id of a message that follows this one and has no item: a text that the upstream
	// refused, or one written by a tool.
	after string
	// before is what was heard of an answer before it went on, heardBefore how long that was, resumed how often it did,
	// goesOn the item with what follows, and rests the ids of all such items.
	before      string
	heardBefore time.Duration
	resumed     int
	goesOn      *item
	rests       []string
	// past means that it was in the thread when the context was last reset: what comes next comes after all such
	// messages.
	past bool
}

// text returns the message's text.
func (m *message) text() string { return m.with(m.spoken()) }

// with puts what had been heard before the answer went on before a text.
func (m *message) with(text string) string {
	if m.before == "" || text == "" {
		return m.before + text
	}
	return joined(m.before, text)
}

// spoken returns the text without what had been heard before the answer went on.
func (m *message) spoken() string {
	if len(m.texts) == 1 {
		return m.texts[0].String()
	}
	texts := make([]string, len(m.texts))
	for i := range m.texts {
		texts[i] = m.texts[i].String()
	}
	return strings.Join(texts, "\n")
}

// isCut reports whether it is an answer of which the end was not heard.
func (m *message) isCut() bool {
	return m != nil && m.meta.Status == thread.StatusInterrupted && m.meta.HeardText != nil
}

// heardText returns what was heard of the message's text.
func (m *message) heardText() string {
	if m.isCut() {
		return *m.meta.HeardText
	}
	return m.text()
}

// growingText is text to which pieces are added without copying what is there. The first whole bytes of it are as the
// upstream has last said all of it.
type growingText struct {
	b     *strings.Builder
	whole int
}

func newGrowingText(text string) growingText {
	w := growingText{b: new(strings.Builder)}
	w.b.WriteString(text)
	return w
}

// String returns the current text.
func (w growingText) String() string { return w.b.String() }

// end ends a message in progress.
func (m *message) end(status thread.Status) {
	m.transcriptionBy = time.Time{}
	if m.open() {
		m.meta.Status, m.changed = status, true
	}
}

func (m *message) open() bool { return m.meta.Status == thread.StatusInProgress }

// grows reports whether more text may come. The upstream generates faster than it speaks: it may
// send the rest of an interrupted answer until the response is done.
func (m *message) grows() bool {
	return m.open() || (m.meta.Status == thread.StatusInterrupted && m.response != nil && !m.response.done)
}

// beingMade reports whether the message may still get text or tool calls.
func (m *message) beingMade() bool {
	return m != nil && (m.open() || m.response != nil && !m.response.done)
}

func (m *message) parts() []thread.Part { return m.partsWith(m.tools) }

// show adds images to the message.
func (m *message) show(images []Image) {
	for _, i := range images {
		m.files = append(m.files, i.Part)
	}
}

// partsWith returns the message's parts with these tool parts.
func (m *message) partsWith(tools []thread.Part) []thread.Part {
	var parts []thread.Part
	if m.role == thread.RoleAssistant {
		parts = append(parts, thread.StepStart())
	}
	if text := m.text(); text != "" || len(tools)+len(m.files) == 0 {
		parts = append(parts, thread.TextPart(text))
	}
	return append(append(parts, m.files...), tools...)
}

// comes records that words of an answer come, as the transcript of audio or, if spoken is false, as text alone.
func (m *message) comes(spoken bool) { m.silent = !spoken && (m.silent || m.text() == "") }

// maxContents is how many content parts of an item are told apart.
const maxContents = 16

// part returns the text of a content part. The last one that is told apart has the words of all that follow.
func (m *message) part(index int) *growingText {
	index = min(max(index, 0), maxContents-1)
	for len(m.texts) <= index {
		m.texts = append(m.texts, newGrowingText(""))
	}
	return &m.texts[index]
}

// add appends text to the text of a content part.
func (m *message) add(index int, text string) {
	w := m.part(index)
	text = withoutNUL(text)
	if w.isWhole() {
		text = joined(w.String(), text)[w.whole:]
	}
	if w.b.Len()+len(text) > maxMessageText {
		m.setText(index, w.String()+text)
		return
	}
	w.b.WriteString(text)
}

// isWhole reports whether the upstream has said all of the text, and nothing since.
func (w growingText) isWhole() bool { return w.whole > 0 && w.whole == w.b.Len() }

// whole takes what the upstream calls all of a content part, and reports whether there is anything new in it.
func (m *message) whole(index int, text string) (more bool) {
	w := m.part(index)
	old := w.String()
	all, known := merged(old, old[w.whole:], text)
	if all != old {
		m.setText(index, all)
		w = m.part(index)
	}
	if known {
		w.whole = w.b.Len()
	}
	return all != old
}

// merged adds to a text what the upstream calls all of it. What does not begin with the text is a further piece, unless
// it was said in pieces since the last one. known means that there is nothing else in what was said since. Neither
// signs nor capitals make a difference.
func merged(text, since, all string) (now string, known bool) {
	switch said := folded(all); {
	case said == "" && text != "":
		return text, false
	case strings.HasPrefix(said, folded(text)):
		return all, true
	case strings.Contains(folded(since), said): // an interrupted answer is told shorter than it was made
		return text, folded(since) == said
	}
	return joined(text, all), true
}

// folded returns what of a text is heard.
func folded(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || unicode.IsPunct(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}

// joined returns two pieces of a text as one, with a space between their words.
func joined(text, more string) string {
	next, _ := utf8.DecodeRuneInString(more)
	if text != "" && insideWord(text+more, len(text)) && !unicode.In(next, unicode.Po, unicode.Pe, unicode.Pf) {
		return text + " " + more
	}
	return text + more
}

// halfAtEnd finds the first half of a character (a UTF-16 surrogate, RFC 8259, 7) at the end of a JSON string.
var halfAtEnd = regexp.MustCompile(`(?:^|[^\\])(?:\\\\)*(\\u[dD][89aAbB][0-9a-fA-F]{2})$`)

// piece returns the text of a delta. Half of a character at its end waits for the other half.
func (m *message) piece(ev *event) (text string) {
	if m.half == "" && !strings.HasSuffix(ev.Delta, "\ufffd") {
		return ev.Delta
	}
	raw := string(realtime.Member(ev.Raw, "delta"))
	escaped := m.half + raw[1:len(raw)-1]
	m.half = ""
	if at := halfAtEnd.FindStringSubmatchIndex(escaped); at != nil {
		escaped, m.half = escaped[:at[2]], escaped[at[2]:]
	}
	if json.Unmarshal([]byte(`"`+escaped+`"`), &text) != nil {
		return ev.Delta
	}
	return text
}

// withoutNUL removes what the thread cannot store, so that text has the same length here and there.
func withoutNUL(text string) string { return strings.ReplaceAll(text, "\x00", "") }

func (m *message) setText(index int, text string) {
	if len(text) > maxMessageText {
		text = strings.ToValidUTF8(text[:maxMessageText], "")
	}
	*m.part(index) = newGrowingText(withoutNUL(text))
}

// last returns the id of the last message of the thread that belongs to this one.
func (m *message) last() string { return cmp.Or(m.after, m.id) }

// partsSize returns how many bytes of text and data are in the parts of a message.
func partsSize(parts []thread.Part) int {
	n := 0
	for _, p := range parts {
		n += len(p.Text) + len(p.Input) + len(p.Output) + len(p.ErrorText)
	}
	return n
}

// response is a response of the upstream.
type response struct {
	id       string
	record   records.Response
	created  bool // it was announced
	done     bool
	messages []*message // in item order
	tools    int        // number of tool calls
	open     int        // those without an answer
	// calls are those whose arguments are complete, and which may stand nowhere else.
	calls   []realtime.Item
	excess  bool      // it has asked for more tools than it may start
	resumes *message  // the message that its next item goes on with
	free    bool      // it costs nothing by itself
	charged bool      // its speech
	asked   time.Time // when the user's turn ended that it answers
	heard   time.Time // when its first sound was
	// latency has the stages that the answer has reached: see stage.
	latency map[string]int64
}

// turn is the present one, as far as it is made.
type turn struct {
	responses []*response
	charges   []records.Response
	asked     time.Time
}

// note adds a key to the metadata.
func (m *message) note(key string, value any) {
	extra := maps.Clone(m.meta.Extra) // the present one may be on its way to the database
	if extra == nil {
		extra = make(map[string]json.RawMessage)
	}
	extra[key] = encode(value)
	m.meta.Extra, m.changed = extra, true
}

// of returns the response that the message belongs to, nil if unknown.
func (m *message) of() *response {
	if m == nil {
		return nil
	}
	return m.response
}

// setWhole makes text the only content.
func (m *message) setWhole(text string) {
	m.texts = nil
	m.setText(0, text)
	m.texts[0].whole = m.texts[0].b.Len()
}

// item is an entry of the conversation.
type item struct {
	id  string
	gen int // of the upstream session that contains it
	// prev is the item before this one, empty if there is none or it is not known. linked means that the upstream has
	// named it; until then it is the one that was told of before.
	prev   string
	linked bool
	// seeded items come from the thread and are not saved again.
	seeded bool
	// announced means that the upstream has said that the conversation has it.
	announced bool
	billed    bool // the cost of its transcription is recorded
	unheeded  bool // it is an utterance that nobody answers: it has not interrupted
	// forgotten items were deleted upstream, but stay in the thread.
	forgotten bool
	// message is the message that the item belongs to, nil if it is not shown.
	message *message
	// from and until are when an utterance began and ended. fromMS is the former in the upstream's own count, and
	// reported when the upstream said so.
	from, until time.Time
	fromMS      int64
	reported    time.Time
	raw         realtime.Item // as far as known, for conversation.item.retrieve
}

// pace is how fast the voice speaks, in Latin letters per second. Measured ones are accepted within the bounds.
type pace float64

const (
	defaultPace pace = 15 // until this call has heard a whole answer
	minPace     pace = 3
	maxPace     pace = 60
	minMeasured      = 2 * time.Second // least audio that gives a meaningful pace
)

// measure takes how long so many letters were spoken.
func (p *pace) measure(letters float64, took time.Duration) {
	if took >= minMeasured {
		*p = min(max(pace(letters/took.Seconds()), minPace), maxPace)
	}
}

// length estimates how long a text is spoken.
func (p pace) length(text string) time.Duration {
	return time.Duration(letters(text) / float64(p) * float64(time.Second))
}

// scripts are those of which a character does not take as long to say as a Latin letter, and how many letters it takes.
// All languages say about as much in the same time (Coupé et al., Science Advances 5, 2019), in characters that say
// more or less: a word, a syllable, or consonants without their vowels. The page's captions follow the same table.
var scripts = []struct {
	of      []*unicode.RangeTable
	letters float64
}{
	{[]*unicode.RangeTable{unicode.Han, unicode.Yi}, 4.2},
	{[]*unicode.RangeTable{
		unicode.Hangul, unicode.Ethiopic, unicode.Canadian_Aboriginal, unicode.Cherokee, unicode.Vai,
	}, 2.4},
	{[]*unicode.RangeTable{unicode.Hiragana, unicode.Katakana, unicode.Bopomofo}, 1.9},
	{[]*unicode.RangeTable{unicode.Inherited, unicode.Mn, unicode.Cf, unicode.So}, 0},
	{[]*unicode.RangeTable{unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar}, 1.8},
	{[]*unicode.RangeTable{unicode.Arabic, unicode.Hebrew, unicode.Syriac}, 1.4},
	{[]*unicode.RangeTable{
		unicode.Devanagari, unicode.Bengali, unicode.Gujarati, unicode.Gurmukhi, unicode.Tamil, unicode.Telugu,
		unicode.Kannada, unicode.Malayalam,
	}, 1.2},
	{[]*unicode.RangeTable{unicode.Nd}, 3},
}

// lettersOf returns how many Latin letters take as long to say as a character.
func lettersOf(r rune) float64 {
	if r < utf8.RuneSelf && !('0' <= r && r <= '9') {
		return 1
	}
	for _, s := range scripts {
		if unicode.In(r, s.of...) {
			return s.letters
		}
	}
	return 1
}

// letters returns how many Latin letters take as long to say as a text.
func letters(text string) (n float64) {
	for _, r := range text {
		n += lettersOf(r)
	}
	return n
}

// beginning returns the beginning of a text that is spoken in a share of the time that all of it takes, in whole words.
func beginning(text string, share float64) string {
	if share >= 1 {
		return text
	}
	left, end := letters(text)*share, 0
	for i, r := range text {
		if left -= lettersOf(r); left < -lettersOf(r)/2 {
			break
		}
		end = i + utf8.RuneLen(r)
	}
	whole := end
	for whole > 0 && insideWord(text, whole) {
		_, size := utf8.DecodeLastRuneInString(text[:whole])
		whole -= size
	}
	if whole == 0 && !strings.ContainsAny(text, " \n") {
		whole = end // one long word
	}
	return strings.TrimSpace(text[:whole])
}

// unspaced are the scripts whose words have no spaces between them.
var unspaced = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi, unicode.Thai, unicode.Lao,
	unicode.Khmer, unicode.Myanmar, unicode.Tibetan,
}

// insideWord reports whether a text must not be cut there.
func insideWord(text string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:at])
	after, size := utf8.DecodeRuneInString(text[at:])
	spaced := func(r rune) bool { return !unicode.IsSpace(r) && !unicode.In(r, unspaced...) }
	return size > 0 && (unicode.In(after, unicode.M, unicode.Cf) || spaced(before) && spaced(after))
}

// clientItem holds the fields that are read from an item that a browser wants to create.
type clientItem struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	CallID  string          `json:"call_id"`
	Output  json.RawMessage `json:"output"`
	Content []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	} `json:"content"`
}

// text joins the item's texts, beside which there may be images; bad is the index of a part that is
// neither, or negative.
func (it *clientItem) text() (text string, bad int) {
	var texts []string
	for i, c := range it.Content {
		switch {
		case c.Type == realtime.ContentInputImage && it.Role == string(thread.RoleUser):
		case c.Text != nil && (c.Type == realtime.ContentInputText ||
			c.Type == realtime.ContentOutputText && it.Role == string(thread.RoleAssistant)):
			texts = append(texts, *c.Text)
		default:
			return "", i
		}
	}
	return strings.Join(texts, "\n"), -1
}

// voice is the item of an answer that is spoken now.
func (m *message) voice() *item { return cmp.Or(m.goesOn, m.item) }

// sounded takes where a message is in the recording; what goes on began before.
func (m *message) sounded(span *thread.AudioSpan) {
	if old := m.meta.Audio; m.resumed > 0 && old != nil && span != nil {
		span.StartMS = old.StartMS
	}
	m.meta.Audio = span
}

// goOn has the message end with what was heard of it, until more is said.
func (m *message) goOn() {
	m.before, m.heardBefore = m.heardText(), time.Duration(*m.meta.AudioEndMS)*time.Millisecond
	m.texts, m.half, m.sound = []growingText{newGrowingText("")}, "", 0
	m.exact, m.heard = false, nil
	m.meta.Status, m.meta.HeardText, m.meta.AudioEndMS = thread.StatusInProgress, nil, nil
	m.resumed++
	m.note(metaResumed, m.resumed)
}

// Members of the metadata of an answer that went on after what was no interruption: how often it did, and the
// upstream's items with what followed.
const (
	metaResumed = "resumed"
	metaRests   = "rest_item_ids"
)

// maskedKeys stands for keys of a telephone of which the model alone learns which they were.
const maskedKeys = "DTMF: ****"

// minSecret is how many digits are a secret: fewer choose from a menu, and stand in much else.
const minSecret = 3

// secretsOf returns the digits of keys that are secret.
func secretsOf(keys string) []string {
	digits := strings.FieldsFunc(keys, func(r rune) bool { return r < '0' || r > '9' })
	return slices.DeleteFunc(digits, func(d string) bool { return len(d) < minSecret })
}
