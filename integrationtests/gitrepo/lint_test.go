package gitrepo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// What fleet lint says of a directory stands on the GitRepo when it is pushed
// all the same, word for word; bundles that are fine or merely odd roll out, and
// where nothing is wrong the first warning stays in the status.
func linted(s *fixture) {
	files := map[string]string{
		"broken/fleet.yaml": "namespace: broken\n", "broken/cm.yaml": "a: 1\nb:\n\tc: 2\n",
		"fine/fleet.yaml": "namespace: fine\n", "fine/cm.yaml": manifest("one"),
		"impure/fleet.yaml": "namespace: impure\n", "impure/Chart.yaml": "apiVersion: v2\nname: impure\nversion: 1.0.0\n",
		"impure/templates/cm.yaml": manifest("{{ randAlphaNum 5 | quote }}"),
		"odd/fleet.yaml":           "nmespace: x\ndefaultNamespace: odd\n", "odd/cm.yaml": manifest("two"),
		"unused/fleet.yaml": "targetCustomizations:\n- name: all\n  clusterSelector: {}\n- name: never\n  clusterSelector: {matchLabels: {a: b}}\ndefaultNamespace: unused\n",
		"unused/cm.yaml":    manifest("three"),
	}
	want := lintReport(s.t, files)
	if len(want) < 4 {
		s.t.Fatalf("want an error and three warnings, got %q", want)
	}
	s.git.Commit("first", files)
	s.follow(nil)
	s.says("Stalled", "True", "InvalidYAML", "broken/cm.yaml:3: YAML: a tab where spaces indent")
	var reported []string
	s.until("all is reported", func() bool { reported = s.notes(); return len(reported) >= len(want) })
	if diff := cmp.Diff(want, reported); diff != "" {
		s.t.Errorf("-fleet lint +events\n%s", diff)
	}
	for name, there := range map[string]bool{"broken": false, "fine": true, "impure": true, "odd": true, "unused": true} {
		if _, ok := s.bundles()["repo-"+name]; ok != there {
			s.t.Errorf("bundle %s: %v", name, ok)
		}
	}

	s.read(s.git.Commit("mended", map[string]string{"broken/cm.yaml": manifest("four")}))
	first := slices.DeleteFunc(slices.Clone(want), func(text string) bool { return text == "broken/cm.yaml:3: YAML: a tab where spaces indent" })
	odd := fmt.Sprintf("%s (and %d more)", first[0], len(first)-1)
	s.says("Stalled", "False", "Impure", odd)
	s.read(s.git.Commit("elsewhere", map[string]string{"fine/cm.yaml": manifest("five")}))
	s.says("Stalled", "False", "Impure", odd)
	s.read(s.git.Commit("pure", map[string]string{
		"impure/templates/cm.yaml": manifest("six"), "odd/fleet.yaml": "namespace: odd\n", "unused/fleet.yaml": "namespace: unused\n",
	}))
	s.says("Stalled", "False", "", "")
}

// A customization for a cluster that there is not is a warning with its line, and
// holds up nothing. Once there is such a cluster, the warning goes by itself, within
// five minutes or with the next commit.
func named(s *fixture) {
	s.git.Commit("first", map[string]string{
		"app/cm.yaml": manifest("one"), "app/fleet.yaml": "targetCustomizations:\n- clusterName: shop1\n  helm: {atomic: true}\n- clusterGroup: eu\n  helm: {atomic: true}\n",
	})
	s.follow(nil)
	s.says("Stalled", "False", "UnknownCluster", `app/fleet.yaml:2: there is no cluster "shop1" in `+s.ns+" (and 1 more)")
	if _, ok := s.bundles()["repo-app"]; !ok {
		s.t.Error("the bundle is held up")
	}
	create(s.world, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.ns, Name: "c-m-1", Labels: map[string]string{fleet.LabelDisplayName: "shop1"},
	}})
	create(s.world, &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "eu"}})
	s.read(s.git.Commit("second", map[string]string{"app/cm.yaml": manifest("two")}))
	s.says("Stalled", "False", "", "")
}

// A dependency that there is not is a warning with its line, also where the commit changes
// nothing else, so that no agent says it. It goes when there is such a bundle.
func depending(s *fixture) {
	s.git.Commit("first", map[string]string{"app/cm.yaml": manifest("one")})
	s.follow(nil)
	s.says("Stalled", "False", "", "")
	s.read(s.git.Commit("second", map[string]string{"app/fleet.yaml": "dependsOn:\n- name: base\n"}))
	s.says("Stalled", "False", "Dependency", `app/fleet.yaml:2: dependsOn[0]: there is no bundle "base" in `+s.ns+"; until there is, no change of this bundle is deployed")
	create(s.world, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "base"}})
	s.says("Stalled", "False", "", "")
}

// lintReport returns the findings of fleet lint, as "path:line: message",
// sorted.
func lintReport(t *testing.T, files map[string]string) []string {
	t.Helper()
	command, err := harness.Program(t.Context(), "fleet", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(command, "lint", "-o", "json", "--offline")
	cmd.Dir = dir
	out, _ := cmd.Output() // there are errors: that is no success
	var report struct {
		Findings []struct {
			Path, Message string
			Line          int
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var list []string
	for _, f := range report.Findings {
		list = append(list, fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Message))
	}
	slices.Sort(list)
	return list
}

// notes are the texts of the warning events, sorted.
func (s *fixture) notes() []string {
	s.t.Helper()
	list, err := kube.StoreOf[*eventsv1.Event](s.admin).List(context.Background(), s.ns, "")
	if err != nil {
		s.t.Fatal(err)
	}
	var notes []string
	for _, e := range list {
		if e.Type == "Warning" && e.Reason != fleet.EventFailedToCheckCommit {
			notes = append(notes, e.Note)
		}
	}
	slices.Sort(notes)
	return notes
}
