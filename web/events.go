package web

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"

	"github.com/labstack/echo/v4"

	"voicebridge/chat/queue"
	"voicebridge/persistence"
)

// watcher is what the thread socket needs of the store.
type watcher interface {
	Watch(ctx context.Context, key persistence.Key, after int64) iter.Seq2[persistence.Event, error]
	Dropped() int64
}

// maxSocketRead is the size of one message to a thread socket, in bytes. It takes
// none, but clients send keep-alives.
const maxSocketRead = 4 << 10

type connectedData struct {
	SessionID    string         `json:"session_id"`
	QueueLength  int            `json:"queue_length"`
	QueueConfig  queue.Settings `json:"queue_config"`
	ServerMaxSeq int64          `json:"server_max_seq"`
	// CallID is the thread's live call, null when there is none.
	CallID *string `json:"call_id"`
}

// watchThread upgrades to a socket that tells the thread's events. Without
// ?after it begins now: nothing that is newer than server_max_seq is missed.
func (s *Server) watchThread(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	after, err := queryInt(c, "after", -1, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	if err := s.checkSocket(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.store.Thread(ctx, key); err != nil {
		return orThread(err)
	}
	last, err := s.store.LastSeq(ctx, key)
	if err != nil {
		return orThread(err)
	}
	if after < 0 {
		after = last
	}
	waiting, err := s.queue.Length(ctx, key)
	if err != nil {
		return err
	}
	hello := connectedData{SessionID: key.Thread, QueueLength: waiting, QueueConfig: s.queue.Settings(), ServerMaxSeq: last}
	if id, ok := s.calls.Live(key.Owner, key.Thread); ok {
		hello.CallID = &id
	}
	return s.openSocket(c, key, "connect again with after=SEQ", func(ctx context.Context, k *socket) error {
		return k.run(ctx, func(ctx context.Context) error { return k.tell(s.store.Watch(ctx, key, after), hello) })
	})
}

// tell writes the greeting and then the events as they come. The events wait in
// the store while a client is slow.
func (k *socket) tell(events iter.Seq2[persistence.Event, error], hello connectedData) error {
	data, err := json.Marshal(hello)
	if err != nil {
		return fmt.Errorf("encode greeting: %w", err)
	}
	if err := k.write(persistence.Event{Type: "connected", Data: data}); err != nil {
		return err
	}
	for event, err := range events {
		if err != nil {
			return err
		}
		if err := k.write(event); err != nil {
			return err
		}
	}
	return nil
}
