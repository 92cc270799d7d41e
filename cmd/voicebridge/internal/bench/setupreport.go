package bench

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// SetUpReport is the result of SetUps. Its JSON form is for programs, WriteTable for people. Times are in ms.
type SetUpReport struct {
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Machine   Machine   `json:"machine"`
	SetUps    int       `json:"set_ups"`
	// The emulated networks, there and back.
	BrowserRTT  float64 `json:"browser_rtt_ms"`
	UpstreamRTT float64 `json:"upstream_rtt_ms"`
	DirectRTT   float64 `json:"direct_rtt_ms"`

	Rounds []SetUpRound `json:"rounds"`
}

// SetUpRound has the set-ups with an upstream that takes so long to take a call.
type SetUpRound struct {
	Thinks float64 `json:"upstream_takes_ms"`
	Ways   []Way   `json:"ways"`
	// Steps are those of voicebridge, which answers at once.
	Steps []Step `json:"steps"`
}

// Way has the medians of set-ups in one way, from the offer on.
type Way struct {
	Name       string  `json:"name"`
	Answer     float64 `json:"answer_ms"`
	Connected  float64 `json:"browser_connected_ms"`
	FirstSound float64 `json:"first_sound_ms"`
	// FirstWord is when the model first hears the caller, who speaks all the time.
	FirstWord float64 `json:"first_word_ms"`
}

// unbridged names the way without a bridge, with which the others are compared.
const unbridged = "no bridge"

// WriteTable writes the report for people.
func (r SetUpReport) WriteTable(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "voicebridge %s, %s/%s, %d cores: medians of %d set-ups, in ms after the offer\n", r.Version, r.Machine.OS, r.Machine.Arch, r.Machine.Cores, r.SetUps)
	fmt.Fprintf(out, "Emulated networks: browser and bridge %.0f ms there and back, bridge and model %.0f ms, browser and model %.0f ms\n", r.BrowserRTT, r.UpstreamRTT, r.DirectRTT)
	for _, round := range r.Rounds {
		fmt.Fprintf(out, "\nThe model takes %.0f ms to take a call:\n\n", round.Thinks)
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(table, "\tanswer\tbrowser connected\tfirst sound\tcaller's first word\tfirst sound, of no bridge's\t")
		alone := round.way(unbridged).FirstSound
		for _, way := range round.Ways {
			fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t\n", way.Name, way.Answer, way.Connected, way.FirstSound, way.FirstWord, way.FirstSound/max(alone, 1))
		}
		_ = table.Flush() // out keeps its error
		if len(round.Steps) > 0 {
			fmt.Fprint(out, "\nHow voicebridge gets there, step by step: when each begins and ends\n\n")
			writeSteps(out, round.Steps)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func (r *SetUpRound) way(name string) (found Way) {
	for _, w := range r.Ways {
		if w.Name == name {
			return w
		}
	}
	return found
}

// ms returns a time in ms, with one decimal.
func ms(d time.Duration) float64 { return round(d.Seconds()*1e3, 1) }
