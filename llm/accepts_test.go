package llm_test

import (
	"testing"

	"voicebridge/llm"
)

// TestFind takes the first rule for a model, whatever a gateway puts before its name, and those of the settings before others.
func TestFind(t *testing.T) {
	t.Parallel()
	images := llm.ImageLimits{Side: 1}
	settings := []llm.Rule{{Models: []string{"set*"}, Accepts: llm.Accepts{NoTopP: true}}}
	rules := []llm.Rule{
		{Models: []string{"one-[2-9]*"}, Accepts: llm.Accepts{NoTools: true}},
		{Models: []string{"two", "one-*", "set-*"}, Accepts: llm.Accepts{NoImages: true, Images: images}},
	}
	for model, want := range map[string]llm.Accepts{
		"one-2": {NoTools: true}, "vendor/One-3-mini": {NoTools: true}, "one-1": {NoImages: true}, "two": {NoImages: true}, "two-b": {}, "set-me": {NoTopP: true},
	} {
		if got := llm.Find(settings, rules, model); got.NoTools != want.NoTools || got.NoImages != want.NoImages || got.NoTopP != want.NoTopP || model == "set-me" && got.Images.Side != 1 {
			t.Errorf("Find(%q) = %+v, want %+v", model, got, want)
		}
	}
}

// TestFit leaves out the sampling parameters that a model refuses.
func TestFit(t *testing.T) {
	t.Parallel()
	for a, want := range map[string]struct {
		accepts           llm.Accepts
		temperature, topP bool
	}{
		"both":        {llm.Accepts{}, true, true},
		"one of them": {llm.Accepts{OneOfThem: true}, true, false},
		"top_p":       {llm.Accepts{OneOfThem: true, NoTemperature: true}, false, true},
		"neither":     {llm.Accepts{NoTemperature: true, NoTopP: true}, false, false},
	} {
		got := want.accepts.Fit(llm.Request{Temperature: new(0.5), TopP: new(0.9)})
		if (got.Temperature != nil) != want.temperature || (got.TopP != nil) != want.topP {
			t.Errorf("%s: Fit() = %v, %v", a, got.Temperature, got.TopP)
		}
	}
}
