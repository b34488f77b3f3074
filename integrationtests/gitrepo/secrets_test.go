package gitrepo_test

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

// A digest of a Secret that an earlier version wrote without a key is replaced, and
// nothing is read again for that.
func resealed(s *fixture) {
	create(s.world, s.opaque("helm", map[string]string{"username": "robot", "password": "x"}))
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one")})
	s.follow(func(spec *fleet.GitRepoSpec) { spec.HelmSecretName = "helm" })
	s.read(first)
	repo, _ := get[*fleet.GitRepo](s.world, s.ns, "repo")
	digest := repo.Annotations[fleet.AnnotationHelmSecretHash]
	former := options.BundleValuesHash(map[string][]byte{"username": []byte("robot"), "password": []byte("x")})
	if digest == former || len(digest) != 64 {
		s.t.Errorf("who guesses the password can compare it with the digest %q", digest)
	}
	s.halt()
	change(s.world, repo, func(r *fleet.GitRepo) { r.Annotations[fleet.AnnotationHelmSecretHash] = former })
	halted := time.Now()
	s.start()
	s.until("the digest is replaced", func() bool {
		now, _ := get[*fleet.GitRepo](s.world, s.ns, "repo")
		return now.Annotations[fleet.AnnotationHelmSecretHash] == digest
	})
	polls := len(s.server.Requests())
	s.until("the repository is asked again", func() bool { return len(s.server.Requests()) > polls+2 })
	if list := s.writesSince(halted); len(list) != 1 {
		s.t.Errorf("want the annotation written and nothing else, got %v", list)
	}
}
