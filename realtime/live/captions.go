package live

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"voicebridge/realtime"
)

// Times of transcripts, by the session's clock but for those of the wall. A session says neither when speech begins
// nor when it ends. Source: measurements that several developers have published: fragments of a phrase are up to 0.95
// s apart, sentences from 1 s.
const (
	userGap  = 1300 * time.Millisecond // between two utterances
	voiceGap = 1200 * time.Millisecond // between two answers
	cutGap   = 600 * time.Millisecond  // after an answer that was cut off
	// shortPause is a silence after which the model goes on, as between two words.
	shortPause = 200 * time.Millisecond
	// userGrace and voiceGrace are how long a segment waits for a fragment, by the wall.
	userGrace, voiceGrace = 1500 * time.Millisecond, 1600 * time.Millisecond
	// userQuiet is how long the user says nothing before an answer ends an utterance.
	userQuiet = time.Second
	// overlap is how long both speak before it is judged who gives way, and maxOverlap until nobody does.
	overlap, maxOverlap = time.Second, 5 * time.Second
	// lag is how late fragments come: those of one phrase do so in bursts.
	lag = 1300 * time.Millisecond
	// tail is how exact their times are.
	tail = 300 * time.Millisecond
	// far is how far from the sound a time can be, and repeats how long after a fragment it may come again, by the wall.
	far, repeats = 10 * time.Second, 30 * time.Second
)

// maxSegments is how many segments are kept for late fragments, maxHeard how many fragments for repeats.
const maxSegments, maxHeard = 64, 1024

// An annotation is what a transcript says of a noise, such as [clears throat]; the beginning of one may come before the
// rest. What is in brackets for other reasons, such as array[0] or [0, 1), was said.
var (
	annotation = regexp.MustCompile(`(^|\s)\[[\pL\pM '’-]{2,60}\]`)
	annotates  = regexp.MustCompile(`(^|\s)\[[\pL\pM '’-]{0,60}$`)
)

// side is who speaks.
type side int

const (
	user side = iota
	voice
)

// segment is an utterance of the user, or an answer: what Realtime calls an item.
type segment struct {
	id, response string
	side         side
	start, end   time.Duration // by the session's clock
	fragments    []fragment
	touched      time.Time // when the last fragment came
	begun        time.Time
	committed    bool // of the user: the end was told
	closed       bool
	cutAt        time.Duration // of an answer: where it was cut off; zero if it was not
}

type fragment struct {
	text       string
	start, end time.Duration
}

// text is what was said until then; zero means all.
func (s *segment) text(until time.Duration) string {
	var b strings.Builder
	for _, f := range s.fragments {
		if until == 0 || f.end <= until {
			b.WriteString(f.text)
		}
	}
	return strings.TrimSpace(b.String())
}

// raw is all of it as it came.
func (s *segment) raw() string {
	var b strings.Builder
	for _, f := range s.fragments {
		b.WriteString(f.text)
	}
	return b.String()
}

// captions make items and answers, as Realtime has them, out of fragments of transcripts.
type captions struct {
	*core
	open     [2]*segment
	segments []*segment // by their beginning; the newest maxSegments
	heard    map[fragmentKey]time.Time
	order    []fragmentKey
	// begun is the end of the user's last fragment, if an annotation may begin there, and begunAt when it came.
	begun   fragment
	begunAt time.Time
	// offset is what is added to times that do not fit to the sound: a session may begin to count anew.
	offset time.Duration
	// lastItem is the item that was announced last.
	lastItem string
	// overlapAt is where the user began to speak over an answer; overlapSince is when that came, zero if it does not.
	overlapAt    time.Duration
	overlapSince time.Time
	noisy        *segment      // an answer over which there was a noise: it is held for words alone
	turnAt       time.Duration // where something else came between what is said
	repeatAt     time.Duration // where the model was asked to say again what was cut
	unheard      bool          // what was said last has no answer, or the client has silenced it
	taken        int           // how many of the user's segments, with those that are not kept, a delegation has taken
	said         int           // how many there were
	// delegates reports whether something that the user has said waits for an answer from elsewhere: otherwise each
	// answer answers what was said before it.
	delegates func() bool
}

type fragmentKey struct {
	side side
	fragment
}

// repeated reports whether the same fragment has come before.
func (c *captions) repeated(of side, f fragment) bool {
	key := fragmentKey{of, f}
	at, known := c.heard[key]
	if known && c.now.Sub(at) < repeats {
		return true
	}
	if c.heard[key] = c.now; known {
		return false
	}
	if c.order = append(c.order, key); len(c.order) > maxHeard {
		delete(c.heard, c.order[0])
		c.order = c.order[1:]
	}
	return false
}

