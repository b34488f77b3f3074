package helm

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// How Helm refuses all values because of the schema itself.
var (
	unusableSchema = regexp.MustCompile(`values don't meet the specifications of the schema\(s\) in the following chart\(s\): (\S+): (.*)$`)
	ofMetaschema   = regexp.MustCompile(`^"file:///values\.schema\.json([^"]*)" is not valid against metaschema: .*? - (at '.*)$`)
	ofReference    = regexp.MustCompile(`^json-pointer in "file:///values\.schema\.json([^"]*)" not found$`)
)

// BrokenSchema returns the place of the mistake that makes the values.schema.json of
// the chart unusable for Helm, with any values. ok is false for another error, and
// where the schema is not among the files of d.
func BrokenSchema(d Deployment, err error) (place Place, ok bool) {
	if err == nil {
		return Place{}, false
	}
	text := plainText(err)
	m := unusableSchema.FindStringSubmatch(text)
	if m == nil || ofSchema.MatchString(text) {
		return Place{}, false
	}
	l := newLocator(d)
	file, ok := l.schemaOf(m[1])
	if !ok || loadedBy(l.bytes(file)) != "" {
		return Place{}, false
	}
	place = Place{File: file, Text: "Helm cannot use the schema: " + m[2]}
	if line, column, text := position.JSONMistake(l.bytes(file)); text != "" {
		place.Line, place.Column, place.Text = line, column, "JSON: "+text
		return place, true
	}
	if m := ofReference.FindStringSubmatch(m[2]); m != nil {
		place.Text = fmt.Sprintf("Helm cannot use the schema: %q is not in it", m[1])
		if line, column := l.findWord(file, `"`+m[1]+`"`); line > 0 {
			place.Line, place.Column = line, column
		}
		return place, true
	}
	if m := ofMetaschema.FindStringSubmatch(m[2]); m != nil {
		pointer, what := innermostMistake(m[2])
		place.Line, place.Column = position.Locate(position.Root(l.bytes(file)), false, position.Pointer(pointer)...)
		place.Text = "Helm cannot use the schema: " + what
	}
	return place, true
}

// schemaOf is the schema of a chart in the bundle: of the chart itself, or of one in it.
func (l locator) schemaOf(chart string) (file string, ok bool) {
	if about, ok := l.inTree(chartFile); ok {
		if name, _ := position.Text(position.Root(l.bytes(about)), "name"); name == chart {
			return l.inTree(schemaFile)
		}
	}
	return l.inTree(path.Join("charts", chart, schemaFile))
}

// innermostMistake is the first of several mistakes that says what is wrong, and not that one
// below it is.
func innermostMistake(list string) (pointer, text string) {
	for part := range strings.SplitSeq(list, " - ") {
		at := atPointer.FindStringSubmatch(part)
		if at == nil {
			continue
		}
		if text == "" || strings.HasSuffix(text, " failed") {
			pointer, text = at[1], at[2]
		}
	}
	return pointer, text
}
