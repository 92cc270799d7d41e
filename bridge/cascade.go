package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"voicebridge/assistant"
	"voicebridge/bridge/internal/cascade"
	"voicebridge/bridge/internal/task"
	"voicebridge/llm"
	"voicebridge/llm/speech"
	"voicebridge/realtime/media"
	"voicebridge/realtime/served"
	"voicebridge/realtime/transcode"
)

// Cascade is the driver for sessions that this process serves itself: an ear, a mind and a mouth, and no network
// between.
type Cascade struct {
	name   string
	text   assistant.Text // of the call
	ask    func(assistant.Text) llm.Ask
	config func(llm.Ask) served.Config
}

// CascadeConfig describes a cascade. All is required but Language, Prompt and Speed.
type CascadeConfig struct {
	Name string
	// STT writes down what the caller says; Language and Prompt are for sessions that say none.
	STT              *speech.Transcriber
	Language, Prompt string
	// TTS speaks, with a voice of the model SpeechModel, as fast as Speed says unless the session does; 0 is as usual.
	TTS         *speech.Speaker
	SpeechModel string
	Speed       float64
	// Ask returns how the text model is asked that answers; an assistant may have one of its own.
	Ask func(assistant.Text) llm.Ask
	// VAD returns what tells speech from noise in one session.
	VAD     func() served.Turns
	Turning served.Turning
	Logger  *slog.Logger
}

// NewCascade returns a driver.
func NewCascade(c CascadeConfig) *Cascade {
	return &Cascade{name: c.Name, ask: c.Ask, config: func(ask llm.Ask) served.Config {
		settings := served.NewSettings(ask.Request.Model)
		settings.Show("audio.output.voice", "")
		settings.Show("audio.output.speed", cmp.Or(c.Speed, 1))
		return served.Config{
			Settings: settings, Mind: cascade.NewMind(ask), Ear: cascade.NewEar(c.STT, c.Language, c.Prompt),
			Mouth: cascade.NewMouth(c.TTS), SpeechModel: c.SpeechModel, Turns: c.VAD(), Turning: &c.Turning, Logger: c.Logger,
		}
	}}
}

func (c *Cascade) Name() string { return c.name }

// of returns a route to the cascade, as calls have it whose assistant says how text is answered.
func (c *Cascade) of(r Route, text assistant.Text) Route {
	if c.ask == nil {
		return r
	}
	own := *c
	own.text = text
	r.Upstream, r.Model = &own, c.ask(text).Request.Model
	return r
}

// HangUp has nothing to do: a session ends with its process.
func (c *Cascade) HangUp(context.Context, string) error { return nil }

func (c *Cascade) Dial(ctx context.Context, d Dial) (UpstreamLeg, error) {
	var wanted struct{ Model string } // which the assistant may have chosen for its voice
	if err := json.Unmarshal(d.Session, &wanted); err != nil {
		return nil, fmt.Errorf("read session: %w", err)
	}
	var ask llm.Ask
	if c.ask != nil {
		ask = c.ask(c.text)
		ask.Request.Model = cmp.Or(wanted.Model, ask.Request.Model)
	}
	cfg := c.config(ask)
	if err := cfg.Settings.Update(d.Session); err != nil {
		return nil, err
	}
	if cfg.Turning != nil {
		turning := *cfg.Turning
		turning.Interruption = judged(d.Interruption)
		cfg.Turning = &turning
	}
	ses, err := served.New(cfg)
	if err != nil {
		return nil, err
	}
	here, there := media.NewPipe()
	l := &cascadeLeg{
		Pipe: here, sound: transcode.ToOpus(here), id: served.NewID("sess_"), judges: cfg.Turning != nil,
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

// judged returns what speech must have to interrupt an answer: half a second and, within two, a word, unless told
// otherwise.
func judged(i assistant.Interruption) served.Interruption {
	i = i.Or(assistant.Interruption{MinSeconds: new(0.5), MinWords: new(0), ResumeSeconds: new(2.0)})
	return served.Interruption{
		MinSpeech: assistant.Seconds(*i.MinSeconds), MinWords: *i.MinWords, Resume: assistant.Seconds(*i.ResumeSeconds),
	}
}

type cascadeLeg struct {
	*media.Pipe
	replayer

	sound media.Sink // to the session
	id    string
	// judges means that the session judges what interrupts it.
	judges bool
	ended  <-chan struct{}
}

func (l *cascadeLeg) ID() string { return l.id }

func (l *cascadeLeg) WriteAudio(p *media.Packet) error { return l.sound.WriteAudio(p) }

func (l *cascadeLeg) Can() Capabilities {
	return Capabilities{
		OutputBuffer: true, Truncation: true, TruncatesItself: true, Deletion: true, Images: true,
		ResponseSettings: true, CallItems: true, Early: true, Resumes: l.judges,
	}
}

// Close ends the session, and waits for it.
func (l *cascadeLeg) Close() error {
	err := l.Pipe.Close()
	<-l.ended
	return err
}
