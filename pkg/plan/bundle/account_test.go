package bundle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// What the repository says about accounts counts for whatever a fleet.yaml says
// and wherever it does; a different one has its place in the findings.
func TestAccounts(t *testing.T) {
	custom := "targetCustomizations:\n- name: all\n  clusterSelector: {}\n  serviceAccount: ACCOUNT\n"
	ignored := func(line, column int, name string) string {
		return fmt.Sprintf(`d/fleet.yaml:%d:%d: warning: serviceAccount %q is ignored; the repository is deployed as "team-a" [overridden]`, line, column, name)
	}
	own := func(line, column int, name string) string {
		return fmt.Sprintf(`d/fleet.yaml:%d:%d: error: serviceAccount %q is Fleet's own; no bundle may act as it [reserved]`, line, column, name)
	}
	cases := map[string]struct {
		why    string
		forced string
		text   string
		found  []string
		acts   string // as whom it is deployed; empty where the bundle is refused
	}{
		"None":       {why: "the repository's", forced: "team-a", text: "{}", acts: "team-a"},
		"Same":       {why: "the same is no other", forced: "team-a", text: "serviceAccount: team-a\n", acts: "team-a"},
		"Root":       {why: "over the bundle's own", forced: "team-a", text: "serviceAccount: team-b\n", found: []string{ignored(1, 17, "team-b")}, acts: "team-a"},
		"Custom":     {why: "and over that of a customization", forced: "team-a", text: replaced(custom, "team-b"), found: []string{ignored(4, 19, "team-b")}, acts: "team-a"},
		"CustomOwn":  {why: "which would be the agent's", forced: "team-a", text: replaced(custom, "fleet-agent"), found: []string{ignored(4, 19, "fleet-agent")}, acts: "team-a"},
		"Targets":    {why: "targets are customizations too", forced: "team-a", text: "targets:\n- clusterSelector: {}\n  serviceAccount: fleet-agent\n", found: []string{ignored(3, 19, "fleet-agent")}, acts: "team-a"},
		"Override":   {why: "targets that are overridden take no account along", forced: "team-a", text: replaced(custom, "team-b") + "overrideTargets:\n- clusterSelector: {}\n", found: []string{ignored(4, 19, "team-b")}, acts: "team-a"},
		"Free":       {why: "without one of the repository the bundle chooses", text: "serviceAccount: team-b\n", acts: "team-b"},
		"FreeCustom": {why: "for some clusters, too", text: "serviceAccount: team-b\n" + replaced(custom, "team-c"), acts: "team-c"},
		"Own":        {why: "but not the agent's", text: "serviceAccount: fleet-agent\n", found: []string{own(1, 17, "fleet-agent")}},
		"OwnCustom":  {why: "or another of Fleet's", text: replaced(custom, "fleet-controller"), found: []string{own(4, 19, "fleet-controller")}},
		"Impossible": {why: "no account has such a name", text: "serviceAccount: Bad_SA\n", found: []string{
			`d/fleet.yaml:1:17: error: serviceAccount "Bad_SA" is not possible: want lower case letters, digits, - and ., a letter or digit first and last and beside each . [value]`}},
		"ImpossibleAndForced": {why: "nothing comes of it", forced: "team-a", text: "serviceAccount: Bad_SA\n", found: []string{ignored(1, 17, "Bad_SA")}, acts: "team-a"},
	}
	everywhere := fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Assemble(files(map[string]string{"d/fleet.yaml": c.text, "d/cm.yaml": configMap}), Dir{Path: "d"},
				Options{Repo: "repo", ServiceAccount: c.forced, Targets: []fleet.BundleTarget{everywhere}})
			var found []string
			for _, f := range r.Findings {
				found = append(found, f.String())
			}
			if diff := cmp.Diff(c.found, found); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if got := actsAs(t, r.Bundle); got != c.acts {
				t.Errorf("%s: it is deployed as %q", c.why, got)
			}
			if finding.HasErrors(r.Findings) != (c.acts == "") {
				t.Errorf("%s: %v", c.why, r.Findings)
			}
		})
	}
}

func replaced(text, account string) string {
	return strings.Replace(text, "ACCOUNT", account, 1)
}

// actsAs is the account in the options of a deployment to some cluster.
func actsAs(t *testing.T, b *fleet.Bundle) string {
	t.Helper()
	if b == nil {
		return ""
	}
	compiled, err := deployment.Compile(b, "s-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := target.Cluster{Namespace: b.Namespace, Name: "c1"}
	place := &deployment.Place{Cluster: c}
	place.Seal()
	version, err := compiled.Render(compiled.Match(&c), place)
	if err != nil {
		t.Fatal(err)
	}
	return version.Options.ServiceAccount
}
