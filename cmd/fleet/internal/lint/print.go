package lint

import (
	"fmt"
	"io"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// LintReport is what fleet lint prints.
type LintReport struct {
	printer.Document
	// Root is the directory that paths are relative to: the one that was
	// looked at, or the working directory where there were several.
	Root string `json:"root"`
	// Summary counts.
	Summary LintSummary `json:"summary"`
	// Findings are all that is wrong, by place.
	Findings []LintFinding `json:"findings"`
}

// LintSummary counts bundles and findings.
type LintSummary struct {
	// Bundles is how many directories are bundles, or should be.
	Bundles int `json:"bundles"`
	// Clean is how many of them have no finding.
	Clean int `json:"clean"`
	// Errors is how many findings are errors.
	Errors int `json:"errors"`
	// Warnings is how many findings are warnings.
	Warnings int `json:"warnings"`
}

// LintFinding is one thing that is wrong.
type LintFinding struct {
	// Rule is what kind of thing; fleet lint --rules lists them.
	Rule string `json:"rule"`
	// Severity is error or warning.
	Severity string `json:"severity"`
	// Bundle is the directory of the bundle, relative to root; empty where it
	// is about none.
	Bundle string `json:"bundle,omitempty"`
	// Path of the file or directory, relative to root.
	Path string `json:"path"`
	// Line counts from 1; 0 where the whole file or directory is meant.
	Line int `json:"line"`
	// Column counts from 1; 0 where the whole line is meant.
	Column int `json:"column"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Hint says what would help.
	Hint string `json:"hint,omitempty"`
}

// printReport writes the report to stdout.
func (o *Options) printReport(std printer.Stdio, r report) error {
	switch o.output {
	case "":
		printFindings(std.Out, r)
		return nil
	case formatGitHub:
		return printAnnotations(std.Out, r)
	case formatSARIF:
		return printer.PrintJSON(std.Out, sarifOf(r), false)
	}
	return o.output.Print(std, o.document(r), false)
}

// printFindings writes one line for each finding, and what would help below it.
func printFindings(out io.Writer, r report) {
	for _, f := range r.list {
		printer.Fprintf(out, "%s\n", f)
		if f.Hint != "" {
			printer.Fprintf(out, "    %s\n", f.Hint)
		}
	}
}

func (o *Options) document(r report) LintReport {
	root := "."
	if len(o.Dirs) == 1 {
		root = filepath.ToSlash(filepath.Clean(o.Dirs[0]))
	}
	doc := LintReport{
		Document: printer.NewDocument("LintReport"), Root: root, Summary: LintSummary(r.Summary), Findings: []LintFinding{},
	}
	for _, f := range r.list {
		one := LintFinding{
			Rule: f.Rule, Severity: string(f.Severity), Path: relativeTo(root, f.Path),
			Line: f.Line, Column: f.Column, Message: f.Message, Hint: f.Hint,
		}
		if f.bundle != "" {
			one.Bundle = relativeTo(root, f.bundle)
		}
		doc.Findings = append(doc.Findings, one)
	}
	return doc
}

func relativeTo(root, p string) string {
	rel, err := filepath.Rel(filepath.FromSlash(root), filepath.FromSlash(p))
	if err != nil {
		return p
	}
	return filepath.ToSlash(rel)
}

// escapes are those of GitHub's workflow commands, for messages; properties
// have two more.
var (
	escapes         = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// printAnnotations writes findings as workflow commands, which GitHub shows
// beside the lines: https://docs.github.com/actions/reference/workflow-commands.
func printAnnotations(out io.Writer, r report) error {
	for _, f := range r.list {
		message := f.Message
		if f.Hint != "" {
			message += "\n" + f.Hint
		}
		_, err := fmt.Fprintf(out, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", f.Severity, propertyEscapes.Replace(f.Path),
			max(f.Line, 1), max(f.Column, 1), propertyEscapes.Replace("fleet lint: "+f.Rule), escapes.Replace(message))
		if err != nil {
			return err
		}
	}
	return nil
}

// Sarif is a log in the format of SARIF 2.1.0, as far as it is needed:
// https://docs.oasis-open.org/sarif/sarif/v2.1.0.
type Sarif struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver sarifDriver `json:"driver"`
	} `json:"tool"`
	ColumnKind string        `json:"columnKind"`
	Results    []sarifResult `json:"results"`
}

type sarifDriver struct {
	Name    string      `json:"name"`
	Version string      `json:"version"`
	Rules   []sarifRule `json:"rules"`
}

type sarifRule struct {
	ID            string    `json:"id"`
	Short         sarifText `json:"shortDescription"`
	Configuration struct {
		Level string `json:"level"`
	} `json:"defaultConfiguration"`
}

type sarifText struct {
	Text string `json:"text"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	RuleIndex int             `json:"ruleIndex"`
	Level     string          `json:"level"`
	Message   sarifText       `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI  string `json:"uri"`
			Base string `json:"uriBaseId,omitempty"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

func sarifOf(r report) Sarif {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "fleet lint", Version: version.Version}
	index := map[string]int{}
	for i, rule := range lint.Rules() {
		index[rule.Name] = i
		one := sarifRule{ID: rule.Name, Short: sarifText{rule.Text}}
		one.Configuration.Level = string(rule.Severity)
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, one)
	}
	for _, f := range r.list {
		run.Results = append(run.Results, sarifResultOf(f.Finding, index[f.Rule]))
	}
	return Sarif{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}}
}

func sarifResultOf(f finding.Finding, rule int) sarifResult {
	text := f.Message
	if f.Hint != "" {
		text += "\n" + f.Hint
	}
	out := sarifResult{RuleID: f.Rule, RuleIndex: rule, Level: string(f.Severity), Message: sarifText{text}}
	var at sarifLocation
	at.Physical.Artifact.URI = fileURI(f.Path)
	if !path.IsAbs(f.Path) {
		at.Physical.Artifact.Base = "%SRCROOT%"
	}
	if f.Line > 0 {
		at.Physical.Region = &sarifRegion{StartLine: f.Line, StartColumn: f.Column}
	}
	out.Locations = []sarifLocation{at}
	return out
}

// fileURI is a path as a reference of a URI.
func fileURI(p string) string {
	u := url.URL{Path: p}
	if path.IsAbs(p) {
		u.Scheme = "file"
	}
	return u.String()
}
