package lint

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
)

// Origins are the places where the values of one bundle stand: its fleet.yaml, and
// values files that are in the repository.
type Origins struct {
	tree fs.FS
	dir  string
	file *fleetyaml.File
	read map[string]*yaml.Node // files, by path
}

// NewOrigins returns the origins of the values of the bundle in a directory of tree, whose
// fleet.yaml is file.
func NewOrigins(tree fs.FS, dir string, file *fleetyaml.File) *Origins {
	return &Origins{tree: tree, dir: dir, file: file, read: map[string]*yaml.Node{}}
}

// An origin is one place that values come from.
type origin struct {
	path  string
	above []any // keys in the file that lead to the values
	whole bool  // each value below is one text
}

// originsOf returns the origins for a cluster, the one that applies first. customizations are the
// indexes of those that apply to the cluster.
func (o *Origins) originsOf(customizations []int) []origin {
	var list []origin
	for _, i := range slices.Backward(customizations) {
		if place, _ := o.file.Target(i); place != nil {
			list = append(list, o.options(o.file.Spec.Targets[i].Helm, place)...)
		}
	}
	h := o.file.Spec.Helm
	list = append(list, o.options(h, nil)...)
	chart := o.dir
	if h != nil && h.Repo == "" {
		chart = path.Join(o.dir, h.Chart)
	}
	return append(list, origin{path: path.Join(chart, "values.yaml")})
}

// options are the origins in the Helm options at a place in fleet.yaml.
func (o *Origins) options(h *fleet.HelmOptions, place []any) []origin {
	if h == nil {
		return nil
	}
	list := []origin{{path: o.file.Path, above: slices.Concat(place, []any{"helm", "templateValues"}), whole: true}}
	if place != nil || h.Chart != "" || h.Repo != "" {
		for _, name := range slices.Backward(h.ValuesFiles) {
			list = append(list, origin{path: path.Join(o.dir, name)})
		}
	}
	return append(list, origin{path: o.file.Path, above: slices.Concat(place, []any{"helm", "values"})})
}

// rootOf is the value of a file; nil where it cannot be read.
func (o *Origins) rootOf(name string) *yaml.Node {
	root, known := o.read[name]
	if !known {
		if data, err := readFile(o.tree, name); err == nil && len(data) <= fleetyaml.MaxBytes {
			root = position.Root(data)
		}
		o.read[name] = root
	}
	return root
}

// Place returns the file, line and column of the value that keys lead to for a cluster to
// which customizations apply, or of the key itself with asKey. Where no file has it, it is
// the place of the innermost value around it; ok is false where there is none.
func (o *Origins) Place(asKey bool, customizations []int, keys ...any) (f finding.Finding, ok bool) {
	origins := o.originsOf(customizations)
	for ; ; keys, asKey = keys[:len(keys)-1], false {
		for _, in := range origins {
			below := keys
			if in.whole {
				below = keys[:min(1, len(keys))]
			}
			if line, column, ok := position.Find(o.rootOf(in.path), asKey, slices.Concat(in.above, below)...); ok {
				return finding.Finding{Path: in.path, Line: line, Column: column}, true
			}
		}
		if len(keys) == 0 {
			return f, false
		}
	}
}

// template is the place of the template that keys of helm lead to: values or
// templateValues, and keys below. In a text of several lines it is the line that
// has the expression.
func (o *Origins) template(customizations []int, keys []any, expression string) (f finding.Finding, ok bool) {
	if len(keys) < 2 {
		return f, false
	}
	f, ok = o.Place(false, customizations, keys[1:]...)
	position.Scalars(o.rootOf(f.Path), func(n *yaml.Node, _ []any) {
		if at := indexOfExpression(n.Value, expression); at >= 0 && n.Line == f.Line && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			f.Line += 1 + strings.Count(n.Value[:at], "\n")
		}
	})
	return f, ok
}

// indexOfExpression is where a template stands in a text that has an expression as a whole, or
// -1.
func indexOfExpression(text, expression string) int {
	if !strings.Contains(text, "${") {
		return -1
	}
	for from := 0; ; {
		at := strings.Index(text[from:], expression)
		if at < 0 {
			return -1
		}
		at += from
		if end := at + len(expression); end == len(text) || !wordByte(text[end]) {
			return at
		}
		from = at + 1
	}
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

var unexpected = regexp.MustCompile(`^additional propert(?:y|ies) '([^']*)'`)

// Violation returns what to say of a value that the schema of a chart does not allow, for a
// cluster to which customizations apply. pointer leads to the value, text is what is wrong
// with it; ok is false where its place is not known.
func (o *Origins) Violation(customizations []int, chart, pointer, text string) (f finding.Finding, ok bool) {
	keys := position.Pointer(pointer)
	what := "value " + position.Path(keys) + " does"
	if len(keys) == 0 {
		what = "the values do"
	}
	asKey := false
	if m := unexpected.FindStringSubmatch(text); m != nil {
		keys, asKey = append(keys, m[1]), true
	}
	f, ok = o.Place(asKey, customizations, keys...)
	f.Severity, f.Rule = finding.Error, finding.RuleRender
	f.Message = "render: " + what + " not fit the schema of chart " + chart + ": " + text
	return f, ok
}
