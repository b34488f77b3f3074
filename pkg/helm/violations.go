package helm

import (
	"regexp"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// A Violation is a value of a chart that its values.schema.json does not allow.
type Violation struct {
	Chart   string
	Pointer string // to the value, from the values of the bundle; as RFC 6901
	Text    string
}

var (
	ofSchema  = regexp.MustCompile(`values don't meet the specifications of the schema\(s\) in the following chart\(s\): (\S+): - (at '.*)$`)
	atPointer = regexp.MustCompile(`^at '([^']*)': (.*?)(?: (\S+):)?$`)
)

// Violations returns the values for which Render has refused a chart of d; none for
// another error.
func Violations(d Deployment, err error) []Violation {
	if err == nil {
		return nil
	}
	m := ofSchema.FindStringSubmatch(plainText(err))
	if m == nil {
		return nil
	}
	l := newLocator(d)
	name := ""
	if file, ok := l.inTree(chartFile); ok {
		name, _ = position.Text(position.Root(l.bytes(file)), "name")
	}
	var list []Violation
	chart := m[1]
	for text := range strings.SplitSeq(m[2], " - ") {
		at := atPointer.FindStringSubmatch(text)
		if at == nil { // the sign stood in a text
			if len(list) > 0 {
				list[len(list)-1].Text += " - " + text
			}
			continue
		}
		v := Violation{Chart: chart, Pointer: at[1], Text: at[2]}
		if name != "" && chart != name {
			v.Pointer = "/" + chart + v.Pointer
		}
		list = append(list, v)
		if at[3] != "" {
			chart = at[3]
		}
	}
	return list
}
