package main

import (
	"log/slog"
	"time"

	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/persistence"
)

// openQueue makes the queues of messages that wait.
func openQueue(cfg config, store *persistence.Store, log *slog.Logger) (*queue.Queue, error) {
	q := cfg.Conversations.Queue
	return queue.New(queue.Config{
		Store: store, Disabled: !q.Enabled, Delay: time.Duration(q.DelaySeconds) * time.Second,
		MaxSize: q.MaxSize, NoTitles: !q.AutoGenerateTitles, Logger: log,
	})
}

// tellQueue has live calls say when the next message may be spoken, and threads
// get titles, spoken ones too.
func tellQueue(voice *bridge.Config, inbox *queue.Queue, texts *chat.Coordinator) {
	ended := voice.OnEnd
	voice.OnTurn = func(key persistence.Key) {
		texts.Talked(key)
		inbox.Spoke(key)
	}
	voice.OnEnd = func(key persistence.Key, reason bridge.EndReason) {
		ended(key, reason)
		inbox.CallEnded(key)
	}
}
