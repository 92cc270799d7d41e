// Command sbom lists the modules in a released program as an SPDX 2.3 document: those of Go from the build
// information in it, those of npm from the list that the build of the page makes, which is embedded with it.
//
// Source: https://spdx.github.io/spdx-spec/v2.3/
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"voicebridge/web/ui"
)

type document struct {
	Version      string         `json:"spdxVersion"`
	License      string         `json:"dataLicense"`
	ID           string         `json:"SPDXID"`
	Name         string         `json:"name"`
	Namespace    string         `json:"documentNamespace"`
	Creation     creation       `json:"creationInfo"`
	Packages     []spdxPackage  `json:"packages"`
	Relationship []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID       string        `json:"SPDXID"`
	Name     string        `json:"name"`
	Version  string        `json:"versionInfo,omitempty"`
	Location string        `json:"downloadLocation"`
	Analyzed bool          `json:"filesAnalyzed"`
	Refs     []externalRef `json:"externalRefs,omitempty"`
}

type externalRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "sbom PROGRAM VERSION")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2], time.Now().UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// write lists the modules of the program at path. The version in its build information is that of the commit, which
// may not have its tag yet.
func write(w io.Writer, path, version string, now time.Time) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	name := filepath.Base(path)
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		Namespace: fmt.Sprintf("https://spdx.org/spdxdocs/%s-%x", name, sha256.Sum256(content)),
		Creation:  creation{now.Format(time.RFC3339), []string{"Tool: voicebridge-sbom"}},
		Packages: []spdxPackage{
			{ID: "SPDXRef-program", Name: name, Version: version, Location: "NOASSERTION"},
			module(0, &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}), // as scanners name it
		},
		Relationship: []relationship{
			{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-program"}, {"SPDXRef-program", "CONTAINS", "SPDXRef-module-0"},
		},
	}
	var modules []spdxPackage
	for i, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		modules = append(modules, module(i+1, dep))
	}
	page, err := ofPage()
	if err != nil {
		return fmt.Errorf("read the page's modules: %w", err)
	}
	for _, p := range append(modules, page...) {
		d.Packages = append(d.Packages, p)
		d.Relationship = append(d.Relationship, relationship{"SPDXRef-program", "CONTAINS", p.ID})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// bundled is the heading of a module in the list of what the page bundles: name, version, license.
var bundled = regexp.MustCompile(`(?m)^## (\S+) - (\d\S*) \(`)

// ofPage returns the modules of npm in the page.
func ofPage() (modules []spdxPackage, err error) {
	list, err := fs.ReadFile(ui.Dist(), "licenses.md")
	if err != nil {
		return nil, err
	}
	for i, found := range bundled.FindAllSubmatch(list, -1) {
		name, version := string(found[1]), string(found[2])
		modules = append(modules, spdxPackage{
			ID: fmt.Sprintf("SPDXRef-page-%d", i), Name: name, Version: version, Location: "NOASSERTION",
			Refs: []externalRef{{"PACKAGE-MANAGER", "purl", "pkg:npm/" + strings.Replace(name, "@", "%40", 1) + "@" + version}},
		})
	}
	return modules, nil
}

func module(n int, m *debug.Module) spdxPackage {
	return spdxPackage{
		ID: fmt.Sprintf("SPDXRef-module-%d", n), Name: m.Path, Version: m.Version, Location: "NOASSERTION",
		Refs: []externalRef{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}},
	}
}
