package recording

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"voicebridge/persistence"
	"voicebridge/persistence/privacy"
)

// Part is what an owner's archive has of recordings: both tracks of each. They are erased with their calls, which
// come before.
func (a *Archive) Part() privacy.Part {
	erase := func(ctx context.Context, _ string) error { return a.RemoveOver(ctx) }
	export := func(ctx context.Context, owner string, to *privacy.Archive) error {
		list, err := a.cfg.Records.Of(ctx, owner)
		if err != nil {
			return err
		}
		for _, r := range list {
			for _, track := range trackNames {
				err := a.export(ctx, owner, r.CallID, track, to)
				isGone := errors.Is(err, persistence.ErrNotFound) || errors.Is(err, fs.ErrNotExist)
				if err != nil && !isGone {
					return err
				}
			}
		}
		return nil
	}
	return privacy.Part{Name: "recordings", Erase: erase, Export: export}
}

func (a *Archive) export(ctx context.Context, owner, callID, track string, to *privacy.Archive) error {
	file, _, err := a.Open(ctx, owner, callID, track)
	if err != nil {
		return err
	}
	defer file.Close()
	w, err := to.Add("recordings", callID, track+".ogg")
	if err != nil {
		return err
	}
	_, err = io.Copy(w, file)
	return err
}