// take takes a fragment.
func (c *captions) take(of side, f fragment) {
	if f.text == "" || c.repeated(of, f) {
		return
	}
	f = c.timed(of, f)
	if of == user {
		f = c.withoutAnnotations(f)
	}
	c.give(of, f)
}

// give gives a fragment to the segment to which it belongs.
func (c *captions) give(of side, f fragment) {
	s := c.segmentOf(of, f)
	if s == nil {
		f.text = c.withoutPunctuation(of, f)
		if strings.TrimSpace(f.text) == "" {
			return
		}
		s = c.begin(of, f)
	}
	if f.text != "" {
		c.add(s, f)
	}
}

// timed gives a fragment times that are near the sound: one that is far behind it or beyond what has come belongs to a
// count that begins anew, or to none.
func (c *captions) timed(of side, f fragment) fragment {
	at := c.sound.position()
	if f.end < f.start || f.end-f.start > far {
		f.end = f.start
	}
	last := at // some sessions tell words before their sound
	for _, s := range c.segments {
		last = max(last, s.end)
	}
	near := func(start time.Duration) bool { return start >= at-far && start <= last+far }
	if !near(f.start) {
		if !near(f.start + c.offset) {
			c.offset = at - f.end
		}
		f.start, f.end = f.start+c.offset, f.end+c.offset
	}
	if of == user && f.end > at+userGap {
		f.end = f.start // nothing was heard later
	}
	return f
}

// withoutAnnotations removes what nobody has said. What may be the beginning of an annotation waits for the rest of it.
func (c *captions) withoutAnnotations(f fragment) fragment {
	if b := c.begun; b.text != "" && f.start >= b.start && f.start <= b.end+userGap {
		f.text, f.start, c.begun = b.text+f.text, b.start, fragment{}
	}
	c.saidAfterAll()
	before := "" // in a word, a bracket annotates nothing
	if s := c.segmentOf(user, f); s != nil {
		before = s.raw()
	}
	if r, _ := utf8.DecodeLastRuneInString(before); before != "" && !unicode.IsSpace(r) && f.text[0] == '[' {
		return f
	}
	f.text = annotation.ReplaceAllString(f.text, "")
	if at := annotates.FindStringIndex(f.text); at != nil {
		c.begun, c.begunAt = fragment{f.text[at[0]:], f.start, f.end}, c.now
		f.text = f.text[:at[0]]
	}
	return f
}

// saidAfterAll gives what looked like the beginning of an annotation, and was none.
func (c *captions) saidAfterAll() {
	if b := c.begun; b.text != "" {
		c.begun = fragment{}
		c.give(user, b)
	}
}

// withoutPunctuation gives the punctuation at the beginning of a fragment to the segment before, to which it belongs.
func (c *captions) withoutPunctuation(of side, f fragment) string {
	rest := strings.TrimLeftFunc(f.text, func(r rune) bool { return unicode.IsSpace(r) || isClosing(r) })
	if marks := strings.TrimSpace(f.text[:len(f.text)-len(rest)]); marks != "" {
		if last := c.last(of); last != nil {
			c.add(last, fragment{marks, last.end, last.end})
		}
	}
	return rest
}

// isClosing reports whether a character ends a clause.
func isClosing(r rune) bool { return strings.ContainsRune(".,;:!?…)»”。、，；：！？", r) }

// last returns the newest segment of a side.
func (c *captions) last(of side) *segment {
	for _, s := range slices.Backward(c.segments) {
		if s.side == of {
			return s
		}
	}
	return nil
}

// segmentOf finds the segment to which a fragment belongs, nil if it begins one. A segment that has closed still gets
// its late fragments.
func (c *captions) segmentOf(of side, f fragment) *segment {
	gap := userGap
	if of == voice {
		gap = voiceGap
	}
	newest := c.last(of)
	if newest == nil {
		return nil
	}
	for _, s := range slices.Backward(c.segments) {
		if s.side != of || s == newest || f.start >= newest.start || f.start < s.start-gap {
			continue
		}
		if f.start > s.end+gap && newest.start-f.end <= gap { // the words of one side may overtake each other
			return newest
		}
		return s
	}
	answer := c.answerTo(newest)
	switch {
	case of == user && c.open[user] == nil && answer != nil && f.start < answer.start:
		return newest // however late: it was said before it was answered
	case of == voice && newest.cutAt > 0:
		gap = cutGap
	}
	if f.start > newest.end+gap || of == voice && c.isOfAnother(newest, f) {
		return nil
	}
	return newest
}

