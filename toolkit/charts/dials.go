package charts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// The charts of few values: radial bars, a gauge, one big number.

type radialInput struct {
	Title       string      `json:"title"`
	Data        []radialBar `json:"data"`
	InnerRadius *float64    `json:"innerRadius"`
	OuterRadius *float64    `json:"outerRadius"`
	Description string      `json:"description,omitempty"`
}

type radialBar struct {
	Name     string   `json:"name"`
	Value    float64  `json:"value"`
	MaxValue *float64 `json:"maxValue"`
}

var radialBarChart = kind{
	name: "create_radial_bar_chart", chartType: "radial-bar", label: "radial bar chart",
	description: "Draws bars bent into rings, such as progress towards goals.",
	schema: object(titleField,
		required("data", list(object(
			required("name", label),
			required("value", number.with("minimum", 0)),
			optional("maxValue", number.about(
				"Value of the full ring; 1.2 times the largest value if it is missing",
			).with("exclusiveMinimum", 0)),
		), maxPoints)),
		descriptionField,
		optional("innerRadius",
			number.about("Inner radius in percent").with("minimum", 0).with("maximum", 100).with("default", 30)),
		optional("outerRadius", number.about("Outer radius in percent, greater than innerRadius").with("minimum",
			0).with("maximum", 100).with("default", 80))),
	build: build(checkRadial),
}

func checkRadial(in *radialInput) (figure, error) {
	in.InnerRadius = cmp.Or(in.InnerRadius, new(30.0))
	in.OuterRadius = cmp.Or(in.OuterRadius, new(80.0))
	if !(*in.InnerRadius < *in.OuterRadius) {
		return figure{}, fmt.Errorf("innerRadius %s must be less than outerRadius %s", plain(*in.InnerRadius),
			plain(*in.OuterRadius))
	}
	all := spanOf(in.Data, func(b radialBar) float64 { return b.Value })
	full := cmp.Or(1.2*all.high, 1) // a ring needs a scale, even when all are empty
	for i := range in.Data {
		in.Data[i].MaxValue = cmp.Or(in.Data[i].MaxValue, &full)
	}
	return all.figure(in.Title, fmt.Sprintf("%s, values %s.", count(all.n, "ring"), all)), nil
}

type gaugeInput struct {
	Title       string           `json:"title"`
	Value       float64          `json:"value"`
	MinValue    *float64         `json:"minValue"`
	MaxValue    *float64         `json:"maxValue"`
	GaugeType   string           `json:"gaugeType"`
	Unit        string           `json:"unit,omitempty"`
	Thresholds  []gaugeThreshold `json:"thresholds,omitempty"`
	Description string           `json:"description,omitempty"`
}

type gaugeThreshold struct {
	Value float64 `json:"value"`
	Color string  `json:"color"`
	Label string  `json:"label,omitempty"`
}

var gaugeChart = kind{
	name: "create_gauge_chart", chartType: "gauge", label: "gauge",
	description: "Draws a gauge of one value between a lowest and a highest value, optionally with coloured " +
		"thresholds.",
	schema: object(titleField,
		required("value", number.about("The value, from minValue to maxValue")),
		optional("minValue", number.with("default", 0)),
		optional("maxValue", number.with("default", 100)),
		required("gaugeType", enum("speedometer", "semi-circle", "radial")),
		unitField,
		optional("thresholds", schema{"type": "array", "maxItems": maxThresholds,
			"description": "Where the colour changes", "items": object(
				required("value", number.about("Value from which the colour holds")),
				required("color",
					schema{"type": "string", "pattern": hexColour, "description": "Colour, for example #d62728"}),
				optional("label", label),
			)}),
		descriptionField),
	build: build(checkGauge),
}

func checkGauge(in *gaugeInput) (figure, error) {
	in.MinValue = cmp.Or(in.MinValue, new(0.0))
	in.MaxValue = cmp.Or(in.MaxValue, new(100.0))
	low, high := *in.MinValue, *in.MaxValue
	if !(low < high) {
		return figure{}, fmt.Errorf("minValue %s must be less than maxValue %s", plain(low), plain(high))
	}
	if in.Value < low || in.Value > high {
		return figure{}, fmt.Errorf("value %s must be from minValue %s to maxValue %s", plain(in.Value), plain(low),
			plain(high))
	}
	for i, t := range in.Thresholds {
		if t.Value < low || t.Value > high {
			return figure{}, fmt.Errorf("thresholds[%d].value %s must be from minValue %s to maxValue %s", i,
				plain(t.Value), plain(low), plain(high))
		}
	}
	slices.SortStableFunc(in.Thresholds, func(a, b gaugeThreshold) int { return cmp.Compare(a.Value, b.Value) })
	percent := 100 * (in.Value - low) / (high - low)
	return figure{
		title: in.Title,
		metadata: map[string]any{
			"percentage": percent, "thresholdCount": len(in.Thresholds),
			"valueRange": map[string]float64{"min": low, "max": high},
		},
		summary: fmt.Sprintf("%s on a scale from %s to %s.", plain(in.Value), plain(low), plain(high)),
	}, nil
}

type banInput struct {
	Title       string          `json:"title"`
	Value       json.RawMessage `json:"value"`
	Unit        string          `json:"unit,omitempty"`
	Trend       *banTrend       `json:"trend,omitempty"`
	Comparison  *banComparison  `json:"comparison,omitempty"`
	Description string          `json:"description,omitempty"`
}

type banTrend struct {
	Value     float64 `json:"value"`
	Direction string  `json:"direction"`
	Label     string  `json:"label,omitempty"`
}

type banComparison struct {
	Value json.RawMessage `json:"value"`
	Label string          `json:"label"`
}

var numberOrText = label.with("type", []string{"number", "string"})

var banChart = kind{
	name: "create_ban_chart", chartType: "ban", label: "big number",
	description: "Shows one big number, optionally with a trend and a comparison.",
	schema: object(titleField,
		required("value", numberOrText.about("The number, or a text such as 1.2M")),
		unitField,
		optional("trend", object(
			required("value", number.about("How much the number changed")),
			required("direction", enum("up", "down", "neutral")),
			optional("label", label.about("What the change refers to")),
		)),
		optional("comparison", object(
			required("value", numberOrText.about("The number to compare with")),
			required("label", label),
		)),
		descriptionField),
	build: build(checkBAN),
}

func checkBAN(in *banInput) (figure, error) {
	var value any // a number or a text
	if err := json.Unmarshal(in.Value, &value); err != nil {
		return figure{}, fmt.Errorf("value: %w", err)
	}
	shown := fmt.Sprint(value)
	if n, ok := value.(float64); ok {
		shown = plain(n)
	}
	return figure{
		title:    in.Title,
		metadata: map[string]any{"hasTrend": in.Trend != nil, "hasComparison": in.Comparison != nil},
		summary:  fmt.Sprintf("It shows %s.", names([]string{shown})),
	}, nil
}
