package gitrepo_test

import (
	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// What a GitRepo says about the account and the namespace of its bundles holds for
// all of their targets; its status names the line of a fleet.yaml that says
// something else. A limit that is taken back leaves no trace.
func limited(s *fixture) {
	commit := s.git.Commit("first", map[string]string{
		"app/cm.yaml":    manifest("one"),
		"app/fleet.yaml": "namespace: mine\ntargetCustomizations:\n- name: all\n  clusterSelector: {}\n  serviceAccount: fleet-agent\n  namespace: kube-system\n",
	})
	s.follow(func(spec *fleet.GitRepoSpec) { spec.ServiceAccount, spec.TargetNamespace = "team-a", "team-a" })
	s.read(commit)
	s.says("Stalled", "False", "Overridden", `app/fleet.yaml:5: serviceAccount "fleet-agent" is ignored; the repository is deployed as "team-a"`)
	b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-app")
	got := []string{b.Labels[fleet.LabelAdminNamespace], b.Spec.ServiceAccount, b.Spec.TargetNamespace}
	for _, t := range b.Spec.Targets {
		got = append(got, t.ServiceAccount, t.TargetNamespace)
	}
	if diff := cmp.Diff([]string{"true", "team-a", "team-a", "team-a", "team-a", "", "team-a"}, got); diff != "" {
		s.t.Error(diff)
	}

	repo, _ := get[*fleet.GitRepo](s.world, s.ns, "repo")
	change(s.world, repo, func(r *fleet.GitRepo) { r.Spec.TargetNamespace = "" })
	s.until("the limit is taken back", func() bool {
		b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-app")
		_, labelled := b.Labels[fleet.LabelAdminNamespace]
		return !labelled && b.Spec.TargetNamespace == "mine"
	})
	repo, _ = get[*fleet.GitRepo](s.world, s.ns, "repo")
	change(s.world, repo, func(r *fleet.GitRepo) { r.Spec.ServiceAccount = "" })
	s.says("Stalled", "True", "Reserved", `app/fleet.yaml:5: serviceAccount "fleet-agent" is Fleet's own; no bundle may act as it`)
}