// answerTo returns the first answer that began after a segment, nil if there is none.
func (c *captions) answerTo(u *segment) *segment {
	at := slices.IndexFunc(c.segments, func(s *segment) bool { return s.side == voice && s.start > u.start })
	if at < 0 {
		return nil
	}
	return c.segments[at]
}

// isOfAnother reports whether something came between the newest answer and what is said now, which is of another one:
// the user's next turn, a question by other means, or the request to say again what was cut.
func (c *captions) isOfAnother(newest *segment, f fragment) bool {
	u := c.last(user)
	return newest.closed && u != nil && u.committed && u.start >= newest.end && f.start >= u.end ||
		f.start >= c.turnAt && newest.end <= c.turnAt && f.start-newest.end > tail ||
		newest.cutAt > 0 && c.repeatAt > newest.start && f.start >= c.repeatAt
}

// placeOf returns where in a list, which is in order, something belongs that starts then: after what starts at the same
// time.
func placeOf[T any](list []T, start time.Duration, startOf func(T) time.Duration) int {
	at, _ := slices.BinarySearchFunc(list, start, func(other T, start time.Duration) int {
		return cmp.Or(cmp.Compare(startOf(other), start), -1)
	})
	return at
}

// begin begins a segment.
func (c *captions) begin(of side, f fragment) *segment {
	if old := c.open[of]; old != nil {
		c.close(old)
	}
	s := &segment{id: newID("item_"), side: of, start: f.start, end: f.end, begun: c.now}
	at := placeOf(c.segments, s.start, func(other *segment) time.Duration { return other.start })
	before := c.lastItem
	if at < len(c.segments) { // it came late, and was said before others
		before = ""
		if at > 0 {
			before = c.segments[at-1].id
		}
	} else {
		c.lastItem = s.id
	}
	c.segments = slices.Insert(c.segments, at, s)
	if len(c.segments) > maxSegments {
		c.segments = c.segments[1:]
	}
	c.open[of] = s
	if of == user {
		c.said++
		c.beginUtterance(s, before)
		return s
	}
	if u := c.open[user]; u != nil && f.start-u.end >= userQuiet {
		c.commit(u)
	}
	c.beginAnswer(s, before)
	return s
}

func (c *captions) beginUtterance(s *segment, before string) {
	c.emit(tree{"type": realtime.TypeInputSpeechStarted, "audio_start_ms": s.start.Milliseconds(), "item_id": s.id})
	c.announce(before, s.item("in_progress", nil))
	if a := c.open[voice]; c.speaking() && s.start > a.start {
		c.overlaps(s.start)
	}
}

// announce tells of a new item.
func (c *captions) announce(before string, item tree) {
	e := tree{"type": realtime.TypeItemAdded, "previous_item_id": nil, "item": item}
	if before != "" {
		e["previous_item_id"] = before
	}
	c.emit(e)
}

// append announces an item at the end of the conversation, and returns the one before it.
func (c *captions) append(item tree) (before string) {
	c.turnAt = c.sound.position()
	before = c.lastItem
	c.lastItem, _ = item["id"].(string)
	c.announce(before, item)
	return before
}

// appendWhole appends an item that is complete.
func (c *captions) appendWhole(item tree) {
	c.emit(tree{"type": realtime.TypeItemDone, "previous_item_id": orNull(c.append(item)), "item": item})
}

func orNull(id string) any {
	if id == "" {
		return nil
	}
	return id
}

func (c *captions) beginAnswer(s *segment, before string) {
	s.response = newID("resp_")
	c.unheard = false
	c.goOn()
	c.sound.answers.Store(true)
	c.emit(responseCreated(s.response))
	item := s.item("in_progress", s.text(0))
	item["content"] = []tree{}
	c.emit(tree{"type": realtime.TypeOutputItemAdded, "response_id": s.response, "output_index": 0, "item": item})
	c.announce(before, item)
	c.emit(c.part(s, realtime.TypeContentPartAdded, tree{"part": tree{"type": "audio", "transcript": ""}}))
	c.emit(tree{"type": realtime.TypeOutputBufferStarted, "response_id": s.response})
}

func response(id, status string) tree {
	return tree{
		"id": id, "object": "realtime.response", "status": status, "status_details": nil,
		"output": []tree{}, "output_modalities": []string{spoken}, "usage": nil, "metadata": nil,
	}
}

