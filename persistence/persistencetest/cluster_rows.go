package persistencetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/cluster"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
)

// commands: what one store asks another to do is done once, and the reply comes back.
func (s suite) commands(t *testing.T) {
	b := s.setup(t)
	other, ofNobody := b.store, context.DeadlineExceeded
	if strings.HasPrefix(b.url, "postgres:") {
		other, ofNobody = Open(t, b.url, persistence.Options{}), persistence.ErrGone
		for _, store := range []*persistence.Store{b.store, other} { // so that they notify each other
			must(t, store.Serve(t.Context()))
		}
		if others, err := other.Cluster.Others(t.Context()); err != nil || !slices.Equal(others, []string{b.store.Instance()}) {
			t.Errorf("Others() = %q, %v", others, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var handling sync.WaitGroup
	handling.Go(func() {
		err := b.store.Cluster.HandleCommands(ctx, func(ctx context.Context, c cluster.Command) (json.RawMessage, error) {
			if _, ok := ctx.Deadline(); !ok {
				t.Error("a command has no deadline")
			}
			switch c.Kind {
			case "echo":
				return c.Body, nil
			case "nothing":
				return nil, nil
			case "save":
				return nil, fmt.Errorf("save: %w", persistence.ErrUnavailable)
			case "slow":
				<-ctx.Done()
			}
			return nil, errors.New("cannot " + c.Kind + " " + c.Key.Thread)
		})
		if err != nil {
			t.Errorf("HandleCommands() = %v", err)
		}
	})
	defer handling.Wait()
	defer stop()
	ask := func(kind, body string) (json.RawMessage, error) {
		return other.Cluster.Ask(Within(t), cluster.Command{Instance: b.store.Instance(), Key: b.key, Kind: kind, Body: json.RawMessage(body)})
	}
	for range 3 {
		if reply, err := ask("echo", `{"a":"\u0000é"}`); err != nil || string(reply) != `{"a":"\u0000é"}` {
			t.Errorf("Ask() = %s, %v", reply, err)
		}
	}
	if reply, err := ask("nothing", ""); err != nil || reply != nil {
		t.Errorf("Ask() = %s, %v", reply, err)
	}
	_, err := ask("fly", "")
	if failed, ok := errors.AsType[*cluster.CommandError](err); !ok || failed.Message != "cannot fly "+b.key.Thread {
		t.Errorf("Ask() = %v", err)
	}
	wantErr(t, "Ask() without a database there", errOf(ask("save", "")), persistence.ErrUnavailable)
	limit := patience
	if errors.Is(ofNobody, context.DeadlineExceeded) {
		limit = 100 * time.Millisecond // SQLite has no other process that could be gone
	}
	short, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	wantErr(t, "Ask() of nobody", errOf(other.Cluster.Ask(short, cluster.Command{Instance: "nobody", Key: b.key, Kind: "echo"})), ofNobody)
	for what, c := range map[string]cluster.Command{
		"no kind":      {Instance: "x", Key: b.key},
		"no instance":  {Kind: "x", Key: b.key},
		"no thread":    {Kind: "x", Instance: "x"},
		"a large body": {Kind: "x", Instance: "x", Key: b.key, Body: make([]byte, 2<<20)},
	} {
		wantErr(t, "Ask() with "+what, errOf(other.Cluster.Ask(t.Context(), c)), persistence.ErrInvalid)
	}
	wantRows(t, b.url, "SELECT id FROM commands") // nothing stays
}

func (s suite) images(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	image := pictures.Image{MediaType: "image/png", Width: 2, Height: 3, Data: []byte("\x89PNG\x00\xff")}
	saved, err := b.store.Pictures.Save(ctx, b.key, image, 10)
	if err != nil || saved.ID == "" {
		t.Fatalf("SaveImage() = %+v, %v", saved, err)
	}
	if got, err := b.store.Pictures.Read(ctx, b.key, saved.ID); err != nil || diff(saved, got) != "" {
		t.Errorf("Image() = %+v, %v", got, err)
	}
	wantErr(t, "SaveImage() above the quota", errOf(b.store.Pictures.Save(ctx, newThread(t, b.store, "anna"), image, 11)), persistence.ErrQuota)
	other := newThread(t, b.store, "bert")
	must(t, errOf(b.store.Pictures.Save(ctx, other, image, 6)))
	wantErr(t, "SaveImage() in a stranger's thread", errOf(b.store.Pictures.Save(ctx, thread.Key{Owner: "bert", Thread: b.key.Thread}, image, 0)), persistence.ErrNotFound)
	for _, key := range []thread.Key{other, {Owner: "bert", Thread: b.key.Thread}, {}} {
		wantErr(t, "Image() of a stranger", errOf(b.store.Pictures.Read(ctx, key, saved.ID)), persistence.ErrNotFound)
	}
	for what, change := range map[string]func(*pictures.Image){
		"no data":             func(i *pictures.Image) { i.Data = nil },
		"too much data":       func(i *pictures.Image) { i.Data = make([]byte, pictures.MaxImageBytes+1) },
		"another media type":  func(i *pictures.Image) { i.MediaType = "image/svg+xml" },
		"an impossible width": func(i *pictures.Image) { i.Width = 0 },
	} {
		bad := image
		change(&bad)
		wantErr(t, "SaveImage() with "+what, errOf(b.store.Pictures.Save(ctx, b.key, bad, 0)), persistence.ErrInvalid)
	}
	must(t, b.store.DeleteThread(ctx, b.key))
	wantRows(t, b.url, "SELECT count(*) FROM images", "1")
}
