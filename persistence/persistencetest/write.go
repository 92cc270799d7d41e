package persistencetest

import (
	"context"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// AppendMessage is Batch.AppendMessage alone in its transaction.
func AppendMessage(ctx context.Context, store *persistence.Store, key thread.Key, m thread.Message) (thread.Message, error) {
	return one(ctx, store, key, func(b *persistence.Batch) (thread.Message, error) { return b.AppendMessage(m) })
}

// InsertMessage is Batch.InsertMessage alone in its transaction.
func InsertMessage(ctx context.Context, store *persistence.Store, key thread.Key, m thread.Message, afterID string) (thread.Message, error) {
	return one(ctx, store, key, func(b *persistence.Batch) (thread.Message, error) { return b.InsertMessage(m, afterID) })
}

// UpdateMessage is Batch.UpdateMessage alone in its transaction.
func UpdateMessage(ctx context.Context, store *persistence.Store, key thread.Key, m thread.Message) (thread.Message, error) {
	return one(ctx, store, key, func(b *persistence.Batch) (thread.Message, error) { return b.UpdateMessage(m) })
}

func one(ctx context.Context, store *persistence.Store, key thread.Key, write func(*persistence.Batch) (thread.Message, error)) (saved thread.Message, err error) {
	err = store.Batch(ctx, key, func(b *persistence.Batch) (err error) {
		saved, err = write(b)
		return err
	})
	if err != nil {
		return thread.Message{}, err
	}
	return saved, nil
}

// Apply is Store.ApplyAll for one thread.
func Apply(ctx context.Context, store *persistence.Store, key thread.Key, changes []persistence.Change) (persistence.Applied, error) {
	applied, err := store.ApplyAll(ctx, []persistence.ThreadChanges{{Key: key, Changes: changes}})
	if err != nil {
		return persistence.Applied{}, err
	}
	return applied[0], nil
}
