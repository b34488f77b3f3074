package values

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// maxLocated is how large values may be in which the key of a template that fails
// is looked for, in bytes of YAML: it is done for each cluster.
const maxLocated = 64 << 10

// A RenderError is why a template of values cannot be rendered for a cluster.
type RenderError struct {
	Keys       []any  // that lead to the template below helm, as far as they are known
	Expression string // the piece of the template that fails, as far as it is known
	Text       string // what is wrong with it
	Hint       string // what would help, or empty
}

// Error returns "helm.values.region: there is no .ClusterLabel; did you mean
// .ClusterLabels?".
func (e *RenderError) Error() string {
	text := "helm." + position.Path(e.Keys) + ": " + e.Text
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// facts are the names that templates know.
var facts = []string{"ClusterAnnotations", "ClusterLabels", "ClusterName", "ClusterNamespace", "ClusterValues"}

// HintFact returns what helps where a template names what does not exist: the fact that was
// probably meant, or those that there are.
func HintFact(name string) string {
	for _, fact := range facts {
		if strings.EqualFold(fact, name) {
			return "did you mean ." + fact + "?"
		}
	}
	if near := spelling.Nearest(name, facts); near != "" {
		return "did you mean ." + near + "?"
	}
	return "templates know ." + strings.Join(facts, ", .")
}

// IsFact reports whether a name is one that templates know, or nearly.
func IsFact(name string) bool { return strings.HasPrefix(HintFact(name), "did you mean") }

var (
	executing = regexp.MustCompile(`(?s)^template: .*?:(\d+):\d+: executing "[^"]*" at <(.*?)>: (.*)$`)
	noEntry   = regexp.MustCompile(`^map has no entry for key "([^"]*)"$`)
)

// renderError is why the template of that name and text could not be executed.
func renderError(name, text string, err error) error {
	if !errors.As(err, new(template.ExecError)) || errors.Is(err, ErrLimit) {
		return err
	}
	m := executing.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	e := &RenderError{Keys: keysOf(name, text, m[1]), Expression: m[2], Text: m[2] + ": " + strings.Join(strings.Fields(m[3]), " ")}
	missing := noEntry.FindStringSubmatch(m[3])
	switch {
	case missing == nil:
	case !slices.Contains(facts, missing[1]) && isTop(m[2], missing[1]):
		e.Text, e.Hint = "there is no ."+missing[1], HintFact(missing[1])
	default:
		e.Text = "no value for " + m[2]
	}
	return e
}

// isTop reports whether an expression asks the data of the template itself for a
// key.
func isTop(expression, key string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(expression, "$"), "."+key)
	return ok && (rest == "" || rest[0] == '.')
}

// keysOf are the keys that lead to a line of the template of that name and text.
func keysOf(name, text, line string) []any {
	if key, ok := strings.CutPrefix(name, templateValues); ok {
		return []any{strings.TrimSuffix(templateValues, "."), key}
	}
	keys := []any{name}
	if n, err := strconv.Atoi(line); err == nil && len(text) <= maxLocated {
		keys = append(keys, position.KeysAt(position.Root([]byte(text)), n)...)
	}
	return keys
}
