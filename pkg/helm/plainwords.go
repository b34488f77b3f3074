package helm

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// These match errors of the libraries about mistakes that have plainer words.
var (
	ofForm      = regexp.MustCompile(`json: cannot unmarshal (\w+) into Go (?:struct field \w+\.(\S+)|value) of type (\S+)`)
	ofOperation = regexp.MustCompile(`^Unexpected kind: (\S+)$`)
	ofNoTarget  = regexp.MustCompile(`^must specify a target for JSON patch`)
	ofLiteral   = regexp.MustCompile(`invalid literal source (.*), expected key=value`)
	ofNoBase    = regexp.MustCompile(`unable to find one of .* in directory '/?([^']*)'$`)
	ofTwice     = regexp.MustCompile(`may not add resource with an already registered id: ([^.\s]+)\.\S*/([^.\s]+)\.\S*'`)
	ofNoField   = regexp.MustCompile(`^can't evaluate field (\S+) in type interface \{\}$`)
)

// formText returns the message for a value of the wrong form, and the key that leads to
// it, which is empty for a whole file. ok is false for another error.
func formText(text string) (said, key string, ok bool) {
	m := ofForm.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	got := map[string]string{"array": "a list", "object": "a mapping", "string": "a text", "bool": "true or false"}[m[1]]
	if got == "" {
		got = "a number"
	}
	want, subject := wantedForm(m[3]), "the file"
	if m[2] != "" {
		key = m[2][strings.LastIndex(m[2], ".")+1:]
		subject = entryOf(key, m[3]) + printable.Line(key)
	}
	said = fmt.Sprintf("%s must be %s, not %s", subject, want, got)
	if want == "a text" && (got == "a number" || got == "true or false") {
		said += "; put it in quotes"
	}
	return said, key, true
}

// wantedForm is a type of Go in words.
func wantedForm(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case goType == "string":
		return "a text"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "a whole number"
	}
	return "a mapping"
}

// entryOf returns which part of a top-level field of a kustomization must have a Go
// type, if it is not the field itself.
func entryOf(key, goType string) string {
	t := reflect.TypeFor[types.Kustomization]()
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != key {
			continue
		}
		switch {
		case f.Type.Kind() == reflect.Slice && !strings.HasPrefix(goType, "[]"):
			return "an entry of "
		case f.Type.Kind() == reflect.Map && !strings.HasPrefix(goType, "map["):
			return "a value of "
		}
	}
	return ""
}

// explainKustomize puts an error of kustomize about the kustomization in a file into plain words.
// The place that p has stays where the error says none.
func (l locator) explainKustomize(p Place, text string) Place {
	if said, key, ok := formText(text); ok {
		p.Text = said
		p.Line, p.Column = l.findKey(p.File, key)
	} else if m := ofOperation.FindStringSubmatch(text); m != nil {
		p.Text = fmt.Sprintf("%q is no op of a JSON patch: want add, remove, replace, move, copy or test", printable.Line(m[1]))
		p.Line, p.Column = l.findWord(p.File, m[1])
	} else if ofNoTarget.MatchString(text) {
		p.Text = "a JSON patch needs a target: it does not say which resource it changes"
		p.Line, p.Column = l.untargeted(p.File)
	} else if m := ofLiteral.FindStringSubmatch(text); m != nil {
		p.Text = "a literal must be KEY=VALUE"
		p.Line, p.Column = l.findScalar(p.File, m[1])
	} else if m := ofNoBase.FindStringSubmatch(text); m != nil {
		p.Text = fmt.Sprintf("%q is a directory without a kustomization.yaml: add one, or name the files in it", printable.Line(m[1]))
	} else if m := ofTwice.FindStringSubmatch(text); m != nil {
		p.Text = printable.Line(m[1]+" "+m[2]) + " is in the kustomization twice"
	}
	return p
}

// untargeted is the place of the first patch of a kustomization that is a list of
// operations and has no target.
func (l locator) untargeted(file string) (line, column int) {
	list := position.Value(position.Root(l.bytes(file)), "patches")
	if list == nil {
		return 0, 0
	}
	for _, entry := range list.Content {
		text, _ := position.Text(entry, "patch")
		if position.Value(entry, "target") == nil && strings.HasPrefix(strings.TrimSpace(text), "-") {
			return entry.Line, entry.Column
		}
	}
	return 0, 0
}

// findScalar is where a file first has a value.
func (l locator) findScalar(file, value string) (line, column int) {
	position.Scalars(position.Root(l.bytes(file)), func(n *yaml.Node, _ []any) {
		if n.Value == value && line == 0 {
			line, column = n.Line, n.Column
		}
	})
	return line, column
}

// rootNames lists the names at the root of Helm's templates, and the fields of Chart
// and Release.
var rootNames = map[string][]string{
	"": {"Values", "Release", "Chart", "Capabilities", "Files", "Template", "Subcharts"},
	"Chart": {
		"Name", "Version", "AppVersion", "Description", "Keywords", "Home", "Sources", "Maintainers", "Icon", "APIVersion", "Type", "KubeVersion", "Annotations",
	},
	"Release": {"Name", "Namespace", "Service", "IsInstall", "IsUpgrade", "Revision"},
}

// meantBuiltin returns a hint for a template that uses a name that Helm does not have;
// empty where no name is similar.
func meantBuiltin(parent, name string) string {
	near := spelling.Nearest(name, rootNames[parent])
	for _, known := range rootNames[parent] {
		if strings.EqualFold(known, name) {
			near = known
		}
	}
	switch {
	case near == "":
		return ""
	case parent != "":
		near = parent + "." + near
	}
	return fmt.Sprintf("; did you mean .%s?", near)
}

// noField returns the message for a template that reads a field that does not exist. ok
// is false for another error.
func noField(expression, text string) (said string, ok bool) {
	m := ofNoField.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	before, _, found := strings.Cut(expression+".", "."+m[1]+".")
	if !found || before == "" {
		return "", false
	}
	before = strings.TrimPrefix(before, "$")
	if meant := meantBuiltin(strings.TrimPrefix(before, "."), m[1]); meant != "" {
		return fmt.Sprintf("there is no %s in %s%s", printable.Line(m[1]), printable.Line(before), meant), true
	}
	return fmt.Sprintf("%s is no mapping, so there is no %s in it", printable.Line(before), printable.Line(m[1])), true
}
