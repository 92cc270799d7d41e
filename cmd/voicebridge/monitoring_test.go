package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence"
	"voicebridge/web"
)

// exposed returns the labels of all metrics that the program exposes, by name.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	cfg, err := config.Load(config.Sources{Environ: environment(t)})
	must(t, err)
	a := &app{cfg: cfg, log: newLogger(config.Log{}, io.Discard), metrics: web.NewMetrics(), instance: persistence.NewID()}
	must(t, a.open(t.Context()))
	defer func() {
		if err := a.close(); err != nil {
			t.Error(err)
		}
	}()
	described := make(chan *prometheus.Desc)
	go func() {
		defer close(described)
		a.metrics.Registry().(*prometheus.Registry).Describe(described)
	}()
	form := regexp.MustCompile(`^Desc\{fqName: "(\w+)", .*variableLabels: \{(.*)\}\}$`)
	out := map[string][]string{}
	for d := range described {
		m := form.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("a figure describes itself as %s", d)
		}
		out[m[1]] = append(strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' }), "instance", "job")
	}
	out["up"] = []string{"instance", "job"} // Prometheus's own
	return out
}

var (
	usedName    = regexp.MustCompile(`\b((?:voicebridge|process|go)_\w+|up)\b(?:\{([^}]*)\})?`)
	usedLabel   = regexp.MustCompile(`(\w+) *(?:=~|!~|!=|=) *"`)
	usedByLabel = regexp.MustCompile(`\bby \(([^)]*)\)`)
	bucket      = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// checkExpr checks the names in a Prometheus expression.
func checkExpr(expr string, known map[string][]string) (problems []string) {
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var labels []string
	names := usedName.FindAllStringSubmatch(expr, -1)
	if len(names) == 0 {
		wrong("no figure is in %s", expr)
	}
	for _, m := range names {
		have, ok := known[m[1]]
		if !ok {
			have, ok = known[bucket.ReplaceAllString(m[1], "")]
		}
		if !ok {
			wrong("the program does not expose %s", m[1])
		}
		labels = append(labels, have...)
		for _, l := range usedLabel.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(have, l[1]) {
				wrong("%s has no label %s, it has %v", m[1], l[1], have)
			}
		}
	}
	for _, by := range usedByLabel.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(by[1], ",") {
			if label = strings.TrimSpace(label); label != "le" && !slices.Contains(labels, label) {
				wrong("there is no label %s in %s", label, expr)
			}
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
		wrong("brackets are missing in %s", expr)
	}
	return problems
}

