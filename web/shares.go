package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/persistence/export"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// shared serves the routes by which an owner shows a thread to others, and by which these read it.
type shared struct{ *api }

func (h shared) routes(r router) {
	r.explain = orThread
	route(r, "GET /api/threads/:id/share", h.link)
	route(r, "POST /api/threads/:id/share", h.share, r.text)
	route(r, "DELETE /api/threads/:id/share", h.withdraw)
	r.GET(sharePath+":token", h.read)
	r.GET(sharePath+":token/images/:image_id", h.image)
	r.GET(sharePath+":token/messages/:message_id/audio", h.sound)
}

type shareAnswer struct {
	URL *string `json:"url"` // null while there is no link
}

// share answers with the path of the link, the same until it is withdrawn.
func (h shared) share(ctx context.Context, _ caller, in oneThread) (shareAnswer, error) {
	token, err := h.Store.Shares.Share(ctx, in.Key)
	return shareAnswer{new(sharePath + token)}, err
}

// link answers with the path of the link, null if there is none.
func (h shared) link(ctx context.Context, _ caller, in oneThread) (shareAnswer, error) {
	token, err := h.Store.Shares.Shared(ctx, in.Key)
	if errors.Is(err, persistence.ErrNotFound) {
		_, err = h.Store.Thread(ctx, in.Key)
		return shareAnswer{}, err
	}
	return shareAnswer{new(sharePath + token)}, err
}

func (h shared) withdraw(ctx context.Context, _ caller, in oneThread) (none, error) {
	err := h.Store.Shares.Withdraw(ctx, in.Key)
	if errors.Is(err, persistence.ErrNotFound) { // perhaps it was not shared
		_, err = h.Store.Thread(ctx, in.Key)
	}
	return none{}, err
}

var errNoShare = problem.NotFound("share_not_found", "There is nothing here, or it is not shared any more.")

// find returns the thread of a link, and keeps search engines and other sites away from it.
func (h shared) find(c echo.Context) (token string, key thread.Key, err error) {
	header := c.Response().Header()
	header.Set("X-Robots-Tag", "noindex, nofollow, noarchive")
	header.Set(echo.HeaderCacheControl, "private, no-store")
	if token = c.Param("token"); !input.ValidID(token, maxThreadID) {
		return token, key, errNoShare
	}
	key, err = h.Store.Shares.Find(c.Request().Context(), token)
	if errors.Is(err, persistence.ErrNotFound) {
		err = errNoShare
	}
	return token, key, err
}

// image returns an image of a shared thread.
func (h shared) image(c echo.Context) error {
	_, key, err := h.find(c)
	if err != nil {
		return err
	}
	return images(h).read(c, key)
}

// sound returns what was heard of a message that is shown. A whole recording would tell what the page leaves out.
func (h shared) sound(c echo.Context) error {
	_, key, err := h.find(c)
	if err != nil {
		return err
	}
	id := c.Param("message_id")
	if h.Recordings == nil || !input.ValidID(id, maxThreadID) {
		return errNoSound
	}
	m, err := h.Store.Message(c.Request().Context(), key, id)
	if errors.Is(err, persistence.ErrNotFound) || err == nil && !isShown(&m) {
		return errNoSound
	}
	if err != nil {
		return err
	}
	return recorded(h).sound(c, key, &m)
}

// isShown reports whether others read a message: not what the system told the model, nor what was taken back.
func isShown(m *thread.Message) bool { return m.Role != thread.RoleSystem && !m.IsDiscarded() }

// sharedMessage is a message as everybody gets it who has the link: without the ids of calls, costs and settings.
type sharedMessage struct {
	ID        string        `json:"id"`
	Role      thread.Role   `json:"role"`
	Status    thread.Status `json:"status"`
	CreatedAt time.Time     `json:"created_at"`
	Audio     string        `json:"audio,omitempty"` // the path of its sound
	Parts     []thread.Part `json:"parts"`
}

