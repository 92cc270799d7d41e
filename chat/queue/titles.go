package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

const (
	// maxTitleJobs is how many messages may wait for a title.
	maxTitleJobs = 100
	titleTimeout = 30 * time.Second
	// lastTitle is how long a title in progress may still take when the server stops.
	lastTitle     = 5 * time.Second
	maxTitleRunes = 30
	// titleReads is how much of a message the model reads, in characters.
	titleReads = 500
)

// titles gives messages titles, one after the other, so that providers never get many such requests at once.
type titles struct {
	*announcer

	wanted bool
	jobs   chan titleJob
}

type titleJob struct {
	key      thread.Key
	id, text string
}

func newTitles(a *announcer, wanted bool) *titles {
	return &titles{announcer: a, wanted: wanted, jobs: make(chan titleJob, maxTitleJobs)}
}

// request requests a title for a message. It never waits.
func (w *titles) request(key thread.Key, m queued.Message) {
	if !w.wanted {
		return
	}
	select {
	case w.jobs <- titleJob{key, m.ID, m.Text}:
	default:
		w.log.Warn("too many messages wait for a title", "thread_id", key.Thread, "message_id", m.ID)
	}
}

// run makes titles until ctx ends; a title in progress is still finished if that does not take
// long.
func (w *titles) run(ctx context.Context, door Door) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case j := <-w.jobs:
			w.title(ctx, door, j)
		}
	}
	if n := len(w.jobs); n > 0 {
		w.log.Info("messages left without a title", "messages", n)
	}
}

func (w *titles) title(ending context.Context, door Door, j titleJob) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ending), titleTimeout)
	defer cancel()
	defer context.AfterFunc(ending, func() {
		soon := time.AfterFunc(lastTitle, cancel)
		<-ctx.Done()
		soon.Stop()
	})()
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("titling a message panicked", "thread_id", j.key.Thread, "panic", fmt.Sprint(p))
		}
	}()
	text := toolkit.Cut(strings.Join(strings.Fields(j.text), " "), titleReads)
	title, err := door.Title(ctx, j.key, chat.ShortTitleInstructions, "user: "+text)
	if err == nil {
		title = toolkit.Cut(title, maxTitleRunes)
		err = w.store.Queued.SetTitle(ctx, j.key, j.id, title)
	}
	switch {
	case err == nil:
		w.publish(ctx, j.key, "queue_message_titled", idEvent{SessionID: j.key.Thread, MessageID: j.id, Title: title})
	case !errors.Is(err, persistence.ErrNotFound): // it was removed meanwhile
		w.log.Warn("no title for a queued message", "thread_id", j.key.Thread, "message_id", j.id, "error", err)
	}
}
