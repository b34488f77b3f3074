package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// recipe is a YAML block of a page that says in its first line what follows
// from it.
var recipe = regexp.MustCompile("(?s)\n```yaml ([a-z][^\n]*)\n(.*?)```")

// The recipes of docs/targeting.md select the clusters that they name, with the
// customizations that they name.
func TestTargetingRecipes(t *testing.T) {
	text := page(t, "targeting.md")
	var clusters []*target.Cluster
	tried := 0
	for _, block := range recipe.FindAllStringSubmatch(text, -1) {
		if block[1] == "fleet" {
			clusters = sampleFleet(t, block[2])
			continue
		}
		tried++
		t.Run(fmt.Sprintf("Recipe%d", tried), func(t *testing.T) {
			said := map[string]string{}
			for word := range strings.FieldsSeq(block[1]) {
				key, value, _ := strings.Cut(word, "=")
				said[key] = value
			}
			b := bundleOf(t, block[2])
			matcher, err := target.Compile(&b.Spec)
			if err != nil {
				t.Fatal(err)
			}
			var deployed, customized []string
			for _, c := range clusters {
				verdict := matcher.Match(c)
				if !verdict.Deploy {
					continue
				}
				deployed = append(deployed, c.Name)
				var names []string
				for _, i := range verdict.Customizations {
					names = append(names, b.Spec.Targets[i].Name)
				}
				if len(names) > 0 {
					customized = append(customized, c.Name+":"+strings.Join(names, "+"))
				}
			}
			if got := strings.Join(deployed, ","); got != said["targets"] {
				t.Errorf("selects %s, and the page says %s:\n%s", got, said["targets"], block[2])
			}
			if got := strings.Join(customized, ","); got != said["customizations"] {
				t.Errorf("customizes %s, and the page says %s:\n%s", got, said["customizations"], block[2])
			}
		})
	}
	if tried < 9 {
		t.Errorf("docs/targeting.md has %d recipes", tried)
	}
}

// sampleFleet reads Clusters, sorted by name, and the ClusterGroups that they
// are in.
func sampleFleet(t *testing.T, text string) []*target.Cluster {
	t.Helper()
	var clusters []*target.Cluster
	var groups []*fleet.ClusterGroup
	for _, doc := range strings.Split(text, "\n---\n") {
		if strings.Contains(doc, "kind: ClusterGroup\n") {
			groups = append(groups, strictly[fleet.ClusterGroup](t, doc))
			continue
		}
		c := strictly[fleet.Cluster](t, doc)
		clusters = append(clusters, &target.Cluster{Namespace: c.Namespace, Name: c.Name, Labels: c.Labels})
	}
	compiled, errs := target.CompileGroups(groups)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, c := range clusters {
		c.Groups = compiled.Selecting(c.Labels)
	}
	slices.SortFunc(clusters, target.CompareClusters)
	return clusters
}

