package bridge

import (
	"context"

	"voicebridge/bridge/internal/task"
	"voicebridge/realtime/media"
	"voicebridge/realtime/served"
	"voicebridge/realtime/transcode"
)

// Cascade is the driver for sessions that this process serves itself: an ear, a mind and a mouth, and no network
// between.
type Cascade struct {
	name   string
	config func() served.Config
}

// NewCascade returns a driver whose sessions are as config says, but for their settings.
func NewCascade(name string, config func() served.Config) *Cascade { return &Cascade{name, config} }

func (c *Cascade) Name() string { return c.name }

// HangUp has nothing to do: a session ends with its process.
func (c *Cascade) HangUp(context.Context, string) error { return nil }

func (c *Cascade) Dial(ctx context.Context, d Dial) (UpstreamLeg, error) {
	cfg := c.config()
	cfg.Settings = served.NewSettings("")
	if err := cfg.Settings.Update(d.Session); err != nil {
		return nil, err
	}
	ses, err := served.New(cfg)
	if err != nil {
		return nil, err
	}
	here, there := media.NewPipe()
	l := &cascadeLeg{
		Pipe: here, sound: transcode.ToOpus(here), id: served.NewID("sess_"),
		replayer: replayer{prefix: d.ItemPrefix, limit: here.MaxMessageSize},
	}
	if err = d.Created(l.id); err == nil {
		l.history, err = d.History(ctx)
	}
	if err != nil {
		return nil, err
	}
	l.ended = task.Go(func() {
		_ = ses.Run(context.WithoutCancel(ctx), there) // it was told in an event
		_ = there.Close()
	})
	there.Start(media.Handlers{Message: ses.Message, Open: ses.Open})
	here.Start(d.Handlers)
	return l, nil
}

type cascadeLeg struct {
	*media.Pipe
	replayer

	sound media.Sink // to the session
	id    string
	ended <-chan struct{}
}

func (l *cascadeLeg) ID() string { return l.id }

func (l *cascadeLeg) WriteAudio(p *media.Packet) error { return l.sound.WriteAudio(p) }

func (l *cascadeLeg) Can() Capabilities {
	return Capabilities{
		OutputBuffer: true, Truncation: true, TruncatesItself: true, Deletion: true, Images: true,
		ResponseSettings: true, CallItems: true, Early: true,
	}
}

// Close ends the session, and waits for it.
func (l *cascadeLeg) Close() error {
	err := l.Pipe.Close()
	<-l.ended
	return err
}
