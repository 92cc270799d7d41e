package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// ReadReport reads the JSON form of a report.
func ReadReport(data []byte) (Report, error) {
	var r Report
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("read figures: %w", err)
	}
	if r.Version == "" || r.Settings.PacketsPerSecond == 0 {
		return r, errors.New("read figures: not the report of a benchmark")
	}
	return r, nil
}

// CompareWith adds a comparison with an earlier report, for the rounds that both have.
func (r *Report) CompareWith(other Report) {
	a := &Against{Of: fmt.Sprintf("%s of %s", other.Version, other.StartedAt.Format("2006-01-02 15:04:05"))}
	add := func(name string, this, that float64) {
		if this > 0 && that > 0 {
			a.Figures = append(a.Figures, Figure{Name: name, This: this, Other: that, Ratio: round(this/that, 2)})
		}
	}
	if s, o := r.SetUp, other.SetUp; s != nil && o != nil {
		add("set-up: SDP answer p50 ms", s.Answer.Bridged.P50, o.Answer.Bridged.P50)
		add("set-up: first audio p50 ms", s.Sound.Bridged.P50, o.Sound.Bridged.P50)
		add("set-up: ready p50 ms", s.Ready.Bridged.P50, o.Ready.Bridged.P50)
		add("set-up: CPU ms", orZero(s.BridgeCPU), orZero(o.BridgeCPU))
	}
	for _, l := range r.Load {
		for _, o := range other.Load {
			if l.Calls != o.Calls || l.Bridge == nil || o.Bridge == nil {
				continue
			}
			name := func(what string) string { return fmt.Sprintf("%d calls: %s", l.Calls, what) }
			add(name("CPU % per call"), l.Bridge.CPUPerCall, o.Bridge.CPUPerCall)
			add(name("memory KB per call"), l.Bridge.RSSPerCall, o.Bridge.RSSPerCall)
			add(name("memory idle MB"), round(float64(l.Bridge.IdleRSS)/1024, 1), round(float64(o.Bridge.IdleRSS)/1024, 1))
			add(name("latency up p50 µs"), l.Bridged.Up.P50, o.Bridged.Up.P50)
			add(name("latency up p99 µs"), l.Bridged.Up.P99, o.Bridged.Up.P99)
			add(name("latency down p99 µs"), l.Bridged.Down.P99, o.Bridged.Down.P99)
			add(name("set-ups per second"), l.BridgedPerSecond, o.BridgedPerSecond)
		}
	}
	for _, w := range r.Words {
		o := wordsOf(other.Words, w)
		if o == nil {
			continue
		}
		name := func(what string) string {
			return fmt.Sprintf("%d calls, %d events of %d bytes: %s", w.Calls, w.EventsPerSecond, w.EventBytes, what)
		}
		add(name("CPU % per call"), orZero(w.With.CPUPerCall), orZero(o.With.CPUPerCall))
		add(name("CPU % per call without words"), orZero(w.Without.CPUPerCall), orZero(o.Without.CPUPerCall))
		add(name("audio up p50 µs"), w.With.Audio.Up.P50, o.With.Audio.Up.P50)
		add(name("audio up p99 µs"), w.With.Audio.Up.P99, o.With.Audio.Up.P99)
		add(name("audio down p99 µs"), w.With.Audio.Down.P99, o.With.Audio.Down.P99)
		add(name("event p50 µs"), w.Events.P50, o.Events.P50)
		add(name("event p99 µs"), w.Events.P99, o.Events.P99)
	}
	r.Against = a
}

// wordsOf finds the round with the same load.
func wordsOf(all []Words, like Words) *Words {
	i := slices.IndexFunc(all, func(w Words) bool {
		return w.Calls == like.Calls && w.EventsPerSecond == like.EventsPerSecond && w.EventBytes == like.EventBytes
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}