func responseCreated(id string) tree {
	return tree{"type": realtime.TypeResponseCreated, "response": response(id, realtime.ResponseInProgress)}
}

// item is the message that a segment is, with its transcript or null.
func (s *segment) item(status string, transcript any) tree {
	role, kind := "user", "input_audio"
	if s.side == voice {
		role, kind = "assistant", "output_audio"
	}
	return tree{
		"id": s.id, "object": "realtime.item", "type": "message", "status": status, "role": role,
		"content": []tree{{"type": kind, "transcript": transcript}},
	}
}

// part is an event about the only content of an answer.
func (c *captions) part(s *segment, kind string, with tree) tree {
	with["type"], with["response_id"] = kind, s.response
	with["output_index"], with["content_index"] = 0, 0
	with["item_id"] = s.id
	return with
}

// add adds a fragment to a segment, even one that has closed.
func (c *captions) add(s *segment, f fragment) {
	at := placeOf(s.fragments, f.start, func(other fragment) time.Duration { return other.start })
	if before := s.raw(); s.closed && strings.TrimSpace(before) != before && !strings.HasPrefix(f.text, " ") {
		f.text = " " + f.text // the client has it without its last space
	}
	s.fragments = slices.Insert(s.fragments, at, f)
	s.start, s.end = min(s.start, f.start), max(s.end, f.end)
	s.touched = c.now
	if s.side == user {
		c.emit(tree{"type": realtime.TypeTranscriptionDelta, "item_id": s.id, "content_index": 0, "delta": f.text})
		return
	}
	c.emit(c.part(s, realtime.TypeAudioTranscriptDelta, tree{"delta": f.text}))
	if s.cutAt > 0 && f.end <= s.cutAt { // it was heard
		c.truncated(s)
	}
}

// commit tells that an utterance is over. Its words may still come.
func (c *captions) commit(s *segment) {
	if s.committed {
		return
	}
	s.committed = true
	c.emit(tree{"type": realtime.TypeInputSpeechStopped, "audio_end_ms": s.end.Milliseconds(), "item_id": s.id})
	c.emit(tree{"type": realtime.TypeInputCommitted, "item_id": s.id, "previous_item_id": orNull(c.before(s))})
}

// before returns the item before a segment.
func (c *captions) before(s *segment) string {
	if at := slices.Index(c.segments, s); at > 0 {
		return c.segments[at-1].id
	}
	return ""
}

func (c *captions) close(s *segment) {
	if s.closed {
		return
	}
	s.closed = true
	if c.open[s.side] == s {
		c.open[s.side] = nil
	}
	c.sound.answers.Store(c.open[voice] != nil)
	if s.side == user {
		c.commit(s)
		text := s.text(0)
		c.emit(tree{
			"type": realtime.TypeTranscriptionCompleted, "item_id": s.id, "content_index": 0, "transcript": text,
		})
		c.emit(tree{
			"type": realtime.TypeItemDone, "previous_item_id": orNull(c.before(s)), "item": s.item("completed", text),
		})
		return
	}
	if !c.delegates() {
		c.taken = max(c.taken, c.said-c.since(s.start))
	}
	c.endAnswer(s, realtime.ResponseCompleted, "")
	c.emit(tree{"type": realtime.TypeOutputBufferStopped, "response_id": s.response})
}

func (c *captions) endAnswer(s *segment, status, reason string) {
	itemStatus := "completed"
	if reason != "" {
		itemStatus = "incomplete"
	}
	item := s.item(itemStatus, s.text(0))
	c.emit(c.part(s, realtime.TypeAudioTranscriptDone, tree{"transcript": s.text(0)}))
	c.emit(c.part(s, realtime.TypeContentPartDone, tree{"part": tree{"type": "audio", "transcript": s.text(0)}}))
	c.emit(tree{"type": realtime.TypeOutputItemDone, "response_id": s.response, "output_index": 0, "item": item})
	c.emit(tree{"type": realtime.TypeItemDone, "previous_item_id": orNull(c.before(s)), "item": item})
	done := response(s.response, status)
	done["output"] = []tree{item}
	if reason != "" {
		done["status_details"] = tree{"type": status, "reason": reason}
	}
	c.emit(tree{"type": realtime.TypeResponseDone, "response": done})
}

// cut ends the answer that is being spoken where it was heard last.
func (c *captions) cut(reason string) {
	s := c.open[voice]
	if s == nil {
		return
	}
	s.closed, c.open[voice] = true, nil
	c.sound.answers.Store(false)
	s.cutAt = min(max(c.sound.heardTill(), s.start+1), s.end)
	c.sound.pass(dropped)
	c.overlapSince = time.Time{}
	c.emit(tree{"type": realtime.TypeOutputBufferCleared, "response_id": s.response})
	c.truncated(s)
	c.endAnswer(s, realtime.ResponseCancelled, reason)
}

