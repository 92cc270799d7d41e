//go:build nightly

package e2e

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// go test -tags nightly ./e2e -run '^TestPageConversation$' -args -kept "$PWD/call.ogg" keeps the recording of the call: the caller left,
// the assistant right.
var kept = flag.String("kept", "", "file for the recording of a call with a recogniser and a voice")

// What is said in the long call.
var (
	train   = line{heard: "What time does the next train to the city leave?", says: "It leaves at noon, from the old station near the river."}
	weather = line{heard: "The weather will be cold and windy in the morning.", says: "Then you should take a warm coat with you."}
	apples  = line{
		heard: "Show me the price of apples as a chart.", says: "Here is the chart. The price of apples went up in summer.",
		tool: "create_bar_chart", arguments: `{"title":"Apples","data":[{"xAxisLabel":"Spring","series":[{"seriesName":"Price","value":1}]},{"xAxisLabel":"Summer","series":[{"seriesName":"Price","value":2}]}]}`,
	}
	bread = line{
		heard: "Now I want to see milk and bread in another picture.", says: "You have agreed, so I have made the picture.",
		tool: "create_pie_chart", arguments: `{"title":"Food","data":[{"label":"Milk","value":1},{"label":"Bread","value":2}]}`,
	}
	story = line{heard: "Please tell me a long story about a small house.", says: "There was once a small house near the water. " +
		"An old man lived in it with a brown dog. Every morning he opened the window and looked out into the garden. " +
		"In the garden there were apples, and a quick red fox came to eat them. The dog saw the fox, but he was lazy. " +
		"One evening the fox said to the dog, why do you not run after me? " +
		"And the dog said, the night is long, and the apples are not mine."}
	enough  = line{heard: "Thank you, that was enough of the story.", says: "Then I will stop here."}
	brother = line{heard: "My brother lives in a big house in this town.", says: "Does he like to live there?"}
	table   = line{heard: "I would like to book a table for two people tomorrow evening.", says: "Your table is booked for seven."}
	lights  = line{heard: "Turn off the lights in the kitchen.", says: "The lights in the kitchen are off now."} // typed
	name    = line{heard: "Can you tell me the name of the river?", says: "I do not know its name."}
	bye     = line{heard: "That is all for today, we can stop.", says: "It was good to talk to you."}
	first   = line{heard: "What did I ask you first?", says: "You asked about a train."}
)

// TestPageConversation is a long call of the page with a recogniser and a voice, processes of their own: it speaks ten sentences, sees a
// chart, agrees to a tool, interrupts an answer, types, reloads and hangs up. The next call knows what was said.
func TestPageConversation(t *testing.T) {
	t.Parallel()
	spoken := []line{train, weather, apples, bread, story, enough, brother, table, name, bye}
	c := newCascade(t, append(slices.Clone(spoken), lights, first))
	c.chooseRecording(t)
	c.call(t)
	c.until(t, "the sign of a recording", "probe.all('recording-sign')[0]?.dataset.state === 'on'")
	for _, l := range []line{train, weather} {
		c.tells(t, l)
		c.untilSaid(t, l)
	}
	c.tells(t, apples)
	c.until(t, "a chart", "document.querySelector('"+drawnChart+"') !== null")
	c.untilSaid(t, apples)
	c.tells(t, bread)
	c.until(t, "the question", "probe.all('approval-dialog').length === 1")
	c.click(t, "approve")
	c.until(t, "the other chart", "document.querySelector('"+strings.Replace(drawnChart, "bar", "pie", 1)+"') !== null")
	c.untilSaid(t, bread)

	c.tells(t, story)
	before := eval[struct{ Packets int }](t, c.tab, "probe.heard()").Packets
	c.until(t, "six seconds of the story", fmt.Sprintf("probe.heard().then((h) => h.packets > %d)", before+300))
	c.tells(t, enough)
	c.untilMessage(t, "assistant voice interrupted", "There was once")
	c.untilSaid(t, enough)

	c.tells(t, brother)
	c.untilSaid(t, brother)
	c.tab.say(t, lights.heard)
	c.untilSaid(t, lights)
	c.reload(t)
	c.until(t, "the way back", "probe.all('rejoin').length === 1")
	c.click(t, "rejoin")
	c.untilLive(t)
	for _, l := range []line{table, name, bye} {
		c.tells(t, l)
		c.untilSaid(t, l)
	}
	id := c.thread(t)
	c.click(t, "hangup")
	c.untilOver(t)
	testkit.Equal(t, c.untilEnded(t, 1), []string{"hangup"}, "the call's end")
	testkit.Eventually(t, "no recogniser or voice works any more", func() bool { return len(c.speech.running(t)) == 1 })
	call := c.rows(t, "SELECT id FROM calls")[0]
	messages := c.rig.messages(t, id)
	c.wantUnderstood(t, messages, spoken...)
	c.wantHeard(t, messages, call, 1)
	testkit.Equal(t, c.rows(t, "SELECT name, status FROM tool_calls ORDER BY started_at"), []string{"create_bar_chart | done", "create_pie_chart | done"}, "tool calls")
	if *kept != "" {
		must(t, os.WriteFile(*kept, []byte(c.trackFile(t, call, "both")), 0o600))
	}

	c.call(t)
	c.tells(t, first)
	c.untilSaid(t, first)
	for _, l := range []line{train, lights, bye} {
		if asked := c.model.lastAsked(); !strings.Contains(asked, l.says) {
			t.Errorf("the next call does not know of %q: %s", l.says, asked)
		}
	}
	c.click(t, "hangup")
	c.untilOver(t)
	testkit.Equal(t, c.untilEnded(t, 2), []string{"hangup", "hangup"}, "the calls' ends")
}
