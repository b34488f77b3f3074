package bundle

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/spelling"
)

// ofManifest are the keys at the top of a Kubernetes object.
var ofManifest = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^apiVersion:\s`), regexp.MustCompile(`(?m)^kind:\s`), regexp.MustCompile(`(?m)^metadata:\s`),
}

// looksLikeManifest reports whether a file holds Kubernetes objects, or a template of
// some.
func (c *checks) looksLikeManifest(f file) bool {
	data, err := f.bytes(c.a.o.Limits.FileBytes)
	return err == nil && !isTooLargeToParse(data) && !slices.ContainsFunc(ofManifest, func(key *regexp.Regexp) bool { return !key.Match(data) })
}

// warnBesideTemplates warns of manifests in the directory of a chart: Helm deploys those in
// templates and crds only. A chart that reads files by itself may use them.
func (c *checks) warnBesideTemplates() {
	charts := slices.DeleteFunc(c.chartDirs(), func(dir string) bool { return !c.hasFile(dir, []string{chartFile}) || c.readsFiles(dir) })
	for _, f := range c.a.files {
		base := path.Base(f.name)
		known := slices.Contains(fleetyaml.Names, strings.ToLower(base)) || c.kustomizationMeant(f) != "" || slices.Contains(kustomizations, base)
		if known || !isManifest(f.name) || !slices.Contains(charts, path.Dir(f.name)) || c.isValuesFile(f.name) {
			continue
		}
		if c.looksLikeManifest(f) {
			c.notRead(f, fmt.Sprintf("%s is not deployed: of a chart Helm renders what is in %s", base, templatesDir),
				"move it to "+path.Join(path.Dir(f.name), templatesDir))
		}
	}
}

// readsFiles reports whether a template of the chart in a directory reads files of the
// chart.
func (c *checks) readsFiles(dir string) bool {
	return slices.ContainsFunc(c.a.files, func(f file) bool {
		if !strings.HasPrefix(f.name, path.Join(dir, templatesDir)+"/") {
			return false
		}
		data, err := f.bytes(c.a.o.Limits.FileBytes)
		return err != nil || bytes.Contains(data, []byte(".Files"))
	})
}

// misspeltEnding warns of a manifest whose name does not end with .yaml, .yml or .json,
// but nearly: nothing deploys it.
func (m manifestChecks) misspeltEnding(f file) {
	ending := path.Ext(f.name)
	meant := spelling.SingleTypo(ending, []string{".yaml", ".yml"})
	if meant == "" || m.nested(path.Dir(f.name)) || !m.looksLikeManifest(f) {
		return
	}
	m.notRead(f, fmt.Sprintf("%s is not deployed: its name does not end with .yaml, .yml or .json", path.Base(f.name)),
		fmt.Sprintf("did you mean %q?", strings.TrimSuffix(path.Base(f.name), ending)+meant))
}

func (c *checks) notRead(f file, message, hint string) {
	c.a.addFinding(finding.Finding{Path: path.Join(c.a.dir.Path, f.name), Severity: finding.Warning, Rule: finding.RuleNotRead, Message: message, Hint: hint})
}