// bundleOf is the Bundle that the manager makes of a GitRepo, or of a fleet.yaml
// in a repository that goes to all clusters.
func bundleOf(t *testing.T, text string) *fleet.Bundle {
	t.Helper()
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "apps", Namespace: "fleet-default"}}
	repo.Spec.Targets = []fleet.GitTarget{{ClusterSelector: &metav1.LabelSelector{}}}
	tree := fstest.MapFS{"web/cm.yaml": {Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")}}
	if strings.HasPrefix(text, "# fleet.yaml\n") {
		tree["web/fleet.yaml"] = &fstest.MapFile{Data: []byte(text)}
	} else {
		repo = strictly[fleet.GitRepo](t, text)
	}
	set := bundle.Read(tree, []string{"web"}, nil, gitrepo.Options(repo, "0123456789012345678901234567890123456789"))
	if found := set.AllFindings(); finding.HasErrors(found) || len(set.Results) != 1 || set.Results[0].Bundle == nil {
		t.Fatalf("no Bundle: %v", found)
	}
	return set.Results[0].Bundle
}

// strictly reads an object without unknown fields.
func strictly[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// rounds is what a page says of a rollout.
var rounds = regexp.MustCompile("(?s)^\n*```text\n(.*?)```")

// The recipes of docs/rollout.md go on in the rounds that the page shows.
func TestRolloutRecipes(t *testing.T) {
	text := page(t, "rollout.md")
	tried := 0
	for _, at := range recipe.FindAllStringSubmatchIndex(text, -1) {
		if text[at[2]:at[3]] != "rollout" {
			continue
		}
		tried++
		t.Run(fmt.Sprintf("Recipe%d", tried), func(t *testing.T) {
			said := rounds.FindStringSubmatch(text[at[1]:])
			if said == nil {
				t.Fatal("the page does not show the rounds")
			}
			b := bundleOf(t, text[at[4]:at[5]])
			if diff := cmp.Diff(play(t, b.Spec.RolloutStrategy), said[1]); diff != "" {
				t.Errorf("-rollout +page\n%s", diff)
			}
		})
	}
	if tried < 6 {
		t.Errorf("docs/rollout.md has %d recipes", tried)
	}
}

// stores are the twenty clusters of docs/rollout.md.
func stores() []*target.Cluster {
	var out []*target.Cluster
	for i := 1; i <= 20; i++ {
		c := &target.Cluster{Namespace: "fleet-default", Name: fmt.Sprintf("store-%02d", i), Labels: map[string]string{}}
		switch {
		case i <= 8:
			c.Labels["region"] = "eu"
		case i <= 14:
			c.Labels["region"] = "us"
		default:
			c.Labels["region"] = "asia"
		}
		if i <= 2 {
			c.Labels["ring"] = "canary"
			c.Groups = []target.Group{{Name: "canaries"}}
		}
		out = append(out, c)
	}
	return out
}

// play rolls a new version out until nothing moves any more. Each cluster that
// moves is Ready with the new version in the next round.
func play(t *testing.T, strategy *fleet.RolloutStrategy) string {
	t.Helper()
	clusters := stores()
	shape, err := rollout.Resolve(strategy, clusters)
	if err != nil {
		t.Fatal(err)
	}
	targets := make([]rollout.Target, len(clusters))
	for i, c := range clusters {
		targets[i] = rollout.Target{Name: c.Name, Desired: "v2", Exists: true, Staged: "v1", Current: "v1", Applied: "v1", Ready: true}
	}
	var out strings.Builder
	left := len(targets)
	for round := 1; left > 0; round++ {
		var moved []int
		for i, step := range rollout.Plan(shape, targets).Steps {
			if step.Move && targets[i].Current != "v2" {
				moved = append(moved, i)
			}
		}
		if len(moved) == 0 {
			fmt.Fprintf(&out, "then nothing: %d clusters wait\n", left)
			break
		}
		for _, i := range moved {
			targets[i].Staged, targets[i].Current, targets[i].Applied = "v2", "v2", "v2"
		}
		left -= len(moved)
		fmt.Fprintf(&out, "round %d: %s\n", round, spans(clusters, moved))
	}
	return out.String()
}

// spans names clusters, three and more in a row by the first and the last.
func spans(clusters []*target.Cluster, list []int) string {
	var words []string
	for i := 0; i < len(list); {
		last := i
		for last+1 < len(list) && list[last+1] == list[last]+1 {
			last++
		}
		if last-i >= 2 {
			words = append(words, clusters[list[i]].Name+" to "+clusters[list[last]].Name)
		} else {
			for k := i; k <= last; k++ {
				words = append(words, clusters[list[k]].Name)
			}
		}
		i = last + 1
	}
	return strings.Join(words, ", ")
}

// The table of maxUnavailable in docs/rollout.md is what the rollout computes.
func TestMaxUnavailableTable(t *testing.T) {
	for value, want := range map[string]int{"100%": 20, "5": 5, "25%": 5, "1%": 1, "0": 0, "0%": 1} {
		strategy := strictly[fleet.RolloutStrategy](t, "maxUnavailable: "+value)
		shape, err := rollout.Resolve(strategy, stores())
		if err != nil || shape.MaxUnavailable != want {
			t.Errorf("maxUnavailable %s: %d, %v, want %d", value, shape.MaxUnavailable, err, want)
		}
		if !strings.Contains(page(t, "rollout.md"), "`"+value+"`") {
			t.Errorf("docs/rollout.md does not name %s", value)
		}
	}
	if _, err := rollout.Resolve(strictly[fleet.RolloutStrategy](t, `maxUnavailable: "0"`), stores()); err == nil {
		t.Error(`maxUnavailable "0" is accepted`)
	}
}
