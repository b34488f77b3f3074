package lint

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
)

// impure are template functions that give another result each time.
var impure = []string{
	"now", "ago", "uuidv4", "shuffle", "htpasswd", "bcrypt", "encryptAES",
	"randAlphaNum", "randAlpha", "randAscii", "randNumeric", "randBytes", "randInt",
	"genPrivateKey", "genCA", "genCAWithKey", "genSelfSignedCert", "genSelfSignedCertWithKey", "genSignedCert", "genSignedCertWithKey",
}

// checkValueTemplates looks through the templates of values in fleet.yaml.
func (c *check) checkValueTemplates() {
	c.valuesOf(c.file.Spec.Helm)
	for i := range c.file.Spec.Targets {
		place, _ := c.file.Target(i)
		c.valuesOf(c.file.Spec.Targets[i].Helm, place...)
	}
}

func (c *check) valuesOf(h *fleet.HelmOptions, place ...any) {
	if h == nil || h.DisablePreProcess {
		return
	}
	for _, key := range []string{"values", "templateValues"} {
		c.file.Texts(func(text fleetyaml.Text) {
			for _, use := range functionsIn(text.Value) {
				if slices.Contains(impure, use.name) {
					c.found = append(c.found, finding.Finding{
						Path: c.file.Path, Line: text.Line + use.line, Column: text.Column, Severity: finding.Warning, Rule: finding.RuleImpure,
						Message: fmt.Sprintf("template function %q gives another result each time, and each result is a new deployment", use.name),
					})
				}
			}
		}, append(slices.Clone(place), "helm", key)...)
	}
}

// A functionUse is a name in a template that may be a function, in a line after the
// first.
type functionUse struct {
	name string
	line int
}

var (
	action = regexp.MustCompile(`\$\{[^}]*\}`)
	quoted = regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`[^`]*`")
	word   = regexp.MustCompile(`(^|[^.\w$])([A-Za-z]\w*)`)
)

// functionsIn are the words between ${ and } that stand neither in quotes nor
// behind a dot. Since a template may reach over several texts it is not parsed.
func functionsIn(text string) []functionUse {
	var list []functionUse
	for _, at := range action.FindAllStringIndex(text, -1) {
		line := strings.Count(text[:at[0]], "\n")
		for _, m := range word.FindAllStringSubmatch(quoted.ReplaceAllString(text[at[0]:at[1]], `""`), -1) {
			if u := (functionUse{m[2], line}); !slices.Contains(list, u) {
				list = append(list, u)
			}
		}
	}
	return list
}

// templates looks through the templates of charts in the bundle that stand in
// the repository.
func (c *check) templates() {
	if c.result.Bundle == nil {
		return
	}
	resources := c.result.Bundle.Spec.Resources
	nested := map[string]bool{}
	for _, r := range resources {
		if dir, base := path.Split(r.Name); dir != "" && slices.Contains(fleetyaml.Names, base) {
			nested[dir] = true
		}
	}
	for _, r := range resources {
		if !isTemplate(r.Name) || isBelow(nested, r.Name) {
			continue
		}
		if data, err := content.ResourceBytes(r); err == nil {
			c.template(r.Name, string(data))
		}
	}
}

func isTemplate(name string) bool {
	return !strings.HasPrefix(name, ".chart/") && (strings.HasPrefix(name, "templates/") || strings.Contains(name, "/templates/"))
}

func isBelow(dirs map[string]bool, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if dirs[dir+"/"] {
			return true
		}
	}
	return false
}

// template looks for functions in one file. It leaves what cannot be parsed to the
// renderer.
func (c *check) template(name, text string) {
	all, ok := parseTemplate(name, text)
	if !ok {
		return
	}
	seen := map[parse.Pos]bool{}
	for _, t := range all {
		eachNode(t.Root, false, func(n parse.Node, _ bool) {
			if id, ok := n.(*parse.IdentifierNode); ok && !seen[id.Pos] {
				seen[id.Pos] = true
				c.function(name, text, id)
			}
		})
	}
}

func (c *check) function(name, text string, n *parse.IdentifierNode) {
	before := text[:min(int(n.Pos), len(text))]
	f := finding.Finding{
		Path: path.Join(c.result.Dir.Path, name), Line: 1 + strings.Count(before, "\n"), Column: len(before) - strings.LastIndex(before, "\n"),
		Severity: finding.Warning, Rule: finding.RuleImpure,
	}
	switch {
	case slices.Contains(impure, n.Ident):
		f.Message = fmt.Sprintf("template function %q gives another result whenever the chart is rendered", n.Ident)
	case n.Ident == "getHostByName" && !c.withoutDNS():
		f.Message = `template function "getHostByName" asks the DNS of each cluster; it is not asked here`
		f.Hint = "helm.disableDNS: true switches it off"
	default:
		return
	}
	c.found = append(c.found, f)
}

func (c *check) withoutDNS() bool {
	h := c.file.Spec.Helm
	return h != nil && h.DisableDNS
}
