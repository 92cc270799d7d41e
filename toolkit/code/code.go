// Package code provides the tools that run a model's programs on the server: JavaScript in QuickJS,
// and Python in bubblewrap if the operator enables it and the host supports it.
//
// No program runs in this process. JavaScript runs in a child, which is this same binary started
// again: it has an empty environment, limits on memory and processor time, and a seccomp filter of
// Linux that leaves it no files, no network and no other process; without the filter it runs only
// where the operator allows it. QuickJS itself is a translation of C to Go, and a fault in it (a Go
// stack that overflows cannot be recovered) ends the child and one call. Python runs in namespaces
// of its own without a network, as one process. Both have a lower priority than this process, which
// forwards audio.
//
// # Why these two runtimes
//
// The page once had two more, QuickJS as WebAssembly and Pyodide, in workers. They served only
// calls of that page; typed turns, text sessions, the conductor and other clients need the server's
// anyway. A browser's answers cannot be trusted, a tool stopped with its tab, and the pair cost a
// second definition of each tool, exceptions in the content security policy, and 14 MB that
// operators had to host for Pyodide. QuickJS in a child process comes with the binary and runs
// wherever it does; CPython in bubblewrap has the whole standard library and is isolated by the
// kernel. Where the host lacks bubblewrap or Python, the Python tool is not offered. A client that
// wants to run programs itself declares a tool of its own.
//
// The first thing that main does must be to call [RunChild] if [IsChild] says so.
package code

import (
	"context"
	"fmt"

	"voicebridge/toolkit"
)

// Names of the tools.
const (
	JavaScriptName = "mini-javascript-execution"
	PythonName     = "python-execution"
)

var javaScriptDefinition = definition(JavaScriptName,
	"Run a short JavaScript program (ES2023) and get what it printed and the value of its last expression. "+
		"Use it for exact arithmetic, dates, text and data. Top-level await works; return does not. "+
		"There is console, setTimeout and plain JavaScript: no network, no files, no modules, no DOM, no Node.js.",
	"The program. End it with the expression whose value you want, or print with console.log.")

var pythonDefinition = definition(PythonName,
	"Run a short Python 3 program and get what it printed and the value of its last expression. "+
		"Use it for exact arithmetic, statistics, dates, text and data. Top-level await works. "+
		"There is the standard library, but no network and no other processes, and files are gone when the "+
		"program ends.",
	"The program. End it with the expression whose value you want, or print.")

func definition(name, description, code string) toolkit.Definition {
	const schema = `{"type":"object","properties":{"code":{"type":"string","description":%q,"minLength":1}},` +
		`"required":["code"],"additionalProperties":false}`
	return toolkit.Definition{Name: name, Description: description, Parameters: fmt.Appendf(nil, schema, code)}
}

// New returns a sandbox. It starts nothing.
func New(config Config) *Sandbox {
	config = config.withDefaults()
	return &Sandbox{config: config, log: config.Logger, slots: newSlots(config.MaxParallel)}
}

// JavaScript returns the tool mini-javascript-execution.
func (s *Sandbox) JavaScript() toolkit.Tool {
	return &tool{definition: javaScriptDefinition, language: "JavaScript", sandbox: s, run: s.runJavaScript}
}

// Python returns the tool python-execution. Call [Sandbox.ProbePython] first.
func (s *Sandbox) Python() toolkit.Tool {
	return &tool{definition: pythonDefinition, language: "Python", sandbox: s, run: s.runPython}
}

// Tools probes the host and returns the tools that work on it; it logs why others do not. It starts
// two to four child processes.
func (s *Sandbox) Tools(ctx context.Context) []toolkit.Tool {
	var tools []toolkit.Tool
	if confinement, err := s.ProbeJavaScript(ctx); err != nil {
		s.log.Warn("tool not offered", "tool", JavaScriptName, "error", err)
	} else {
		s.log.Info("tool offered", "tool", JavaScriptName, "confinement", confinement)
		tools = append(tools, s.JavaScript())
	}
	if !s.config.PythonEnabled {
		return tools
	}
	if err := s.ProbePython(ctx); err != nil {
		s.log.Warn("tool not offered", "tool", PythonName, "error", err)
		return tools
	}
	s.log.Info("tool offered", "tool", PythonName, "confinement", "bubblewrap")
	return append(tools, s.Python())
}
