package summary

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// naive lists the objects of deployments one by one, as rancher/fleet does:
// sorted by cluster, all clusters named.
func naive(list []*Deployment) []fleet.DeployedResource {
	byCluster := slices.Clone(list)
	slices.SortStableFunc(byCluster, func(a, b *Deployment) int { return cmp.Compare(a.Cluster, b.Cluster) })
	found := map[objectKey]*fleet.DeployedResource{}
	for _, d := range byCluster {
		for key, state := range naiveStates(d) {
			r := found[key]
			if r == nil {
				made := (&objectState{key: key}).resource()
				r = &made
				found[key] = r
			}
			r.IncompleteState = r.IncompleteState || d.Incomplete
			if r.State == "Ready" {
				r.State = state
			}
			if b := bucketOf(state); b != noBucket {
				names := listOf(&r.PerClusterState, b)
				*names = append(*names, d.Cluster)
			}
		}
	}
	var out []fleet.DeployedResource
	for _, r := range found {
		out = append(out, *r)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Type+"/"+out[i].ID < out[j].Type+"/"+out[j].ID })
	return out
}

func naiveStates(d *Deployment) map[objectKey]string {
	general := string(d.State)
	if d.State == fleet.NotReady || d.State == fleet.Modified {
		general = "Ready"
		if d.Incomplete {
			general = "Unknown"
		}
	}
	out := map[objectKey]string{}
	for _, r := range d.Resources {
		out[objectKey{r.APIVersion, r.Kind, r.Namespace, r.Name}] = general
	}
	for _, n := range d.NonReady {
		out[objectKey{n.APIVersion, n.Kind, n.Namespace, n.Name}] = n.Summary.State
	}
	for i := range d.Modified {
		m := &d.Modified[i]
		out[objectKey{m.APIVersion, m.Kind, m.Namespace, m.Name}] = modifiedState(m)
	}
	return out
}

// scattered is deployments of a few bundles, each with its own objects, in a
// random order and in random states.
func scattered(r *rand.Rand, bundles, clusters int) []*Deployment {
	var out []*Deployment
	for b := range bundles {
		shared := objects(fmt.Sprintf("b%d", b), 1+r.IntN(5))
		for c := range clusters {
			if r.IntN(10) == 0 {
				continue
			}
			d := &Deployment{
				Bundle: fmt.Sprintf("b%d", b), Cluster: fmt.Sprintf("ns/c%03d", c), State: fleet.States[r.IntN(7)],
				Message: fmt.Sprint("m", r.IntN(4)), Incomplete: r.IntN(9) == 0, Resources: shared,
				Counts: fleet.ResourceCounts{Ready: r.IntN(3), DesiredReady: 3},
			}
			if r.IntN(9) > 0 {
				d.UID = types.UID(fmt.Sprintf("%08x", r.Uint32()))
			}
			if r.IntN(8) == 0 { // a list of its own
				d.Resources = slices.Clone(shared)
			}
			for i := range shared {
				o := &shared[i]
				switch r.IntN(12) {
				case 0:
					d.NonReady = append(d.NonReady, fleet.NonReadyStatus{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
						Summary: fleet.Summary{State: []string{"updating", "error", "odd"}[r.IntN(3)], Error: r.IntN(2) == 0, Message: []string{fmt.Sprint("n", r.IntN(3)), "x"}}})
				case 1:
					d.Modified = append(d.Modified, fleet.ModifiedStatus{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
						Create: r.IntN(2) == 0, Delete: r.IntN(2) == 0})
				}
			}
			out = append(out, d)
		}
	}
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func objects(name string, n int) []fleet.BundleDeploymentResource {
	var out []fleet.BundleDeploymentResource
	for i := range n {
		o := fleet.BundleDeploymentResource{APIVersion: "v1", Kind: "ConfigMap", Namespace: "web", Name: fmt.Sprintf("%s-%d", name, i)}
		if i%2 == 1 {
			o.APIVersion, o.Kind = "apps/v1", "Deployment"
		}
		out = append(out, o)
	}
	return out
}

// TestResources compares what is counted in groups with what is counted one by
// one.
func TestResources(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		list := scattered(r, 1+r.IntN(4), 1+r.IntN(60))
		if diff := gocmp.Diff(naive(list), resources(list, 200)); diff != "" {
			t.Fatalf("seed %d: -one by one +in groups\n%s", seed, diff)
		}
	}
}

