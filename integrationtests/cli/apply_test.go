package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// All tests share one API server; each has a workspace of its own.
func TestCommands(t *testing.T) {
	w := newWorld(t)
	for name, report := range map[string]func(*fixture){
		"apply-twice":  applyTwice,
		"apply-values": applyValues,
		"apply-prunes": applyPrunes,
		"apply-budget": applyBudget,
		"apply-stdin":  applyStdin,
		"apply-brake":  applyBrake,
		"registry":     applyRegistry,
		"no-registry":  applyRegistryAway,
		"reach":        deployReachesNothing,
		"target":       targetOffline,
		"deploy":       deployTwice,
		"deploy-names": deployRefusals,
		"paused":       pausedIsShown,
		"target-true":  targetIsTrue,
	} {
		t.Run(name, func(t *testing.T) { report(w.fixture(t, name)) })
	}
}

// What is applied again is not written again.
func applyTwice(s *fixture) {
	s.put("web/cm.yaml", manifest("web"))
	s.put("db/cm.yaml", manifest("db"))
	s.put("db/fleet.yaml", "helm:\n  values: {size: 3}\n")
	s.fails(1, `no workspace "`+s.ns+`-none"`, "apply", "-n", s.ns+"-none", "--commit", "c1", "shop", "web", "db")
	a := s.run("", "apply", "-n", s.ns, "--commit", "c1", "shop", "web", "db")
	if a.code != 0 || a.out != "2 bundles written, 0 removed, 0 unchanged\n" {
		s.t.Fatalf("got %+v", a)
	}
	if !strings.Contains(a.notes, s.cluster.URL()+", workspace "+s.ns+"\n") {
		s.t.Errorf("server and workspace have to be named before the first write:\n%s", a.notes)
	}
	before := s.versions(s.ns)
	if got := s.ok("apply", "-n", s.ns, "--commit", "c1", "shop", "web", "db"); got != "0 bundles written, 0 removed, 2 unchanged\n" {
		s.t.Errorf("got %q", got)
	}
	if diff := cmp.Diff(before, s.versions(s.ns)); diff != "" {
		s.t.Errorf("nothing has changed, but it was written:\n%s", diff)
	}
	s.put("web/cm.yaml", manifest("web2"))
	if got := s.ok("apply", "-n", s.ns, "--commit", "c1", "shop", "web", "db"); got != "1 bundle written, 0 removed, 1 unchanged\n" {
		s.t.Errorf("got %q", got)
	}
	s.put("web/fleet.yaml", "helm:\n  values: 5\n")
	s.fails(4, "web/fleet.yaml:2:11: error", "apply", "-n", s.ns, "--commit", "c1", "shop", "web", "db")
	if got := s.bundles(); got != "shop-db shop-web" {
		s.t.Errorf("a mistake must not change anything, there are %q", got)
	}
}

// Values are in the Bundle's Secret and nowhere else. A Secret with that name
// that another client made is not touched.
func applyValues(s *fixture) {
	const canary = "correct-horse-battery"
	s.put("app/cm.yaml", manifest("app"))
	s.put("app/fleet.yaml", "helm:\n  values: {password: "+canary+"}\n")
	s.ok("apply", "-n", s.ns, "--commit", "c1", "x", "app")
	b, err := kube.StoreOf[*fleet.Bundle](s.admin).Get(s.t.Context(), kube.Key{Namespace: s.ns, Name: "x-app"})
	s.must(err)
	raw, err := json.Marshal(b)
	s.must(err)
	if strings.Contains(string(raw), canary) || b.Spec.ValuesHash == "" {
		s.t.Errorf("the Bundle must not hold values: %s", raw)
	}
	secrets := kube.StoreOf[*corev1.Secret](s.admin)
	secret, err := secrets.Get(s.t.Context(), kube.Key{Namespace: s.ns, Name: "x-app"})
	s.must(err)
	if secret.Type != fleet.SecretTypeBundleValues || !strings.Contains(string(secret.Data["values.yaml"]), canary) {
		s.t.Errorf("got %s %v", secret.Type, secret.Data)
	}

	for _, name := range []string{"y-app", "y-plain"} {
		_, err := secrets.Create(s.t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}, Data: map[string][]byte{"mine": []byte("x")},
		})
		s.must(err)
	}
	s.put("plain/cm.yaml", manifest("plain"))
	before := s.versions(s.ns)
	s.fails(5, `secret "y-app" exists and is not Fleet's`, "apply", "-n", s.ns, "--commit", "c1", "y", "app")
	if diff := cmp.Diff(before, s.versions(s.ns)); diff != "" {
		s.t.Errorf("it was refused, but something was written:\n%s", diff)
	}
	s.ok("apply", "-n", s.ns, "--commit", "c1", "y", "plain")
	mine, err := secrets.Get(s.t.Context(), kube.Key{Namespace: s.ns, Name: "y-plain"})
	if err != nil || string(mine.Data["mine"]) != "x" {
		s.t.Errorf("a bundle without values has nothing to do with the user's Secret: %v", err)
	}
}

