package charts

import (
	"fmt"
	"strings"
)

type sankeyInput struct {
	Title       string       `json:"title"`
	Nodes       []sankeyNode `json:"nodes"`
	Links       []sankeyLink `json:"links"`
	Description string       `json:"description,omitempty"`
}

type sankeyNode struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type sankeyLink struct {
	Source string  `json:"source"`
	Target string  `json:"target"`
	Value  float64 `json:"value"`
}

var sankeyChart = kind{
	name: "create_sankey_chart", chartType: "sankey", label: "sankey chart",
	description: "Draws flows between nodes. Node ids are unique, each link joins two different nodes by their " +
		"ids, and the links form no cycle.",
	schema: object(titleField,
		required("nodes", list(object(
			required("id", label.about("Unique id of the node")),
			required("name", label),
		), maxPoints)),
		required("links", list(object(
			required("source", label.about("Id of the node where the flow starts")),
			required("target", label.about("Id of the node where the flow ends")),
			required("value", number.with("exclusiveMinimum", 0)),
		), maxLinks)),
		descriptionField),
	build: build(checkSankey),
}

func checkSankey(in *sankeyInput) (figure, error) {
	index := make(map[string]int, len(in.Nodes))
	for i, n := range in.Nodes {
		if first, ok := index[n.ID]; ok {
			return figure{}, fmt.Errorf("nodes[%d].id %q is the same as nodes[%d].id", i, n.ID, first)
		}
		index[n.ID] = i
	}
	next := make([][]int, len(in.Nodes))
	var flow span
	for i, l := range in.Links {
		source, found := index[l.Source]
		if !found {
			return figure{}, fmt.Errorf("links[%d].source %q is not the id of a node", i, l.Source)
		}
		target, found := index[l.Target]
		switch {
		case !found:
			return figure{}, fmt.Errorf("links[%d].target %q is not the id of a node", i, l.Target)
		case source == target:
			return figure{}, fmt.Errorf("links[%d] joins the node %q to itself", i, l.Source)
		}
		next[source] = append(next[source], target)
		flow.add(l.Value)
	}
	if cycle := findCycle(next); cycle != nil {
		ids := make([]string, len(cycle))
		for i, n := range cycle {
			ids[i] = in.Nodes[n].ID
		}
		return figure{}, fmt.Errorf("links form a cycle: %s", strings.Join(short(ids), " → "))
	}
	return figure{
		title: in.Title, points: new(flow.n),
		metadata: map[string]any{
			"nodeCount": len(in.Nodes), "linkCount": flow.n, "totalFlow": flow.sum,
			"valueRange": flow.limits(),
		},
		summary: fmt.Sprintf("%s and %s, flows %s.", count(len(in.Nodes), "node"), count(flow.n, "link"), flow),
	}, nil
}

// findCycle returns the nodes of a cycle, the first one also at the end, or nil.
func findCycle(next [][]int) []int {
	const (
		unseen = iota
		onPath
		done
	)
	state := make([]int, len(next))
	var path []int
	var visit func(n int) []int
	visit = func(n int) []int {
		state[n] = onPath
		path = append(path, n)
		for _, to := range next[n] {
			if state[to] == onPath {
				start := 0
				for path[start] != to {
					start++
				}
				return append(path[start:], to)
			}
			if state[to] == unseen {
				if cycle := visit(to); cycle != nil {
					return cycle
				}
			}
		}
		state[n] = done
		path = path[:len(path)-1]
		return nil
	}
	for n := range next {
		if state[n] == unseen {
			if cycle := visit(n); cycle != nil {
				return cycle
			}
		}
	}
	return nil
}