// TestExamples: with many clusters the same objects are listed in the same states,
// with the first ten clusters of each state, and say that there are more.
func TestExamples(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 8))
		list := scattered(r, 1+r.IntN(3), 1+r.IntN(120))
		want := naive(list)
		for i := range want {
			for b := range buckets {
				names := listOf(&want[i].PerClusterState, b)
				if len(*names) > maxExamples {
					*names, want[i].IncompleteState = (*names)[:maxExamples], true
				}
			}
		}
		if diff := gocmp.Diff(want, resources(list, 201)); diff != "" {
			t.Fatalf("seed %d: -want +got\n%s", seed, diff)
		}
	}
}

// TestSameObjectOfTwoBundles: an object that two bundles claim is listed once, a
// cluster stands once in a list, and the order of deployments does not matter.
func TestSameObjectOfTwoBundles(t *testing.T) {
	object := objects("x", 1)
	list := []*Deployment{
		{Bundle: "a", Cluster: "ns/c1", State: fleet.Ready, Resources: object},
		{Bundle: "b", Cluster: "ns/c1", State: fleet.Ready, Resources: slices.Clone(object)},
		{Bundle: "a", Cluster: "ns/c2", State: fleet.ErrApplied, Resources: object},
		{Bundle: "b", Cluster: "ns/c2", State: fleet.WaitApplied, Resources: object},
	}
	for _, clusters := range []int{2, 300} {
		want := []fleet.DeployedResource{{APIVersion: "v1", Kind: "ConfigMap", Type: "configmap", ID: "web/x-0", Namespace: "web", Name: "x-0",
			State: "ErrApplied", PerClusterState: fleet.PerClusterState{Ready: []string{"ns/c1"}, WaitApplied: []string{"ns/c2"}}}}
		for range 4 {
			if diff := gocmp.Diff(want, resources(list, clusters)); diff != "" {
				t.Errorf("%d clusters: -want +got\n%s", clusters, diff)
			}
			list = append(list[1:], list[0])
		}
	}
}

// TestChoice compares what is chosen in one pass with what sorting all yields.
func TestChoice(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		list := scattered(r, 1+r.IntN(3), 1+r.IntN(40))
		byOrder := slices.Clone(list)
		sort.SliceStable(byOrder, func(i, j int) bool { return byUID(byOrder[i], byOrder[j]) })
		want, got := naiveChoice(byOrder), shownIn(Count(ByBundle, byOrder))
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: in the order given: -want +got\n%s", seed, diff)
		}
		_, c := countStates(list, byUID)
		if diff := gocmp.Diff(want, shownIn(fleet.BundleSummary{NonReadyResources: c.resources(ByBundle)})); diff != "" {
			t.Fatalf("seed %d: in another order: -want +got\n%s", seed, diff)
		}
	}
}

func shownIn(s fleet.BundleSummary) []string {
	var out []string
	for _, r := range s.NonReadyResources {
		out = append(out, fmt.Sprint(r.Name, r.State, r.Message))
	}
	return out
}

// naiveChoice is the first of each state, and of the others the first until there
// are ten, in order.
func naiveChoice(list []*Deployment) []string {
	firsts := map[fleet.BundleState]*Deployment{}
	for _, d := range list {
		if firsts[d.State] == nil && d.State != fleet.Ready {
			firsts[d.State] = d
		}
	}
	room := 10 - len(firsts)
	var out []string
	for _, d := range list {
		switch {
		case d.State == fleet.Ready:
			continue
		case firsts[d.State] == d:
		case room > 0:
			room--
		default:
			continue
		}
		out = append(out, fmt.Sprint(d.Bundle, d.State, d.Message))
	}
	return out
}

// TestOrderDoesNotMatter: the same deployments in another order make the same
// status, or it would be written for ever (trap 51).
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 10))
		list := scattered(r, 1+r.IntN(4), 1+r.IntN(300))
		bundles := []RepoBundle{{Name: "b0", UID: "1", Targets: 1}, {Name: "b1", UID: "2", Targets: 1}}
		want := GitRepoStatus(repo(nil), Sources{Deployments: slices.Clone(list), Bundles: bundles}, now)
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		got := GitRepoStatus(repo(nil), Sources{Deployments: list, Bundles: []RepoBundle{bundles[1], bundles[0]}}, now)
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: -one order +another\n%s", seed, diff)
		}
	}
}
