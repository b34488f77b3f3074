package helm

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// inPlainWords is an error of a template, or of the schema of a chart, in the words that
// fleet lint has for it. Other errors stay as they are, and so do those of a deployment
// with valuesFrom: the words name keys of values, and those may be of a Secret.
func (d Deployment) inPlainWords(err error) error {
	if !reconcile.IsTerminal(err) || len(d.helm().ValuesFrom) > 0 {
		return err
	}
	switch reason := reconcile.ReasonOf(err); reason {
	case release.ReasonBadValues:
		if list := Violations(d, err); len(list) > 0 {
			texts := make([]string, len(list))
			for i, v := range list {
				texts[i] = v.String()
			}
			slices.Sort(texts) // the library has them in any order
			return reconcile.TerminalError(reason, errors.New(strings.Join(texts, "; ")))
		}
	case release.ReasonBadTemplate:
		p, ok := Locate(d, err)
		if ok && p.Line > 0 && p.Column > 0 && !strings.Contains(plainText(err), p.Text) {
			return reconcile.TerminalError(reason, fmt.Errorf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text))
		}
	}
	return err
}

// pointerText makes a path for people of a JSON pointer: image.tag of image/tag.
var pointerText = strings.NewReplacer("/", ".", "~1", "/", "~0", "~")

// String returns which value the schema of the chart does not allow, and why.
func (v Violation) String() string {
	what := "the values do"
	if path := pointerText.Replace(strings.TrimPrefix(v.Pointer, "/")); path != "" {
		what = "value " + path + " does"
	}
	return what + " not fit the schema of chart " + v.Chart + ": " + v.Text
}
