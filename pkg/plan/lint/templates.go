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

// values looks through the templates of values in fleet.yaml.
func (c *check) values() {
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

// A use is a name in a template that may be a function, in a line after the
// first.
type use struct {
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
func functionsIn(text string) []use {
	var list []use
	for _, at := range action.FindAllStringIndex(text, -1) {
		line := strings.Count(text[:at[0]], "\n")
		for _, m := range word.FindAllStringSubmatch(quoted.ReplaceAllString(text[at[0]:at[1]], `""`), -1) {
			if u := (use{m[2], line}); !slices.Contains(list, u) {
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
		if !isTemplate(r.Name) || below(nested, r.Name) {
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

func below(dirs map[string]bool, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if dirs[dir+"/"] {
			return true
		}
	}
	return false
}

// template looks for functions in one file. What cannot be parsed is left to
// whoever renders it.
func (c *check) template(name, text string) {
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	all := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", all); err != nil {
		return
	}
	all[name] = tree
	seen := map[parse.Pos]bool{}
	for _, t := range all {
		walk(t.Root, func(n *parse.IdentifierNode) {
			if !seen[n.Pos] {
				seen[n.Pos] = true
				c.function(name, text, n)
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

// walk visits all names of functions in a template.
func walk(n parse.Node, visit func(*parse.IdentifierNode)) {
	switch t := n.(type) {
	case *parse.IdentifierNode:
		visit(t)
	case *parse.ListNode:
		if t == nil {
			return
		}
		for _, e := range t.Nodes {
			walk(e, visit)
		}
	case *parse.PipeNode:
		if t == nil {
			return
		}
		for _, e := range t.Cmds {
			walk(e, visit)
		}
	case *parse.CommandNode:
		for _, e := range t.Args {
			walk(e, visit)
		}
	case *parse.ChainNode:
		walk(t.Node, visit)
	case *parse.ActionNode:
		walk(t.Pipe, visit)
	case *parse.TemplateNode:
		walk(t.Pipe, visit)
	case *parse.IfNode:
		branch(&t.BranchNode, visit)
	case *parse.RangeNode:
		branch(&t.BranchNode, visit)
	case *parse.WithNode:
		branch(&t.BranchNode, visit)
	}
}

func branch(b *parse.BranchNode, visit func(*parse.IdentifierNode)) {
	walk(b.Pipe, visit)
	walk(b.List, visit)
	walk(b.ElseList, visit)
}
