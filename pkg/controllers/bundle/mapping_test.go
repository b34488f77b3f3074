package bundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// withGuest adds a cluster of another namespace to a scene.
func (s *snapshot) withGuest(namespace string, g foreignCluster) *snapshot {
	p := &deployment.Place{Namespace: "guest-" + namespace,
		Cluster: target.Cluster{Namespace: namespace, Name: "g0", Labels: map[string]string{"env": "prod"}}}
	p.Seal()
	key := kube.Key{Namespace: namespace, Name: "g0"}
	s.candidates = append(s.candidates, &fleetstate.Candidate{Key: key, Place: p})
	if s.foreign == nil {
		s.foreign = map[kube.Key]foreignCluster{}
	}
	s.foreign[key] = g
	return s
}

// TestDecideGuests: what counts besides targeting on clusters of other namespaces.
func TestDecideGuests(t *testing.T) {
	beyond := foreignCluster{notAllowed: "no mapping leads there"}
	cases := map[string]struct {
		why   string
		scene func() *snapshot
		want  string
	}{
		"Mapped": {"a cluster that a mapping leads to is like any other",
			func() *snapshot { return scene(t, 1, nil).withGuest("far", foreignCluster{}) }, "c0000 create\ng0 create\n"},
		"MappingGone": {"what is there has to leave, although its labels match",
			func() *snapshot {
				s := scene(t, 1, nil).withGuest("far", foreignCluster{}).deployed(t, true)
				s.foreign[kube.Key{Namespace: "far", Name: "g0"}] = beyond
				return s
			}, "c0000 -\ng0 leaves (no mapping leads there)\n"},
		"Beyond": {"what is not there does not come",
			func() *snapshot { return scene(t, 1, nil).withGuest("far", beyond) }, "c0000 create\n"},
		"Unreadable": {"while the mappings cannot be read, what is there stays as it is",
			func() *snapshot {
				s := scene(t, 1, nil).withGuest("far", foreignCluster{}).deployed(t, true)
				next := s.changed(t, func(b *fleet.Bundle) { b.Spec.DefaultNamespace = "other" })
				next.candidates, next.foreign = next.candidates[:1], nil
				return next.withGuest("far", foreignCluster{held: "stays as it is: bad selector"})
			}, "c0000 replace\ng0 - (stays as it is: bad selector)\n"},
		"UnreadableAndUntargeted": {"but targeting takes away as ever",
			func() *snapshot {
				s := scene(t, 1, nil).withGuest("far", foreignCluster{held: "stays as it is: bad selector"})
				s.deployments[kube.Key{Namespace: "far", Name: "g0"}] = &fleet.BundleDeployment{}
				s.candidates[1].Place.Labels = map[string]string{"env": "dev"}
				return s
			}, "c0000 create\ng0 leaves (target 1 \"prod\" wants env=prod, g0 has env=dev)\n"},
		"Limited": {"a limit of the cluster's namespace holds there alone",
			func() *snapshot { return scene(t, 1, nil).withGuest("far", foreignCluster{held: "Policy p"}) }, "c0000 create\ng0 - (Policy p)\n"},
		"Taken": {"a name that another Bundle has is not taken away",
			func() *snapshot {
				s := scene(t, 1, nil).withGuest("far", foreignCluster{})
				s.taken = map[kube.Key]string{{Namespace: "far", Name: "g0"}: nameTaken(kube.Key{Namespace: "other", Name: "app"})}
				return s
			}, "c0000 create\ng0 - broken: Bundle \"app\" of namespace other is deployed to this cluster under the same name: rename one of the two\n"},
		"Nowhere": {"a Bundle without a target gets the possible workspaces in its message",
			func() *snapshot {
				s := scene(t, 0, nil)
				s.reach = reach("far", "near")
				return s
			}, "NoTargets: targets no cluster: there is none in ns, far, near\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, linesOf(decide(c.scene()))); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// reach leads everything from ns to some namespaces.
func reach(namespaces ...string) target.MappedNamespaces {
	all := map[string]map[string]string{}
	for _, n := range namespaces {
		all[n] = nil
	}
	return target.CompileMappings([]*fleet.BundleNamespaceMapping{
		{BundleSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}}}).ReachOf("ns", nil, all)
}

func TestWhere(t *testing.T) {
	s := &snapshot{key: kube.Key{Namespace: "ns", Name: "app"}, candidateSet: candidateSet{reach: reach("a", "b", "c", "d")}}
	if got, want := s.namespaceList(), "ns, a, b and 2 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