// truncated tells how much of an answer was heard, and in this case what.
func (c *captions) truncated(s *segment) {
	c.emit(tree{
		"type": realtime.TypeItemTruncated, "item_id": s.id, "content_index": 0,
		"audio_end_ms": (s.cutAt - s.start).Milliseconds(), "transcript": s.text(s.cutAt),
	})
}

// speaking reports whether an answer is being heard now: sound says nothing, as it never stops.
func (c *captions) speaking() bool {
	s := c.open[voice]
	return s != nil && (c.sound.position() < s.end+lag || c.now.Sub(s.touched) < lag)
}

// overlaps takes that the user speaks over an answer, which is held until it is known who gives way.
func (c *captions) overlaps(at time.Duration) {
	if c.overlapSince.IsZero() {
		c.overlapAt, c.overlapSince = at, c.now
		c.sound.pass(held)
	}
	c.overlapAt = min(c.overlapAt, at)
}

// judge decides who gives way, by the sound of the model or, if it says nothing, by when its words come: they may run
// ahead of the sound. An answer that goes on although the user is quiet again was not interrupted: they only agreed.
func (c *captions) judge() {
	waited := c.now.Sub(c.overlapSince)
	if c.overlapSince.IsZero() || waited < overlap {
		return
	}
	s, u := c.open[voice], c.open[user]
	if s == nil {
		c.goOn()
		return
	}
	silent, known := c.sound.silent()
	stopped, goes := silent >= cutGap, silent < shortPause
	if !known {
		stopped, goes = c.now.Sub(s.touched) >= lag, s.touched.Sub(c.overlapSince) >= overlap
	}
	switch {
	case u == nil && (c.last(user) == nil || c.last(user).end < c.overlapAt): // a noise, without words
		c.noisy = s
		c.goOn()
	case stopped && s.end < c.overlapAt+tail/2: // it had ended
		c.goOn()
		c.close(s)
	case stopped:
		c.cut("turn_detected")
	case goes && (u == nil || c.now.Sub(u.touched) >= overlap), waited >= maxOverlap:
		c.goOn()
	}
}

// goOn lets an answer be heard again.
func (c *captions) goOn() {
	c.overlapSince = time.Time{}
	c.sound.pass(heard)
}

// cancel silences the answer that is being spoken, because the client says so.
func (c *captions) cancel() bool {
	if c.open[voice] == nil {
		return false
	}
	c.cut("client_cancelled")
	c.unheard = true
	return true
}

// tick closes what is over.
func (c *captions) tick() {
	c.judge()
	c.release()
	if c.begun.text != "" && c.now.Sub(c.begunAt) >= userQuiet {
		c.saidAfterAll()
	}
	if u := c.open[user]; u != nil && c.now.Sub(u.touched) >= userGrace {
		c.close(u)
	}
	s := c.open[voice]
	if s == nil || c.now.Sub(s.touched) < voiceGrace || !c.overlapSince.IsZero() {
		return
	}
	if c.sound.position() >= s.end+voiceGrace || c.now.Sub(s.begun) >= s.end-s.start+voiceGrace {
		c.close(s)
	}
}

// release ends the silence once the model has paused since its answer was cut off. The next one is heard from its
// beginning, which comes before its words.
func (c *captions) release() {
	s := c.last(voice)
	if s == nil || c.open[voice] != nil || s.cutAt == 0 || !c.overlapSince.IsZero() {
		return
	}
	if c.now.Sub(s.touched) >= voiceGrace {
		c.sound.pass(heard)
	}
}

// since counts the user's segments from a time on.
func (c *captions) since(at time.Duration) (n int) {
	for _, s := range c.segments {
		if s.side == user && s.start >= at {
			n++
		}
	}
	return n
}

// words returns what the user has said that no delegation has taken, and when the last of it came. What stands there
// when it is taken does not return.
func (c *captions) words() (text string, touched time.Time) {
	var all []string
	n := c.said
	for _, s := range slices.Backward(c.segments) {
		if s.side != user {
			continue
		}
		if n <= c.taken {
			break
		}
		n--
		all = append(all, s.text(0))
		if s.touched.After(touched) {
			touched = s.touched
		}
	}
	slices.Reverse(all)
	return strings.TrimSpace(strings.Join(all, "\n")), touched
}
