package bundle

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/position"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// templatesDir is the directory of a chart's templates.
const templatesDir = "templates"

// misnamed warns of kustomizations and directories of templates whose names are one slip
// away from those that are read.
func (k *checks) misnamed() {
	warn := func(name, meant string) {
		k.a.add(finding.Finding{
			Path: path.Join(k.a.dir.Path, name), Severity: finding.Warning, Rule: finding.RuleNotRead,
			Message: fmt.Sprintf("%s is not read as %s", path.Base(name), meant), Hint: fmt.Sprintf("did you mean %q?", meant),
		})
	}
	for _, f := range k.a.files {
		if meant := k.kustomizationMeant(f); meant != "" && !k.nested(path.Dir(f.name)) {
			warn(f.name, meant)
		}
	}
	charts := []string{"."}
	for _, h := range k.a.helms() {
		if h.options.Repo == "" && h.options.Chart != "" {
			charts = append(charts, path.Clean(h.options.Chart))
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(k.dirs)) {
		parent := path.Dir(dir)
		if slices.Contains(charts, parent) && k.has(parent, []string{chartFile}) && !k.dirs[path.Join(parent, templatesDir)] &&
			spelling.Slip(path.Base(dir), []string{templatesDir}) != "" {
			warn(dir, templatesDir)
		}
	}
}

// kustomizationMeant is the name that a file must have to be read as the kustomization
// that it is; empty where it is none, or where the directory has one.
func (k *checks) kustomizationMeant(f file) string {
	meant := spelling.Slip(path.Base(f.name), kustomizations)
	if meant == "" || k.has(path.Dir(f.name), kustomizations) {
		return ""
	}
	data, err := f.bytes(k.a.o.Limits.FileBytes)
	if err != nil || huge(data) || bytes.Contains(data, []byte("{{")) {
		return ""
	}
	root := position.Root(data)
	kind, hasKind := position.Text(root, "kind")
	version, _ := position.Text(root, "apiVersion")
	if root == nil || hasKind && (kind != "Kustomization" || !strings.HasPrefix(version, "kustomize.config.k8s.io/")) {
		return "" // an object, such as a Kustomization of Flux
	}
	return meant
}
