package cli_test

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// The commands show who paused a repository, and why. A real API server's
// managedFields distinguish fleet suspend from other programs.
func pausedIsShown(s *fixture) {
	store := kube.StoreOf[*fleet.GitRepo](s.admin)
	_, err := store.Create(s.t.Context(), &fleet.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "shops"}, Spec: fleet.GitRepoSpec{Repo: "https://git.example/shops"},
	})
	s.must(err)
	edit := func(paused bool) {
		s.t.Helper()
		repo, err := store.Get(s.t.Context(), kube.Key{Namespace: s.ns, Name: "shops"})
		s.must(err)
		changed := repo.DeepCopy()
		changed.Spec.Paused = paused
		_, err = store.Patch(s.t.Context(), repo, changed)
		s.must(err)
	}
	shows := func(want string) {
		s.t.Helper()
		for _, args := range [][]string{{"get", "repos", "-n", s.ns}, {"status", "-n", s.ns}} {
			out := strings.Join(strings.Fields(s.ok(args...)), " ")
			if args[0] == "status" {
				want = strings.NewReplacer(", no", " no", ": ", " ").Replace(want)
			}
			if !strings.Contains(out, want) {
				s.t.Errorf("fleet %s does not show %q:\n%s", args[0], want, out)
			}
		}
	}

	edit(true)
	shows("test, no reason given")
	s.ok("suspend", "repo/shops", "-n", s.ns) // is paused already
	shows("test, no reason given")
	s.ok("resume", "repo/shops", "-n", s.ns)
	s.ok("suspend", "repo/shops", "-n", s.ns, "--reason", "incident 4711")
	shows(": incident 4711")
	edit(false)
	if out := s.ok("get", "repos", "-n", s.ns); strings.Contains(out, "Paused") || strings.Contains(out, "4711") {
		s.t.Errorf("it goes on, and is shown as paused:\n%s", out)
	}
	edit(true)
	shows("test, no reason given")
	s.ok("resume", "repo/shops", "-n", s.ns)
	repo, err := store.Get(s.t.Context(), kube.Key{Namespace: s.ns, Name: "shops"})
	s.must(err)
	if repo.Spec.Paused || len(repo.Annotations) > 0 {
		s.t.Errorf("resume leaves paused %v, annotations %v", repo.Spec.Paused, repo.Annotations)
	}
}
