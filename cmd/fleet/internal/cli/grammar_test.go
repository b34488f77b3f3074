package cli

import (
	"fmt"
	"strings"
	"testing"
)

// Every command reads objects in the same way.
func TestGrammar(t *testing.T) {
	acts := GrammarOf("repos", "bundles", "clusters")
	acts.Many = true
	one := GrammarOf("repos", "bundles", "clusters")
	cases := map[string]struct {
		why     string
		grammar Grammar
		args    string
		want    string // references, then "|" and the rest, or an error
	}{
		"Slash":          {"KIND/NAME", acts, "repo/a bundle/b", "repo/a bundle/b"},
		"Words":          {"KIND NAME", acts, "repo a", "repo/a"},
		"Short":          {"kubectl's names of kinds", acts, "gitrepos a gr/b bun c fcl.fleet.cattle.io/d", "repo/a repo/b bundle/c cluster/d"},
		"ManyNames":      {"several names after one kind, as kubectl has it", acts, "bundle a b cluster c", "bundle/a bundle/b cluster/c"},
		"Rest":           {"a hash after the object", one, "repo a 5a8c", "repo/a | 5a8c"},
		"RestSlash":      {"a hash after the object", one, "repo/a 5a8c", "repo/a | 5a8c"},
		"KindAlone":      {"a kind without a name is none", one, "repo", "| repo"},
		"NoKind":         {"near kinds are named", acts, "bundel/x", `error: no kind "bundel"; did you mean "bundle"?`},
		"Elsewhere":      {"kinds of other commands", acts, "group x", `error: "group x": this works with repos, bundles, clusters`},
		"NoName":         {"a name is needed", acts, "repo/", `error: "repo/": want KIND/NAME or KIND NAME, for example repo/NAME; KIND is repo, bundle, cluster`},
		"TwoSlashes":     {"a name has no slash", acts, "repo/a/b", `error: "repo/a/b": want KIND/NAME or KIND NAME, for example repo/NAME; KIND is repo, bundle, cluster`},
		"Bare":           {"the position says the kind", BundleGrammar, "x y", "bundle/x cluster/y"},
		"BareSlash":      {"KIND/NAME where NAME is enough", BundleGrammar, "bundle/x cluster/y", "bundle/x cluster/y"},
		"BareWords":      {"KIND NAME where NAME is enough", BundleGrammar, "bundle x cluster y", "bundle/x cluster/y"},
		"BareMixed":      {"each argument for itself", BundleGrammar, "x cluster/y", "bundle/x cluster/y"},
		"BareLast":       {"the last word is no KIND: there is nothing after it", BundleGrammar, "repo", "bundle/repo"},
		"BareOtherKind":  {"how a bundle is named that is called as a kind", BundleGrammar, "repo c1", `error: "repo c1": this works with bundles, clusters; a bundle that is called "repo" is bundle/repo`},
		"Qualified":      {"WORKSPACE/NAME where that is taken", ClustersGrammar, "fleet-default/c1 cluster/c2 cluster fleet-local/local", "cluster/fleet-default/c1 cluster/c2 cluster/fleet-local/local"},
		"NotQualified":   {"elsewhere it is a kind that there is not", BundleGrammar, "fleet-default/x", `error: no kind "fleet-default"; there are repos, helmops, bundles, clusters, groups, deployments, imagescans, tokens`},
		"TooManyForBare": {"what is left over is the command's to refuse", BundleGrammar, "x y z", "bundle/x cluster/y | z"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			refs, rest, err := c.grammar.Parse(strings.Fields(c.args))
			var words []string
			for _, r := range refs {
				words = append(words, r.String())
			}
			if len(rest) > 0 {
				words = append(words, append([]string{"|"}, rest...)...)
			}
			got := strings.Join(words, " ")
			if err != nil {
				got = fmt.Sprintf("error: %v", err)
			}
			if got != c.want {
				t.Errorf("%s:\nwant %s\ngot  %s", c.why, c.want, got)
			}
		})
	}
}
