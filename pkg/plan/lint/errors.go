package lint

import (
	"errors"
	"regexp"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

var forCluster = regexp.MustCompile(`^render values for cluster "[^"]*" in namespace "[^"]*": `)

// ValuesError returns what to say of an error of values.Render for a cluster to which
// customizations apply: at the template that it is about, without the cluster, so that it
// reads the same for all clusters.
func (o *Origins) ValuesError(err error, customizations []int) finding.Finding {
	f := finding.Finding{Path: o.file.Path}
	f.Line, f.Column = o.file.Position("helm", "values")
	text, hint := forCluster.ReplaceAllString(strings.Join(strings.Fields(err.Error()), " "), ""), ""
	var failed *values.RenderError
	if errors.As(err, &failed) {
		if at, ok := o.template(customizations, failed.Keys, failed.Expression); ok {
			f = at
		}
		plain := *failed
		plain.Hint = ""
		text, hint = plain.Error(), failed.Hint
	}
	f.Severity, f.Rule, f.Message, f.Hint = finding.Error, finding.RuleRender, "render: "+text, hint
	return f
}
