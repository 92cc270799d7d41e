package main

import (
	"context"

	"voicebridge/chat/queue"
)

// openQueue makes the message queue.
func (a *app) openQueue(context.Context) (err error) {
	cfg := a.cfg.Conversations.Queue
	cfg.Store, cfg.OnSent, cfg.OnPaused, cfg.Logger = a.store, a.observer.QueueSent, a.observer.QueuePaused, a.log
	a.queue, err = queue.New(cfg)
	return err
}
