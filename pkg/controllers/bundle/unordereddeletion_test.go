package bundle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

const (
	pathGroups   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clustergroups.fleet.cattle.io"
	pathMappings = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bundlenamespacemappings.fleet.cattle.io"
)

// Targets that match nothing for want of the kind that they need are no order.
func TestMisledByKinds(t *testing.T) {
	group := fleet.BundleTarget{ClusterGroup: "prod"}
	selected := fleet.BundleTarget{ClusterGroupSelector: &metav1.LabelSelector{}}
	labelled := fleet.BundleTarget{ClusterSelector: &metav1.LabelSelector{}}
	for name, c := range map[string]struct {
		why       string
		target    fleet.BundleTarget
		namespace string // of the cluster
		scene     func(*apiServer)
		want      bool
	}{
		"GroupChanged":   {"a person has deleted the group", group, "ws", nil, false},
		"GroupKindGone":  {"the kind has taken it along", group, "ws", func(s *apiServer) { delete(s.objects, pathGroups) }, true},
		"SelectorGone":   {"the same", selected, "ws", func(s *apiServer) { delete(s.objects, pathGroups) }, true},
		"GroupKindEnds":  {"it is about to", group, "ws", func(s *apiServer) { s.ends(pathGroups, start) }, true},
		"GroupKindAgain": {"the group was not made again yet", group, "ws", func(s *apiServer) { s.stands(pathGroups, start) }, true},
		"Labels":         {"it needs no group", labelled, "ws", func(s *apiServer) { delete(s.objects, pathGroups) }, false},
		"NamespaceEnds":  {"groups and labels go with it", labelled, "ws", func(s *apiServer) { s.ends(pathNamespace, start) }, true},
		"MappingKept":    {"a person has changed the mapping", labelled, "far", nil, false},
		"MappingGone":    {"it went with its kind", labelled, "far", func(s *apiServer) { delete(s.objects, pathMappings) }, true},
		"MappingNotUsed": {"it needs none here", labelled, "ws", func(s *apiServer) { delete(s.objects, pathMappings) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := start
			e, s := controllersAt(t, &now)
			s.stands(pathGroups, start.Add(-24*time.Hour))
			s.stands(pathMappings, start.Add(-24*time.Hour))
			if c.scene != nil {
				c.scene(s)
			}
			b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web"}}
			b.Spec.Targets = []fleet.BundleTarget{c.target}
			list := []*staleDeployment{{cluster: kube.Key{Namespace: c.namespace, Name: "c1"}, bd: deploymentOf("a:b")}}
			why, err := e.budgets.unorderedReason(t.Context(), b, list)
			if err != nil || (why != "") != c.want {
				t.Errorf("%s: got %q, %v", c.why, why, err)
			}
		})
	}
}
