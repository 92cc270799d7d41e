package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"io"
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

// read returns the thread as a page, of which only charts and sounds need a script.
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
	below := sharePath + token
	page := sharedPage{
		words: wordsFor(c.Request().Header.Get("Accept-Language")), thread: key.Thread, images: below + "/images/",
		moved: strings.NewReplacer(thread.ImagePath(key.Thread), below+"/images/"), to: c.Response(),
	}
	if h.Recordings != nil {
		page.sounds = below + "/messages/"
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
	header.Set(echo.HeaderContentSecurityPolicy, sharedCSP)
	header.Add(echo.HeaderVary, "Accept-Language")
	err = page.write(t, c.Scheme()+"://"+c.Request().Host, export.Messages(ctx, h.Store, key))
	if err != nil {
		h.Logger.Warn("shared thread interrupted", "thread_id", key.Thread, "error", err, "request_id", requestID(c))
		panic(http.ErrAbortHandler) // half a thread must not look complete
	}
	return nil
}

// sharedChart returns what the chart of a tool's output is drawn from, and its title; nothing if there is no chart.
func sharedChart(output json.RawMessage) (drawn json.RawMessage, title string) {
	var chart struct {
		Type        string                     `json:"chartType"`
		Title       string                     `json:"title"`
		Description string                     `json:"description,omitempty"`
		Data        map[string]json.RawMessage `json:"chartData"`
	}
	if json.Unmarshal(output, &chart) != nil || chart.Type == "" || chart.Data == nil {
		return nil, ""
	}
	return toolkit.Encode(chart), chart.Title
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

var sharedTemplate = template.Must(template.New("").Parse(`{{define "head"}}<!doctype html>
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

// sharedPage writes a thread for everybody who has the link: without the ids of calls, costs and settings.
type sharedPage struct {
	words          sharedWords
	thread         string
	images, sounds string            // begin the addresses of images and sounds; no sounds: empty
	moved          *strings.Replacer // makes the thread's addresses of images those below the link
	to             io.Writer
}

// shownPart is a part of a message on the page: one of its fields is set, with a chart also its title.
type shownPart struct{ Text, Tool, Image, Chart string }

func (p *sharedPage) put(name string, data any) error {
	var text strings.Builder
	if err := sharedTemplate.ExecuteTemplate(&text, name, data); err != nil {
		return err
	}
	_, err := p.moved.WriteString(p.to, text.String())
	return err
}

func (p *sharedPage) write(t persistence.Thread, origin string, messages iter.Seq2[thread.Message, error]) error {
	if err := p.put("head", map[string]any{
		"Words": p.words, "Title": cmp.Or(t.Title, p.words.Conversation), "Image": origin + "/preview.png",
		"At": t.CreatedAt.Format(time.RFC3339), "Day": t.CreatedAt.Format(time.DateOnly),
	}); err != nil {
		return err
	}
	for m, err := range messages {
		if err != nil {
			return err
		}
		parts := p.parts(&m)
		if len(parts) == 0 || !isShown(&m) {
			continue
		}
		shown := struct {
			Role             thread.Role
			Who, Note, Sound string
			Parts            []shownPart
		}{Role: m.Role, Who: p.words.Assistant, Parts: parts}
		if m.Role == thread.RoleUser {
			shown.Who = p.words.User
		}
		if m.Role == thread.RoleAssistant && m.Metadata.Status == thread.StatusInterrupted {
			shown.Note = p.words.Interrupted
		}
		if p.sounds != "" && m.Metadata.Audio != nil {
			shown.Sound = p.sounds + m.ID + "/audio"
		}
		if err := p.put("message", shown); err != nil {
			return err
		}
	}
	return p.put("foot", nil)
}

// parts returns what is shown of a message: words as they were heard, images, charts and which tools were used; not
// what these got and gave else, what a model thought, or what its provider adds.
func (p *sharedPage) parts(m *thread.Message) (shown []shownPart) {
	heard := thread.NewHeardText(m)
	for _, part := range m.Parts {
		id, isImage := part.ImageID(p.thread)
		switch {
		case isImage:
			shown = append(shown, shownPart{Image: p.images + id})
		case part.IsTool():
			one := shownPart{Tool: p.words.Used + cmp.Or(part.ToolName, strings.TrimPrefix(part.Type, thread.PartTool))}
			if chart, title := sharedChart(part.Output); chart != nil {
				one = shownPart{Chart: string(chart), Tool: title}
			}
			shown = append(shown, one)
		case part.Type == thread.PartText:
			if text := heard.Next(part.Text); text != "" {
				shown = append(shown, shownPart{Text: text})
			}
		}
	}
	return shown
}
