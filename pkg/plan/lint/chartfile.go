package lint

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/printable"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// maxRepeated is how many keys of one file are reported that stand twice.
const maxRepeated = 10

// The keys that Helm reads in Chart.yaml, and in an entry of its dependencies.
var (
	chartKeys = []string{
		"apiVersion", "name", "version", "kubeVersion", "description", "type", "keywords", "home", "sources", "dependencies",
		"maintainers", "icon", "appVersion", "deprecated", "annotations", "condition", "tags", "engine",
	}
	dependencyKeys = []string{"name", "version", "repository", "condition", "tags", "import-values", "alias", "enabled"}
)

// chartFiles looks through Chart.yaml and values.yaml of a chart in the repository.
func (c *check) chartFiles(dir string) {
	if root := c.yamlOf(path.Join(dir, "Chart.yaml")); root != nil {
		c.repeated(path.Join(dir, "Chart.yaml"), root)
		c.misspeltKeys(path.Join(dir, "Chart.yaml"), root, chartKeys)
		if list := position.Value(root, "dependencies"); list != nil && list.Kind == yaml.SequenceNode {
			for _, entry := range list.Content {
				c.misspeltKeys(path.Join(dir, "Chart.yaml"), entry, dependencyKeys)
			}
		}
	}
	c.repeated(path.Join(dir, "values.yaml"), c.yamlOf(path.Join(dir, "values.yaml")))
}

// yamlOf is the value of a file; nil where it is not there or cannot be read.
func (c *check) yamlOf(name string) *yaml.Node {
	data, err := readFile(c.tree, name)
	if err != nil || len(data) > fleetyaml.MaxBytes {
		return nil
	}
	return position.Root(data)
}

// misspeltKeys warns of keys that Helm ignores and that are written nearly like one that
// it reads. Helm does not mind the case of keys.
func (c *check) misspeltKeys(file string, n *yaml.Node, known []string) {
	for _, name := range position.Names(n) {
		near := spelling.Nearest(position.ShortName(name.Value), known)
		if near == "" || slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name.Value) }) {
			continue
		}
		c.found = append(c.found, finding.Finding{
			Path: file, Line: name.Line, Column: name.Column, Severity: finding.Warning, Rule: finding.RuleUnknownKey,
			Message: fmt.Sprintf("unknown key %q is ignored", printable.Line(position.ShortName(name.Value))), Hint: fmt.Sprintf("did you mean %q?", near),
		})
	}
}

// repeated warns of keys of a file that stand twice in a mapping.
func (c *check) repeated(file string, root *yaml.Node) {
	for _, d := range position.Duplicates(root, maxRepeated) {
		c.found = append(c.found, finding.Finding{
			Path: file, Line: d.Line, Column: d.Column, Severity: finding.Warning, Rule: finding.RuleDuplicateKey,
			Message: fmt.Sprintf("key %q stands here again (first in line %d); the last one counts", printable.Line(position.ShortName(d.Key)), d.First),
		})
	}
}
