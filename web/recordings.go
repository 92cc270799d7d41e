package web

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/recording"
	"voicebridge/thread"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// recorded serves the routes about recordings.
type recorded struct{ *api }

func (h recorded) routes(r router) {
	r.POST("/v1/realtime/calls/:call_id/recording", h.set, r.ofCall)
	r.GET("/api/calls/:call_id/recording", h.read, r.user)
	r.DELETE("/api/calls/:call_id/recording", h.remove, r.user)
	r.GET("/api/calls/:call_id/peaks", h.peaks, r.user)
	r.GET("/api/threads/:id/messages/:message_id/audio", onThread(h.message), r.user)
}

// set pauses the recording of a live call, or goes on with it.
func (h recorded) set(c echo.Context) error {
	id, err := calls(h).callOf(c)
	if err != nil {
		return err
	}
	var body struct {
		State bridge.RecordingState `json:"state"`
	}
	if err := input.JSON(c, &body, false); err != nil {
		return err
	}
	if body.State != bridge.RecordingOn && body.State != bridge.RecordingPaused {
		return problem.Invalid("state", `state must be "on" or "paused".`)
	}
	if err := h.Calls.SetRecording(c.Request().Context(), identity(c).Owner, id, body.State); err != nil {
		return orCall(err)
	}
	return c.JSON(http.StatusOK, map[string]any{"state": body.State})
}

var (
	errNoRecording = problem.NotFound("recording_not_found",
		"There is no recording of this call. One is there some seconds after the end of its call.")
	errNoSound      = problem.NotFound("audio_not_found", "Of this message no sound is kept.")
	errUnknownTrack = problem.Invalid("track", "track must be user, assistant or both.")
)

// found calls serve with the owner of the request and the call that it names. What the archive does not find is no
// failure.
func (h recorded) found(c echo.Context, serve func(owner, callID string) error) error {
	id := c.Param("call_id")
	if h.Recordings == nil || !input.ValidID(id, maxCallID) {
		return errNoRecording
	}
	err := serve(identity(c).Owner, id)
	if errors.Is(err, persistence.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return errNoRecording
	}
	return err
}

// read returns a track of a recording, or a part of it.
func (h recorded) read(c echo.Context) error {
	track := c.QueryParam("track")
	if track == "" {
		track = recording.Both
	}
	if !recording.IsTrack(track) {
		return errUnknownTrack
	}
	return h.found(c, func(owner, callID string) error {
		file, rec, err := h.Recordings.Open(c.Request().Context(), owner, callID, track)
		if err != nil {
			return err
		}
		return serveSound(c, file, "audio/ogg", callID+"-"+track, rec.StartedAt)
	})
}

// peaks returns how loud both sides were.
func (h recorded) peaks(c echo.Context) error {
	return h.found(c, func(owner, callID string) error {
		file, rec, err := h.Recordings.Peaks(c.Request().Context(), owner, callID)
		if err != nil {
			return err
		}
		return serveSound(c, file, echo.MIMEApplicationJSON, callID+"-peaks", rec.StartedAt)
	})
}

func (h recorded) remove(c echo.Context) error {
	return h.found(c, func(owner, callID string) error {
		if err := h.Recordings.Delete(c.Request().Context(), owner, callID); err != nil {
			return err
		}
		return c.NoContent(http.StatusNoContent)
	})
}

// aroundMessage is how much of a recording is played before a message and after it, so that nothing of it is cut off.
const aroundMessage = 100 * time.Millisecond

// message returns the sound of a message.
func (h recorded) message(c echo.Context, key thread.Key) error {
	id := c.Param("message_id")
	if h.Recordings == nil || !input.ValidID(id, maxThreadID) {
		return errNoSound
	}
	m, err := h.Store.Message(c.Request().Context(), key, id)
	if err != nil {
		return orThread(err)
	}
	return h.sound(c, key, &m)
}

// sound answers with what was heard of a message.
func (h recorded) sound(c echo.Context, key thread.Key, m *thread.Message) error {
	at := m.Metadata.Audio
	if at == nil {
		return errNoSound
	}
	track := recording.User
	from, to := time.Duration(at.StartMS)*time.Millisecond-aroundMessage, time.Duration(at.EndMS)*time.Millisecond
	if m.Role == thread.RoleAssistant {
		track = recording.Assistant
	}
	if m.Metadata.Status != thread.StatusInterrupted { // of which no more was heard
		to += aroundMessage
	}
	sound, err := h.Recordings.Cut(c.Request().Context(), key.Owner, m.Metadata.CallID, track, max(0, from), to)
	if errors.Is(err, persistence.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return errNoSound
	}
	if err != nil {
		return err
	}
	return serveSound(c, nopCloser{bytes.NewReader(sound)}, "audio/ogg", m.ID, m.Metadata.CreatedAt)
}

type nopCloser struct{ io.ReadSeeker }

func (nopCloser) Close() error { return nil }

// serveSound answers with a file that does not change, or a part of it, as which browsers play sounds.
func serveSound(c echo.Context, file io.ReadSeekCloser, kind, name string, at time.Time) error {
	header := c.Response().Header()
	header.Set(echo.HeaderCacheControl, "private, no-cache") // it may be deleted
	header.Set(echo.HeaderContentType, kind)
	header.Set("Etag", strconv.Quote(name))
	if kind == "audio/ogg" {
		header.Set(echo.HeaderContentDisposition, `inline; filename="`+name+`.ogg"`)
	}
	http.ServeContent(c.Response(), c.Request(), "", at, file)
	return file.Close()
}