// Only Bundles with the label of the repository are removed, and those of others
// are not touched.
func applyPrunes(s *fixture) {
	const own = "fleet.cattle.io/repo-name=shop"
	for _, name := range []string{"a", "b", "c"} {
		s.put(name+"/cm.yaml", manifest(name))
	}
	s.ok("apply", "-n", s.ns, "--commit", "c1", "shop", "c")
	s.ok("apply", "-n", s.ns, "--commit", "c1", "-l", own, "shop", "a", "b")
	s.ok("apply", "-n", s.ns, "--commit", "c1", "-l", "fleet.cattle.io/repo-name=other", "other", "a")
	if got := s.ok("apply", "-n", s.ns, "--commit", "c2", "-l", own, "shop", "a"); !strings.Contains(got, "1 removed") {
		s.t.Errorf("got %q", got)
	}
	if got := s.bundles(); got != "other-a shop-a shop-c" {
		s.t.Errorf("got %q", got)
	}
	s.put("thief/fleet.yaml", "name: other-a\n")
	s.put("thief/cm.yaml", manifest("thief"))
	s.fails(5, `bundle "other-a" exists and belongs to GitRepo "other"`, "apply", "-n", s.ns, "--commit", "c3", "-l", own, "shop", "thief")
	if got := s.bundles(); got != "other-a shop-a shop-c" {
		s.t.Errorf("what is refused removes nothing, got %q", got)
	}
}

// What one command prints the next one writes.
func applyStdin(s *fixture) {
	s.put("app/cm.yaml", manifest("app"))
	s.put("app/fleet.yaml", "helm:\n  values: {size: 3}\n")
	text := s.ok("apply", "-o", "-", "-n", "elsewhere", "--commit", "c1", "x", "app")
	a := s.run(text, "apply", "-n", s.ns, "-")
	if a.code != 0 || a.out != "1 bundle written, 0 removed, 0 unchanged\n" {
		s.t.Fatalf("got %+v", a)
	}
	before := s.versions(s.ns)
	if a := s.run(text, "apply", "-n", s.ns, "-f", "-"); a.out != "0 bundles written, 0 removed, 1 unchanged\n" {
		s.t.Errorf("got %+v", a)
	}
	if got := s.ok("apply", "-n", s.ns, "--commit", "c1", "x", "app"); got != "0 bundles written, 0 removed, 1 unchanged\n" {
		s.t.Errorf("from the directory it is the same, got %q", got)
	}
	if diff := cmp.Diff(before, s.versions(s.ns)); diff != "" {
		s.t.Errorf("nothing has changed, but it was written:\n%s", diff)
	}
}

// While everything is stopped, nothing new is written.
func applyBrake(s *fixture) {
	s.put("app/cm.yaml", manifest("app"))
	s.ok("suspend", "--all", "--reason", "incident")
	s.fails(5, "incident", "apply", "-n", s.ns, "--commit", "c1", "x", "app")
	s.ok("resume", "--all")
	if got := s.bundles(); got != "" {
		s.t.Errorf("got %q", got)
	}
}

// Removals above the deletion budget, and of volumes, wait for an approval of
// exactly this list; what is new is written meanwhile.
func applyBudget(s *fixture) {
	args := []string{"apply", "-n", s.ns, "--commit", "c1", "-l", "fleet.cattle.io/repo-name=shop", "shop"}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		s.put(name+"/cm.yaml", manifest(name))
	}
	s.ok(append(args, "a", "b", "c", "d", "e")...)
	const all = "shop-a shop-b shop-c shop-d shop-e"
	a := s.run("", append(args, "a", "f")...)
	if a.code != 5 || !strings.Contains(a.notes, "would remove 4 of 5 bundles (budget 3):\n  bundle shop-b\n  bundle shop-c\n  bundle shop-d\n  bundle shop-e\n") {
		s.t.Errorf("want the list and exit code 5, got %d\n%s", a.code, a.notes)
	}
	if got := s.bundles(); got != all+" shop-f" {
		s.t.Errorf("what is new is written and nothing is removed, got %q", got)
	}
	_, hash, _ := strings.Cut(strings.TrimSpace(a.notes), "--approve ")
	s.fails(5, "would remove 4 of 6 bundles (budget 3)", append(args, "--approve", hash, "b", "f")...)
	if got := s.ok(append(args, "--approve", hash, "a", "f")...); !strings.Contains(got, "4 removed") {
		s.t.Errorf("got %q", got)
	}
	if got := s.bundles(); got != "shop-a shop-f" {
		s.t.Errorf("got %q", got)
	}

	s.holds("shop-a", "PersistentVolumeClaim")
	s.fails(5, "would remove 1 of 2 bundles with 1 PersistentVolumeClaim", append(args, "f")...)
	s.holds("shop-f", "PersistentVolumeClaim")
	if got := s.ok(append(args, "f")...); !strings.Contains(got, "1 removed") {
		s.t.Errorf("what another deployment claims does not go, got %q", got)
	}
}

// holds makes a deployment of a Bundle on cluster c1 that has an object of a
// kind.
func (s *fixture) holds(name, kind string) {
	s.t.Helper()
	ctx, store := s.t.Context(), kube.StoreOf[*fleet.BundleDeployment](s.admin)
	bd, err := store.Create(ctx, &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name, Labels: map[string]string{
		fleet.LabelBundleName: name, fleet.LabelBundleNamespace: s.ns, fleet.LabelCluster: "c1", fleet.LabelClusterNamespace: s.ns,
	}}})
	s.must(err)
	changed := bd.DeepCopy()
	changed.Status.AppliedDeploymentID = "s-1:2"
	changed.Status.Resources = []fleet.BundleDeploymentResource{{Kind: kind, APIVersion: "v1", Namespace: "pos", Name: "data"}}
	_, err = store.PatchStatus(ctx, bd, changed)
	s.must(err)
}
