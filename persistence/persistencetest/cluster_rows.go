package persistencetest

import (
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
)

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