// read returns the thread as JSON if the client asks for it, else as a page, of which only charts and sounds need a
// script.
func (h shared) read(c echo.Context) error {
	token, key, err := h.find(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	t, err := h.Store.Thread(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return errNoShare
	}
	if err != nil {
		return err
	}
	sounds := ""
	if h.Recordings != nil {
		sounds = sharePath + token + "/messages/"
	}
	messages := sharedMessages(export.Messages(ctx, h.Store, key), sounds)
	c.Response().Header().Add(echo.HeaderVary, echo.HeaderAccept)
	asJSON := strings.Contains(c.Request().Header.Get(echo.HeaderAccept), echo.MIMEApplicationJSON)
	w := &moved{c.Response(), []byte(thread.ImagePath(key.Thread)), []byte(sharePath + token + "/images/")}
	if asJSON {
		c.Response().Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		err = writeSharedJSON(w, t, messages)
	} else {
		c.Response().Header().Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
		c.Response().Header().Set(echo.HeaderContentSecurityPolicy, sharedCSP)
		c.Response().Header().Add(echo.HeaderVary, "Accept-Language")
		words := wordsFor(c.Request().Header.Get("Accept-Language"))
		origin := c.Scheme() + "://" + c.Request().Host
		err = writeSharedPage(w, words, origin, sharePath+token+"/images/", key.Thread, t, messages)
	}
	if err != nil {
		h.Logger.Warn("shared thread interrupted", "thread_id", key.Thread, "error", err, "request_id", requestID(c))
		panic(http.ErrAbortHandler) // half a thread must not look complete
	}
	return nil
}

// moved writes whole texts in which the addresses of a thread's images lead below its link.
type moved struct {
	w        *echo.Response
	from, to []byte
}

func (m *moved) write(text []byte) error {
	_, err := m.w.Write(bytes.ReplaceAll(text, m.from, m.to))
	return err
}

// sharedMessages yields what is shown of messages; sounds begins the paths of what was heard, empty for none.
func sharedMessages(messages iter.Seq2[thread.Message, error], sounds string) iter.Seq2[sharedMessage, error] {
	return func(yield func(sharedMessage, error) bool) {
		for m, err := range messages {
			if err == nil && !isShown(&m) {
				continue
			}
			shown := sharedMessage{
				ID: m.ID, Role: m.Role, Status: m.Metadata.Status, CreatedAt: m.Metadata.CreatedAt,
				Parts: []thread.Part{},
			}
			if sounds != "" && m.Metadata.Audio != nil {
				shown.Audio = sounds + m.ID + "/audio"
			}
			heard := thread.NewHeardText(&m)
			for i := range m.Parts {
				if part, ok := sharedPart(&m.Parts[i]); ok {
					if part.Type == thread.PartText {
						part.Text = heard.Next(part.Text) // as the caller heard it
					}
					shown.Parts = append(shown.Parts, part)
				}
			}
			if !yield(shown, err) || err != nil {
				return
			}
		}
	}
}

// sharedPart returns what is shown of a part: words, images, charts and which tools were used, as on the page; not
// what these got and gave else, what a model thought, or what its provider adds.
func sharedPart(p *thread.Part) (thread.Part, bool) {
	shown := thread.Part{Type: p.Type}
	switch {
	case p.IsTool():
		shown.ToolName, shown.State, shown.Output = p.ToolName, p.State, sharedChart(p.Output)
	case p.Type == thread.PartText:
		shown.Text = p.Text
	case p.Type == thread.PartFile:
		var file struct {
			Type      string `json:"type"`
			MediaType string `json:"mediaType"`
			URL       string `json:"url"`
		}
		_ = json.Unmarshal(p.Raw, &file) // it was read before
		shown.Raw = toolkit.Encode(file)
	default:
		return shown, p.Type == thread.PartStepStart
	}
	return shown, true
}

// sharedChart returns of a tool's output what its chart is drawn from, and nothing of an output that is none.
func sharedChart(output json.RawMessage) json.RawMessage {
	var chart struct {
		Type        string                     `json:"chartType"`
		Title       string                     `json:"title"`
		Description string                     `json:"description,omitempty"`
		Data        map[string]json.RawMessage `json:"chartData"`
	}
	if json.Unmarshal(output, &chart) != nil || chart.Type == "" || chart.Data == nil {
		return nil
	}
	return toolkit.Encode(chart)
}

func writeSharedJSON(w *moved, t persistence.Thread, messages iter.Seq2[sharedMessage, error]) error {
	head, err := thread.Encode(t.Title)
	if err != nil {
		return err
	}
	at, err := thread.Encode(t.CreatedAt)
	if err != nil {
		return err
	}
	if err := w.write(fmt.Appendf(nil, `{"title":%s,"created_at":%s,"messages":[`, head, at)); err != nil {
		return err
	}
	before := "\n"
	for m, err := range messages {
		if err != nil {
			return err
		}
		text, err := thread.Encode(m)
		if err != nil {
			return err
		}
		if err := w.write(append([]byte(before), text...)); err != nil {
			return err
		}
		before = ",\n"
	}
	return w.write([]byte("\n]}\n"))
}

// sharedCSP lets the page of a shared thread show its images, and load its style and what draws charts.
const sharedCSP = "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; " +
	"media-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// sharedWords are the words of the page in a reader's language.
type sharedWords struct{ Lang, Conversation, User, Assistant, Used, Interrupted, Description string }

var (
	sharedEnglish = sharedWords{
		"en", "Conversation", "User", "Assistant", "Used: ", "Interrupted", "A conversation with a voice assistant.",
	}
	sharedGerman = sharedWords{
		"de", "Unterhaltung", "Nutzer", "Assistent", "Verwendet: ", "Unterbrochen",
		"Eine Unterhaltung mit einem Sprachassistenten.",
	}
)

// wordsFor returns the words in the first language of an Accept-Language that the page speaks.
func wordsFor(accept string) sharedWords {
	for tag := range strings.SplitSeq(strings.ToLower(accept), ",") {
		switch base, _, _ := strings.Cut(strings.TrimSpace(tag), ";"); {
		case strings.HasPrefix(base, "de"):
			return sharedGerman
		case strings.HasPrefix(base, "en"):
			return sharedEnglish
		}
	}
	return sharedEnglish
}

var sharedPage = template.Must(template.New("").Parse(`{{define "head"}}<!doctype html>
<html lang="{{.Words.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
{{- ""}}<meta name="robots" content="noindex">
<title>{{.Title}}</title><link rel="icon" href="../icon.svg"><link rel="stylesheet" href="../app/shared.css">
<meta property="og:title" content="{{.Title}}"><meta property="og:description" content="{{.Words.Description}}">
{{- ""}}<meta property="og:image" content="{{.Image}}"><meta property="og:image:width" content="1200">
{{- ""}}<meta property="og:image:height" content="630"><meta name="twitter:card" content="summary_large_image">
<script type="module" src="../app/shared.js"></script></head><body><header><h1 dir="auto">{{.Title}}</h1>
{{- ""}}<p><time datetime="{{.At}}">{{.Day}}</time></p></header><main>
{{end}}{{define "message"}}<article class="{{.Role}}"{{with .Sound}} data-sound="{{.}}"{{end}}>
{{- ""}}<h2>{{.Who}}</h2>{{range .Parts}}
{{- if .Image}}<img src="{{.Image}}" alt="" loading="lazy">
{{- else if .Chart}}<figure data-chart="{{.Chart}}"><figcaption>{{.Tool}}</figcaption></figure>
{{- else if .Tool}}<p class="tool">{{.Tool}}</p>
{{else}}<p dir="auto">{{.Text}}</p>{{end}}{{end}}{{with .Note}}<p class="tool">{{.}}</p>{{end}}</article>
{{end}}{{define "foot"}}</main></body></html>
{{end}}`))

// shownPart is a part of a message on the page: one of its fields is set, with a chart also its title.
type shownPart struct{ Text, Tool, Image, Chart string }

func writeSharedPage(
	w *moved, words sharedWords, origin, images, threadID string, t persistence.Thread,
	messages iter.Seq2[sharedMessage, error],
) error {
	put := func(name string, data any) error {
		var text bytes.Buffer
		if err := sharedPage.ExecuteTemplate(&text, name, data); err != nil {
			return err
		}
		return w.write(text.Bytes())
	}
	if err := put("head", map[string]any{
		"Words": words, "Title": cmp.Or(t.Title, words.Conversation), "Image": origin + "/preview.png",
		"At": t.CreatedAt.Format(time.RFC3339), "Day": t.CreatedAt.Format(time.DateOnly),
	}); err != nil {
		return err
	}
	for m, err := range messages {
		if err != nil {
			return err
		}
		shown := struct {
			Role             thread.Role
			Who, Note, Sound string
			Parts            []shownPart
		}{Role: m.Role, Who: words.Assistant, Sound: m.Audio, Parts: shownParts(m.Parts, words, images, threadID)}
		if m.Role == thread.RoleUser {
			shown.Who = words.User
		}
		if m.Role == thread.RoleAssistant && m.Status == thread.StatusInterrupted {
			shown.Note = words.Interrupted
		}
		if len(shown.Parts) == 0 {
			continue
		}
		if err := put("message", shown); err != nil {
			return err
		}
	}
	return put("foot", nil)
}

func shownParts(parts []thread.Part, words sharedWords, images, threadID string) []shownPart {
	var shown []shownPart
	for _, p := range parts {
		id, isImage := p.ImageID(threadID)
		switch {
		case isImage:
			shown = append(shown, shownPart{Image: images + id})
		case p.IsTool() && p.Output != nil:
			var chart struct{ Title string }
			_ = json.Unmarshal(p.Output, &chart) // it was written just now
			shown = append(shown, shownPart{Chart: string(p.Output), Tool: chart.Title})
		case p.IsTool():
			shown = append(shown, shownPart{Tool: words.Used + cmp.Or(p.ToolName, strings.TrimPrefix(p.Type, "tool-"))})
		case p.Type == thread.PartText && p.Text != "":
			shown = append(shown, shownPart{Text: p.Text})
		}
	}
	return shown
}
