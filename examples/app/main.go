// Command app talks to voicebridge as an app does that has tools and a voice of its own. It finds things in a house.
//
//	go run ./examples/app -say "Where is the key?"          a text session, over HTTP
//	go run ./examples/app -say "Where is the key?" -speak   a conductor session, over a WebSocket
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"
)

// The tool that this app runs.
const tools = `[{"name":"find","description":"Says where a thing is in the house.","parameters":
	{"type":"object","properties":{"thing":{"type":"string"}},"required":["thing"]}}]`

// find runs the tool. What goes wrong is in the answer, in words for the model.
func find(arguments string) (place string, err error) {
	var in struct{ Thing string }
	if err := json.Unmarshal([]byte(arguments), &in); err != nil {
		return "", fmt.Errorf("read arguments: %w", err)
	}
	house := map[string]string{"key": "in the red drawer", "cat": "on the roof"}
	if place = house[strings.ToLower(in.Thing)]; place == "" {
		return "", fmt.Errorf("there is no %q in the house", in.Thing)
	}
	return place, nil
}

func main() {
	a := app{client: http.DefaultClient, out: os.Stdout}
	flag.StringVar(&a.server, "server", "http://127.0.0.1:8080", "address of voicebridge")
	flag.StringVar(&a.token, "token", "", "a token, where voicebridge asks for one")
	say := flag.String("say", "Where is the key?", "what to say")
	speak := flag.Bool("speak", false, "speak the answer")
	flag.StringVar(&a.voice, "voice", "", "a program that speaks its last argument, like say or espeak; without it, the words are printed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := a.create(ctx)
	switch {
	case err != nil:
	case *speak:
		err = a.conduct(ctx, *say)
	default:
		err = a.converse(ctx, *say)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "app:", err)
		os.Exit(1)
	}
}

type object = map[string]any

type app struct {
	server, token, voice string

	client  *http.Client
	out     io.Writer
	session string // the id of the session, which is that of a thread
}

// answer is what the routes of text sessions return.
type answer struct {
	Session struct {
		ID string `json:"id"`
	} `json:"session"`
	Result struct {
		Text      string `json:"text"`
		ToolCalls []struct {
			ID        string `json:"id"`
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"toolCalls"`
	} `json:"result"`
}

// create makes a text session with the app's tools.
func (a *app) create(ctx context.Context) error {
	made, err := a.post(ctx, "/text/session", object{"tools": json.RawMessage(tools), "instructions": "You help to find things."})
	a.session = made.Session.ID
	return err
}

// converse says something by HTTP, and runs the tools that the model asks for until it has answered.
func (a *app) converse(ctx context.Context, say string) error {
	fmt.Fprintln(a.out, "You:", say)
	path := "/text/session/" + a.session
	got, err := a.post(ctx, path+"/message", object{"content": say})
	for round := 0; err == nil && len(got.Result.ToolCalls) > 0; round++ {
		if round == 8 {
			return errors.New("the model only asks for tools")
		}
		var outputs []object
		for _, call := range got.Result.ToolCalls {
			output, failed := find(call.Arguments)
			if failed != nil {
				output = "Error: " + failed.Error()
			}
			fmt.Fprintf(a.out, "(it used %s: %s)\n", call.Name, output)
			outputs = append(outputs, object{"callId": call.ID, "output": output})
		}
		if _, err = a.post(ctx, path+"/tool-output", object{"toolOutputs": outputs}); err == nil {
			got, err = a.post(ctx, path+"/instructions", object{"instructions": "Answer with what the tools have returned."})
		}
	}
	if err == nil {
		fmt.Fprintln(a.out, "It:", got.Result.Text)
	}
	return err
}

// post sends JSON and reads the answer.
func (a *app) post(ctx context.Context, path string, body object) (got answer, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return got, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.server+path, bytes.NewReader(data))
	if err != nil {
		return got, err
	}
	req.Header.Set("Content-Type", "application/json")
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return got, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %s", path, res.Status, text)
	}
	if err != nil {
		return got, err
	}
	return got, json.Unmarshal(text, &got)
}
