package bundle

import (
	"math/rand"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"

// files makes a tree of texts. A text that starts with "-> " is a link.
func files(texts map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, text := range texts {
		if link, ok := strings.CutPrefix(text, "-> "); ok {
			tree[name] = &fstest.MapFile{Data: []byte(link), Mode: os.ModeSymlink | 0o777}
			continue
		}
		tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return tree
}

func texts(found []finding.Finding) []string {
	var list []string
	for _, f := range found {
		list = append(list, f.String())
	}
	return list
}

func names(b *fleet.Bundle) []string {
	if b == nil {
		return nil
	}
	var list []string
	for _, r := range b.Spec.Resources {
		list = append(list, r.Name)
	}
	return list
}

func TestOptions(t *testing.T) {
	fleetYAML := `labels: {team: a, app: mine}
serviceAccount: own
namespace: own
keepResources: true
correctDrift: {enabled: true}
targetCustomizations:
- name: prod
  clusterName: x
  namespace: escape
`
	o := Options{
		Repo: "repo", Namespace: "fleet-default",
		Labels:          map[string]string{"app": "theirs", fleet.LabelCommit: "abc", fleet.LabelRepoName: "repo"},
		Targets:         []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{}}},
		Restrictions:    []fleet.BundleTargetRestriction{{ClusterSelector: &metav1.LabelSelector{}}},
		TargetNamespace: "forced", ServiceAccount: "forced", SyncGeneration: 7, Paused: true,
		CorrectDrift: &fleet.CorrectDrift{Force: true},
	}
	tree := func(text string) fstest.MapFS {
		return files(map[string]string{"d/fleet.yaml": text, "d/cm.yaml": configMap})
	}
	r := Assemble(tree(fleetYAML), Dir{Path: "d"}, o)
	if r.Bundle == nil {
		t.Fatal(r.Findings)
	}
	b := r.Bundle
	check := func(what string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n-want +got\n%s", what, diff)
		}
	}
	check("labels of fleet.yaml go before those of the repository",
		map[string]string{"team": "a", "app": "mine", fleet.LabelCommit: "abc", fleet.LabelRepoName: "repo", fleet.LabelAdminNamespace: "true"}, b.Labels)
	check("a customization cannot escape the target namespace", []string{"forced", "forced", "forced"},
		[]string{b.Spec.TargetNamespace, b.Spec.Targets[0].TargetNamespace, b.Spec.Targets[1].TargetNamespace})
	check("service account", "forced", b.Spec.ServiceAccount)
	check("force sync", int64(7), b.Spec.ForceSyncGeneration)
	check("switched on", []bool{true, true, false}, []bool{b.Spec.Paused, b.Spec.KeepResources, b.Spec.DeleteNamespace})
	check("drift correction that is not enabled leaves that of fleet.yaml", &fleet.CorrectDrift{Enabled: true}, b.Spec.CorrectDrift)
	check("customizations come first", []string{"prod", ""}, []string{b.Spec.Targets[0].Name, b.Spec.Targets[1].Name})
	check("restrictions", 1, len(b.Spec.TargetRestrictions))
	check("name", "repo-d", b.Name)

	r = Assemble(tree("overrideTargets:\n- clusterName: z\n"), Dir{Path: "d"}, Options{Repo: "repo", Targets: o.Targets, Restrictions: o.Restrictions})
	check("overriding targets replace those of the repository", []fleet.BundleTarget{{ClusterName: "z"}}, r.Bundle.Spec.Targets)
	check("and its restrictions", []fleet.BundleTargetRestriction{{ClusterName: "z"}}, r.Bundle.Spec.TargetRestrictions)
	r = Assemble(tree("overrideTargets: []\n"), Dir{Path: "d"}, Options{Repo: "repo", Targets: o.Targets, Restrictions: o.Restrictions})
	check("an empty list drops them", []fleet.BundleTarget{{Name: "default", ClusterGroup: "default"}}, r.Bundle.Spec.Targets)
	check("restrictions too", 0, len(r.Bundle.Spec.TargetRestrictions))
}

func TestCompression(t *testing.T) {
	random := make([]byte, 900_000)
	rand.New(rand.NewSource(1)).Read(random)
	large := strings.Repeat("a: b\n", 210_000)
	cases := map[string]struct {
		why      string
		tree     map[string]string
		compress bool
		want     map[string]string
		limits   Limits
		found    []string
	}{
		"Text":     {tree: map[string]string{"d/a.txt": "x"}, want: map[string]string{"a.txt": ""}},
		"Binary":   {why: "only what is no text", tree: map[string]string{"d/a.txt": "x", "d/b.bin": "\xff\xfe"}, want: map[string]string{"a.txt": "", "b.bin": "base64+gz"}},
		"Asked":    {tree: map[string]string{"d/a.txt": "x"}, compress: true, want: map[string]string{"a.txt": "base64+gz"}},
		"Large":    {why: "from 1,000,000 bytes on everything is", tree: map[string]string{"d/a.txt": large, "d/b.txt": "x"}, want: map[string]string{"a.txt": "base64+gz", "b.txt": "base64+gz"}},
		"TooLarge": {tree: map[string]string{"d/a.bin": string(random), "d/b.bin": string(random)}, limits: Limits{StoredBytes: 1 << 20}, found: []string{"d:1:1: error: the bundle's files have more than 1024 KiB, compressed; that is the most that can be stored (1 of 2 files fit) [too-large]"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Assemble(files(c.tree), Dir{Path: "d"}, Options{Repo: "repo", Compress: c.compress, Limits: c.limits})
			if diff := cmp.Diff(c.found, texts(r.Findings)); diff != "" {
				t.Errorf("findings\n-want +got\n%s", diff)
			}
			var got map[string]string
			if r.Bundle != nil {
				got = map[string]string{}
				for _, res := range r.Bundle.Spec.Resources {
					got[res.Name] = res.Encoding
					data, err := content.ResourceBytes(res)
					if err != nil || string(data) != c.tree["d/"+res.Name] {
						t.Errorf("%s does not come back: %v", res.Name, err)
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