// TestMonitoring reads the shipped dashboard and alert rules.
func TestMonitoring(t *testing.T) {
	t.Parallel()
	known := exposed(t)
	for _, name := range []string{"voicebridge_calls_live", "voicebridge_answer_latency_seconds", "voicebridge_mcp_server_up", "go_goroutines"} {
		if known[name] == nil {
			t.Fatalf("%s is not among %d figures", name, len(known))
		}
	}
	seen := map[string]bool{}
	note := func(expr string) {
		for _, m := range usedName.FindAllStringSubmatch(expr, -1) {
			seen[bucket.ReplaceAllString(m[1], "")] = true
		}
	}
	t.Run("dashboard", func(t *testing.T) {
		var d struct {
			UID, Title    string
			SchemaVersion int
			Templating    struct{ List []struct{ Name, Type string } }
			Panels        []struct {
				ID          int
				Type, Title string
				GridPos     struct{ H, W, X, Y int }
				Targets     []struct{ RefID, Expr string }
			}
		}
		raw, err := os.ReadFile("../../deploy/grafana-dashboard.json")
		must(t, err)
		must(t, json.Unmarshal(raw, &d))
		var variables []string
		for _, v := range d.Templating.List {
			variables = append(variables, "$"+v.Name, "${"+v.Name+"}")
		}
		if d.UID == "" || d.Title == "" || d.SchemaVersion < 36 || len(d.Panels) < 20 {
			t.Errorf("the dashboard has the uid %q, the title %q, %d panels", d.UID, d.Title, len(d.Panels))
		}
		for _, m := range regexp.MustCompile(`\$\{?\w+\}?`).FindAllString(string(raw), -1) {
			if !slices.Contains(variables, m) && m != "$__rate_interval" {
				t.Errorf("there is no variable %s", m)
			}
		}
		ids := map[int]bool{}
		taken := map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("panel %q has a number that is taken, or hangs over", p.Title)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" {
						t.Fatalf("panels %q and %q lie on each other", other, p.Title)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if (p.Type == "row") != (len(p.Targets) == 0) || !slices.Contains([]string{"row", "stat", "timeseries"}, p.Type) {
				t.Errorf("panel %q of the type %q has %d targets", p.Title, p.Type, len(p.Targets))
			}
			for _, target := range p.Targets {
				for _, problem := range checkExpr(target.Expr, known) {
					t.Errorf("%s: %s", p.Title, problem)
				}
				note(target.Expr)
			}
		}
	})
	t.Run("alerts", func(t *testing.T) {
		raw, err := os.ReadFile("../../deploy/prometheus-alerts.yaml")
		must(t, err)
		var doc map[string]any
		must(t, yaml.Unmarshal(raw, &doc))
		raw, err = json.Marshal(doc)
		must(t, err)
		var d struct {
			Groups []struct {
				Name  string
				Rules []struct {
					Alert, Expr, For    string
					Labels, Annotations map[string]string
				}
			}
		}
		if err := json.Unmarshal(raw, &d); err != nil || len(d.Groups) != 1 {
			t.Fatalf("%d groups, %v", len(d.Groups), err)
		}
		names := map[string]bool{}
		for _, r := range d.Groups[0].Rules {
			if names[r.Alert] || !strings.HasPrefix(r.Alert, "Voicebridge") || r.Annotations["summary"] == "" || r.Annotations["description"] == "" ||
				!slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) || r.For != "" && !regexp.MustCompile(`^\d+[mh]$`).MatchString(r.For) {
				t.Errorf("rule %+v", r)
			}
			names[r.Alert] = true
			for _, problem := range checkExpr(r.Expr, known) {
				t.Errorf("%s: %s", r.Alert, problem)
			}
			note(r.Expr)
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(r.Annotations["summary"], -1) {
				if !regexp.MustCompile(`\bby \([^)]*\b`+m[1]+`\b`).MatchString(r.Expr) && r.Alert != "VoicebridgeDown" {
					t.Errorf("%s: no label %s is left", r.Alert, m[1])
				}
			}
		}
	})
	for name := range known {
		if strings.HasPrefix(name, "voicebridge_") && !seen[name] && !slices.Contains([]string{"voicebridge_build_info", "voicebridge_calls_started_total",
			"voicebridge_text_turns_total", "voicebridge_http_request_duration_seconds"}, name) {
			t.Errorf("nobody looks at %s", name)
		}
	}
}

// TestCheckExpr checks that a wrong expression is found.
func TestCheckExpr(t *testing.T) {
	t.Parallel()
	known := map[string][]string{"voicebridge_x_total": {"kind", "instance"}}
	for _, c := range []struct {
		expr string
		ok   bool
	}{
		{`sum by (kind) (rate(voicebridge_x_total{instance=~"$instance"}[5m]))`, true},
		{`rate(voicebridge_y_total[5m])`, false}, {`voicebridge_x_total{model="m"}`, false}, {`sum by (model) (voicebridge_x_total)`, false},
		{`sum(voicebridge_x_total`, false}, {`1 > 0`, false},
	} {
		if problems := checkExpr(c.expr, known); (len(problems) == 0) != c.ok {
			t.Errorf("%s: %q", c.expr, problems)
		}
	}
}
