// Package generators reads a thread with the clients that oapi-codegen and ogen make of openapi.json, which are not committed.
package generators

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"testing"

	"github.com/ogen-go/ogen/ogenerrors"

	"voicebridge/generators/oapi"
	"voicebridge/generators/ogen"
	_ "voicebridge/generators/plain" // what oapi-codegen makes without a configuration
)

var server, token, thread = os.Getenv("SERVER_URL"), os.Getenv("TOKEN"), os.Getenv("THREAD_ID")

// want are the kinds of parts of the thread's messages.
var want = []string{"text", "file", "step-start", "reasoning", "tool-chart", "dynamic-tool", "data-mood"}

func TestOAPI(t *testing.T) {
	client, err := oapi.NewClientWithResponses(server)
	if err != nil {
		t.Fatal(err)
	}
	page, err := client.ListMessagesWithResponse(t.Context(), thread, nil, func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	})
	if err != nil || page.JSON200 == nil {
		t.Fatalf("%v, %s", err, page.Body)
	}
	var got []string
	for _, m := range page.JSON200.Messages {
		for _, p := range m.Parts {
			kind, err := p.AsStepStartPart()
			if err != nil {
				t.Error(err)
			}
			got = append(got, string(kind.Type))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %q", got)
	}
	text, err := page.JSON200.Messages[0].Parts[0].AsTextPart()
	if err != nil || text.Text != "hello" {
		t.Errorf("text %+v, %v", text, err)
	}
	var event oapi.BridgeEvent
	if err := json.Unmarshal([]byte(`{"type":"bridge.tool.failed","tool_call_id":"c","name":"n","executor":"mcp","error":"no"}`), &event); err != nil {
		t.Fatal(err)
	}
	value, err := event.ValueByDiscriminator()
	if tool, ok := value.(oapi.BridgeToolEvent); !ok || *tool.Error != "no" {
		t.Errorf("event %+v, %v", value, err)
	}
}

func TestOgen(t *testing.T) {
	client, err := ogen.NewClient(server, byToken{})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.ListMessages(t.Context(), ogen.ListMessagesParams{ID: ogen.ID(thread)})
	page, ok := answer.(*ogen.MessagePage)
	if !ok {
		t.Fatalf("%+v, %v", answer, err)
	}
	var got []string
	for _, m := range page.Messages {
		for _, p := range m.Parts {
			text, err := p.MarshalJSON()
			var part struct{ Type string }
			if err != nil || json.Unmarshal(text, &part) != nil {
				t.Errorf("%s, %v", text, err)
			}
			got = append(got, part.Type)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("read %q", got)
	}
	if text, ok := page.Messages[0].Parts[0].GetTextPart(); !ok || text.Text != "hello" {
		t.Errorf("text %+v", text)
	}
}

type byToken struct{}

func (byToken) Bearer(context.Context, ogen.OperationName) (ogen.Bearer, error) {
	return ogen.Bearer{Token: token}, nil
}

func (byToken) Cookie(context.Context, ogen.OperationName) (c ogen.Cookie, err error) {
	return c, ogenerrors.ErrSkipClientSecurity
}
