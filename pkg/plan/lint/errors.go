package lint

import (
	"regexp"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

var (
	forCluster = regexp.MustCompile(`^render values for cluster "[^"]*" in namespace "[^"]*": `)
	inTemplate = regexp.MustCompile(`^template: [^:]+:(?:\d+:)*(?:\d+:)? (?:executing "[^"]*" at <(.*)>: )?(.*)$`)
	noEntry    = regexp.MustCompile(`^map has no entry for key "([^"]*)"$`)
)

// ValuesError is what to say of an error of values.Render: at the template that
// it is about, without the cluster, so that it reads the same for all clusters.
func ValuesError(file *fleetyaml.File, err error) finding.Finding {
	text := forCluster.ReplaceAllString(strings.Join(strings.Fields(err.Error()), " "), "")
	expression := ""
	if m := inTemplate.FindStringSubmatch(text); m != nil {
		expression, text = m[1], m[2]
	}
	f := finding.Finding{Path: file.Path, Severity: finding.Error, Rule: finding.RuleRender}
	f.Line, f.Column = file.At("helm", "values")
	switch m := noEntry.FindStringSubmatch(text); {
	case m != nil:
		f.Message = "render: no value for " + expression
	case expression != "":
		f.Message = "render: " + expression + ": " + text
	default:
		f.Message = "render: " + text
	}
	if expression != "" {
		f.Line, f.Column = placeOf(file, expression, f.Line, f.Column)
	}
	return f
}

// placeOf is the first text of the file's values that holds an expression.
func placeOf(file *fleetyaml.File, expression string, line, column int) (int, int) {
	found := false
	visit := func(text string, l, c int) {
		if at := strings.Index(text, expression); at >= 0 && !found && strings.Contains(text, "${") {
			found, line, column = true, l+strings.Count(text[:at], "\n"), c
		}
	}
	file.Texts(visit, "helm")
	for i := range file.Spec.Targets {
		place, _ := file.Target(i)
		file.Texts(visit, append(place, "helm")...)
	}
	return line, column
}
