package main

import (
	"context"
	"time"

	"voicebridge/chat/queue"
)

// openQueue makes the message queue.
func (a *app) openQueue(context.Context) (err error) {
	q := a.cfg.Conversations.Queue
	a.queue, err = queue.New(queue.Config{
		Store: a.store, Disabled: !q.Enabled, Delay: time.Duration(q.DelaySeconds) * time.Second,
		MaxSize: q.MaxSize, NoTitles: !q.AutoGenerateTitles, OnSent: a.observer.QueueSent, OnPaused: a.observer.QueuePaused, Logger: a.log,
	})
	return err
}
