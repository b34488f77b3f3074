package fleetyaml

import (
	"bytes"
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// LeftOver returns the finding about what the parser ignores in a document of the file that
// path names; ok is false where it reads all. The document can be parsed.
func LeftOver(path string, doc position.Document) (f finding.Finding, ok bool) {
	rest, ok := position.IgnoredLine(doc.Text)
	if !ok {
		return finding.Finding{}, false
	}
	f = finding.Finding{Path: path, Line: doc.Before + rest.Line, Severity: finding.Error, Rule: finding.RuleYAML}
	here, _, _ := lineWithParent(doc.Text, rest.Line)
	if at := position.Conflict(doc.Text); at > 0 && at <= rest.Line {
		f.Line, f.Message = doc.Before+at, "YAML: "+position.ConflictText
		return f, true
	}
	f.Message = "YAML: " + leftOver(rest, here, doc.Before)
	return f, true
}

// leftOver returns the message for a line behind the end of a document. before is the
// number of lines of the file before the document.
func leftOver(rest position.Rest, line []byte, before int) string {
	first := bytes.TrimSpace(line)
	switch {
	case rest.Marker > 0:
		return fmt.Sprintf("line %d ends the document, and what follows is not read", before+rest.Marker)
	case rest.Begins > 0:
		return fmt.Sprintf("probably the line is indented wrongly: it begins with %s, line %d with %s (the document ends above it)",
			spaces(indent(line)), before+rest.Begins, spaces(rest.Indent))
	case rest.Closes:
		return "a bracket is closed that is not opened"
	case len(first) > 0 && (first[0] == '{' || first[0] == '['):
		return "a second object stands in the document, and only the first is read: a line --- is missing above it"
	}
	return "the document ends with the bracket, quote or text above, and what follows is not read"
}
