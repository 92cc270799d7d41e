// Command client calls voicebridge from Go: it types one message, prints the spoken
// answer, and hangs up.
//
//	go run ./examples/client -say "Show me a chart"
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
	"net/url"
	"os"
	"os/signal"
	"time"

	"github.com/pion/webrtc/v4"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:8080", "address of voicebridge")
	token := flag.String("token", "", "a token, where voicebridge asks for one")
	say := flag.String("say", "Hello, who are you?", "what to say")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := call(ctx, *server, *token, *say, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

// event holds what this client reads of an event on the data channel.
type event struct {
	Type       string          `json:"type"`
	Transcript string          `json:"transcript"`
	Name       string          `json:"name"`
	Reason     string          `json:"reason"`
	ResponseID string          `json:"response_id"`
	Error      json.RawMessage `json:"error"`
	Response   struct {
		ID string `json:"id"`
	} `json:"response"`
}

type object = map[string]any

// call makes one call, says something, writes the answer to out, and hangs up.
func call(ctx context.Context, server, token, say string, out io.Writer) (err error) {
	peer, err := webrtc.NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, peer.Close()) }()
	// A call has audio both ways. This client is silent; a phone would send Opus here.
	if _, err := peer.AddTransceiverFromKind(webrtc.RTPCodecTypeAudio); err != nil {
		return err
	}
	channel, err := peer.CreateDataChannel("oai-events", nil)
	if err != nil {
		return err
	}
	events := make(chan event, 64)
	channel.OnMessage(func(m webrtc.DataChannelMessage) {
		var e event
		if json.Unmarshal(m.Data, &e) == nil {
			select {
			case events <- e:
			case <-ctx.Done():
			}
		}
	})
	location, err := connect(ctx, peer, server, token)
	if err != nil {
		return err
	}
	defer func() {
		_, _, hangUp := post(context.WithoutCancel(ctx), location+"/hangup", token, nil)
		err = errors.Join(err, hangUp)
	}()
	more := false // another response follows: a tool of the server is running
	var last string
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			switch e.Type {
			case "bridge.ready": // the model has everything: say it
				item, err := json.Marshal(object{"type": "conversation.item.create", "item": object{
					"type": "message", "role": "user", "content": []object{{"type": "input_text", "text": say}},
				}})
				if err := errors.Join(err, channel.SendText(string(item)), channel.SendText(`{"type":"response.create"}`)); err != nil {
					return err
				}
				fmt.Fprintln(out, "You:", say)
			case "bridge.tool.started":
				more = true
			case "response.created":
				more, last = false, e.Response.ID
			case "bridge.tool.done":
				fmt.Fprintln(out, "(it used", e.Name+")")
			case "response.output_audio_transcript.done":
				fmt.Fprintln(out, "It:", e.Transcript)
			case "output_audio_buffer.stopped": // the answer was heard: audio is sent faster than it plays
				if !more && e.ResponseID == last {
					return nil
				}
			case "error":
				return fmt.Errorf("the server says %s", e.Error)
			case "bridge.ended":
				return fmt.Errorf("the call ended: %s", e.Reason)
			}
		}
	}
}

// connect exchanges offer and answer. It returns the address of the call.
func connect(ctx context.Context, peer *webrtc.PeerConnection, server, token string) (location string, err error) {
	offer, err := peer.CreateOffer(nil)
	if err != nil {
		return "", err
	}
	gathered := webrtc.GatheringCompletePromise(peer)
	if err := peer.SetLocalDescription(offer); err != nil {
		return "", err
	}
	<-gathered
	answer, path, err := post(ctx, server+"/v1/realtime/calls", token, []byte(peer.LocalDescription().SDP))
	if err != nil {
		return "", err
	}
	base, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	return base.Scheme + "://" + base.Host + path, peer.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: answer})
}

// post sends a request and returns the body and the Location of a successful answer.
func post(ctx context.Context, address, token string, sdp []byte) (body, location string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(sdp))
	if err != nil {
		return "", "", err
	}
	if sdp != nil {
		req.Header.Set("Content-Type", "application/sdp")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %s", address, res.Status, text)
	}
	return string(text), res.Header.Get("Location"), err
}
