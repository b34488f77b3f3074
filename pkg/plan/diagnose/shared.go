package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Objects is the check of objects that two bundles have. It is made only where
// there is something to report.
const Objects = "objects"

// A SharedSeen is an object that two bundles of one repository have on clusters.
type SharedSeen struct {
	Bundles [2]string // "<workspace>/<name>", sorted
	Object  string    // "Kind namespace/name"
}

// A Sharing collects the objects that two bundles of one repository have on one
// cluster. The zero value is ready to use.
type Sharing struct {
	namespace string
	owners    map[objectRef]*fleet.BundleDeployment
	clusters  map[SharedSeen]int
}

// An objectRef names an object of a cluster, in any version of its API.
type objectRef struct{ group, kind, namespace, name string }

// Add takes the objects of a deployment. Deployments of one namespace have to be added in a
// row, as the API server lists them: Sharing remembers the objects of one cluster at a
// time.
//
// Add ignores CRDs, since several charts may bring one, and deployments with takeOwnership.
func (s *Sharing) Add(bd *fleet.BundleDeployment) {
	if s.owners == nil || s.namespace != bd.Namespace {
		s.namespace, s.owners = bd.Namespace, map[objectRef]*fleet.BundleDeployment{}
	}
	if h := bd.Spec.Options.Helm; h != nil && h.TakeOwnership {
		return
	}
	for _, r := range bd.Status.Resources {
		gv, err := schema.ParseGroupVersion(r.APIVersion)
		if err != nil || r.Kind == "CustomResourceDefinition" {
			continue
		}
		ref := objectRef{gv.Group, r.Kind, r.Namespace, r.Name}
		first := s.owners[ref]
		if first == nil {
			s.owners[ref] = bd
			continue
		}
		if sameRepository(first, bd) {
			s.addSharedObject(ref, bundleOf(first), bundleOf(bd))
		}
	}
}

func (s *Sharing) addSharedObject(ref objectRef, one, other string) {
	if one == other {
		return
	}
	name := ref.name
	if ref.namespace != "" {
		name = ref.namespace + "/" + name
	}
	if s.clusters == nil {
		s.clusters = map[SharedSeen]int{}
	}
	s.clusters[SharedSeen{Bundles: [2]string{min(one, other), max(one, other)}, Object: ref.kind + " " + name}]++
}

func sameRepository(a, b *fleet.BundleDeployment) bool {
	repo := a.Labels[fleet.LabelRepoName]
	return repo != "" && repo == b.Labels[fleet.LabelRepoName] && a.Labels[fleet.LabelBundleNamespace] == b.Labels[fleet.LabelBundleNamespace]
}

func bundleOf(bd *fleet.BundleDeployment) string {
	return bd.Labels[fleet.LabelBundleNamespace] + "/" + bd.Labels[fleet.LabelBundleName]
}

// Found returns the objects that were collected, in order.
func (s *Sharing) Found() []SharedSeen {
	return slices.SortedFunc(maps.Keys(s.clusters), func(a, b SharedSeen) int {
		return cmp.Or(slices.Compare(a.Bundles[:], b.Bundles[:]), cmp.Compare(a.Object, b.Object))
	})
}

// sharedFindings reports the objects that were collected.
func sharedFindings(s Observed) []Finding {
	var texts []string
	for seen, clusters := range s.Shared.clusters {
		texts = append(texts, fmt.Sprintf("%s in %s and %s (%d clusters)", seen.Object, seen.Bundles[0], seen.Bundles[1], clusters))
	}
	if len(texts) == 0 {
		return nil
	}
	slices.SortFunc(texts, cmp.Compare[string])
	return []Finding{{
		Check: Objects, Verdict: Warn, Message: fmt.Sprintf("two bundles of one repository have the same object, %d times: %s", len(texts), firstNames(texts, 3)),
		Hint: "the next version of the one that does not own it is refused; remove it from one of them: docs/drift.md#one-object-two-bundles",
	}}
}
