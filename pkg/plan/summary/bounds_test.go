package summary

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// statusBytes is the limit for the size of a status, whatever fails.
const statusBytes = 64 << 10

// failing is deployments of one bundle with so many objects on so many clusters,
// all of which fail at length, with long names.
func failing(bundle string, clusters, objectCount int) []*Deployment {
	long := strings.Repeat("why it <does> \"not\" work; ", 100)
	list := objects(bundle+strings.Repeat("-long", 10), objectCount)
	var out []*Deployment
	for i := range clusters {
		d := &Deployment{
			Bundle: bundle, Cluster: fmt.Sprintf("a-workspace-of-shops/store-%05d-of-the-great-northern-chain", i), Repo: "ns/repo",
			UID: types.UID(fmt.Sprintf("%s-%05d", bundle, i*7919%clusters)), State: fleet.States[i%6], Message: fmt.Sprint(i, long),
			Resources: list, Counts: fleet.ResourceCounts{DesiredReady: objectCount, NotReady: objectCount},
		}
		for n := range min(objectCount, fleet.StatusListLimit) {
			o := list[n]
			d.NonReady = append(d.NonReady, fleet.NonReadyStatus{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name,
				Summary: fleet.Summary{State: "error", Error: true, Message: []string{long, long}}})
			d.Modified = append(d.Modified, fleet.ModifiedStatus{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Patch: long})
		}
		out = append(out, d)
	}
	return out
}

func bytesOf(t testing.TB, status any) int {
	t.Helper()
	raw, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

// TestStatusIsBounded: whatever fails, however many, and however long it is about
// it, a status stays below 64 KiB, counts exactly and gives examples.
func TestStatusIsBounded(t *testing.T) {
	bundles := func(n, clusters, objects int) (out []*Deployment) {
		for i := range n {
			out = append(out, failing(fmt.Sprintf("bundle-%02d", i), clusters, objects)...)
		}
		return out
	}
	for name, list := range map[string][]*Deployment{
		"5000 clusters, 5 objects":              failing("app", 5000, 5),
		"5000 clusters, 1000 objects":           failing("app", 5000, 1000),
		"1000 clusters, 10 bundles, 20 objects": bundles(10, 1000, 20),
	} {
		t.Run(name, func(t *testing.T) {
			st := GitRepoStatus(repo(nil), Sources{Deployments: list, Bundles: []RepoBundle{{Name: "app", Targets: len(list)}}}, now)
			if size := bytesOf(t, st); size > statusBytes {
				t.Errorf("%d bytes", size)
			}
			n := st.Summary.NotReady + st.Summary.ErrApplied + st.Summary.WaitApplied + st.Summary.Modified + st.Summary.OutOfSync + st.Summary.Pending
			if n != len(list) || st.Summary.DesiredReady != len(list) || st.ResourceCounts.NotReady != len(list)*list[0].Counts.NotReady {
				t.Errorf("counts %+v, %+v", st.Summary, st.ResourceCounts)
			}
			if len(st.Summary.NonReadyResources) != 10 || len(st.Resources) == 0 || len(st.PerClusterResourceCounts) < 50 ||
				!st.Resources[0].IncompleteState || len(st.Resources[0].PerClusterState.Modified) == 0 {
				t.Errorf("which ones is not said: %d, %d, %d", len(st.Summary.NonReadyResources), len(st.Resources), len(st.PerClusterResourceCounts))
			}
		})
	}
}

// TestCompleteIsBounded: with 200 clusters lists are complete as long as an API
// server takes the object: etcd refuses 1.5 MiB.
func TestCompleteIsBounded(t *testing.T) {
	var list []*Deployment
	for i := range 50 {
		list = append(list, failing(fmt.Sprintf("bundle-%02d", i), 200, 50)...)
	}
	st := GitRepoStatus(repo(nil), Sources{Deployments: list, Bundles: []RepoBundle{{Name: "app", Targets: 200}}}, now)
	if size := bytesOf(t, st); size > 640<<10 {
		t.Errorf("%d bytes", size)
	}
	if len(st.PerClusterResourceCounts) != 200 || len(st.Resources) < 500 || !st.Resources[0].IncompleteState {
		t.Errorf("%d clusters, %d objects", len(st.PerClusterResourceCounts), len(st.Resources))
	}
}

// TestBundleIsBounded: the same for a Bundle, with few and with very many
// partitions.
func TestBundleIsBounded(t *testing.T) {
	list := failing("app", 5000, 5)
	for _, partitions := range []int{1, 4, 40, 1000} {
		f := shaped(list, partitions)
		st := BundleStatus(&fleet.BundleStatus{}, f, now)
		if size := bytesOf(t, st); size > statusBytes {
			t.Errorf("%d partitions: %d bytes", partitions, size)
		}
		if want := min(partitions, maxPartitions); len(st.PartitionStatus) != want {
			t.Errorf("%d partitions: %d are listed, want %d", partitions, len(st.PartitionStatus), want)
		}
		if st.Summary.ErrApplied != 834 || st.Display.ReadyClusters != "0/5000" || len(st.Summary.NonReadyResources) != 10 {
			t.Errorf("counts %+v", st.Summary)
		}
	}
}

// shaped is a Bundle whose deployments are cut into partitions.
func shaped(list []*Deployment, partitions int) *Bundle {
	f := &Bundle{Generation: 3, Deployments: list}
	size := len(list) / partitions
	targets := make([]rollout.Target, len(list))
	for i := range partitions {
		p := rollout.Partition{Name: fmt.Sprintf("Partition %d - %d", i*size, (i+1)*size), Limit: size}
		for n := range size {
			p.Members = append(p.Members, i*size+n)
		}
		f.Shape.Partitions = append(f.Shape.Partitions, p)
	}
	f.Shape.MaxUnavailable = len(list)
	for i, d := range list {
		targets[i] = rollout.Target{Name: d.Cluster, Desired: "1", Exists: true, Staged: "1", Current: "1", Applied: "1", Ready: d.State == fleet.Ready}
	}
	f.Rollout = rollout.Count(f.Shape, targets)
	return f
}

// TestManyPartitions: of many partitions those that are not there yet are listed.
func TestManyPartitions(t *testing.T) {
	var lines []string
	for i := range 300 {
		lines = append(lines, fmt.Sprintf("c%03d Ready", i))
	}
	for _, i := range []int{3, 150, 299} {
		lines[i] = strings.Replace(lines[i], "Ready", "NotReady", 1)
	}
	st := BundleStatus(&fleet.BundleStatus{}, shaped(d(lines...), 300), now)
	var bad []string
	for _, p := range st.PartitionStatus {
		if p.Summary.NotReady > 0 {
			bad = append(bad, p.Name)
		}
	}
	if len(st.PartitionStatus) != 100 || strings.Join(bad, ", ") != "Partition 3 - 4, Partition 150 - 151, Partition 299 - 300" {
		t.Errorf("%d are listed, not there yet are %v", len(st.PartitionStatus), bad)
	}
}

// TestPartitionNamesObjects: a partition says which objects of its clusters are not
// ready, as the Bundle itself does.
func TestPartitionNamesObjects(t *testing.T) {
	list := d("c1 NotReady", "c2 Ready")
	list[0].NonReady = []fleet.NonReadyStatus{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "web", Name: "web",
		Summary: fleet.Summary{State: "updating", Transitioning: true, Message: []string{"Available: 0/1"}}}}
	st := BundleStatus(&fleet.BundleStatus{}, shaped(list, 1), now)
	if diff := cmp.Diff(st.Summary.NonReadyResources, st.PartitionStatus[0].Summary.NonReadyResources); diff != "" {
		t.Errorf("-Bundle +partition\n%s", diff)
	}
}

// TestReadyKeepsTexts: a condition Ready below 1,024 characters has the texts of objects as
// they are, as in Rancher Fleet v0.16; a longer one ends at a word.
func TestReadyKeepsTexts(t *testing.T) {
	cases := map[string]struct {
		why   string
		words int
		whole bool
	}{
		"Short": {"nothing is cut", 5, true},
		"Long":  {"a text of some hundred characters fits", 100, true},
		"Most":  {"up to the limit of the message", 135, true},
		"Over":  {"above it the message ends at a word", 500, false},
	}
	for name, c := range cases {
		text := strings.TrimSpace(strings.Repeat("sixchr ", c.words))
		modified, unready := d("c1 Modified"), d("c1 NotReady")
		modified[0].Modified = []fleet.ModifiedStatus{{APIVersion: "v1", Kind: "ConfigMap", Namespace: "web", Name: "a", Patch: text}}
		unready[0].NonReady = []fleet.NonReadyStatus{{APIVersion: "v1", Kind: "Pod", Namespace: "web", Name: "a", Summary: fleet.Summary{State: "x", Error: true, Message: []string{text}}}}
		for want, list := range map[string][]*Deployment{
			"Modified(1) [Cluster ns/c1]; configmap.v1 web/a modified " + text: modified,
			"NotReady(1) [Cluster ns/c1]; pod.v1 web/a error] " + text:         unready,
		} {
			st := BundleStatus(&fleet.BundleStatus{}, &Bundle{Deployments: list}, now)
			got := condition.Find(st.Conditions, fleet.ConditionReady).Message
			if c.whole && got != want {
				t.Errorf("%s: %s: got %q", name, c.why, got)
			}
			if words, cut := strings.CutSuffix(got, "…"); !c.whole && (!cut || !strings.HasSuffix(words, " sixchr") || len(got) < 1000) {
				t.Errorf("%s: %s: got %q", name, c.why, got)
			}
		}
	}
}

// TestClusterIsBounded: 50 bundles fail on a cluster, and 5,000 clusters of a
// group.
func TestClusterIsBounded(t *testing.T) {
	var list []*Deployment
	for i := range 50 {
		list = append(list, failing(fmt.Sprintf("bundle-%02d", i), 6, 20)...)
	}
	st := ClusterStatus(&fleet.Cluster{}, ClusterView{Deployments: list, Life: Online}, now)
	if size := bytesOf(t, st); size > statusBytes {
		t.Errorf("Cluster: %d bytes", size)
	}
	if st.Summary.DesiredReady != 300 || st.Summary.ErrApplied != 50 || len(st.Summary.NonReadyResources) != 10 {
		t.Errorf("counts %+v", st.Summary)
	}
	var members []Member
	for i := range 5000 {
		members = append(members, Member{Name: fmt.Sprintf("store-%05d", i), Summary: st.Summary, Counts: st.ResourceCounts})
	}
	g := GroupStatus(&fleet.ClusterGroup{}, members, now)
	if size := bytesOf(t, g); size > statusBytes {
		t.Errorf("ClusterGroup: %d bytes", size)
	}
	if g.Summary.ErrApplied != 250000 || g.NonReadyClusterCount != 5000 || len(g.NonReadyClusters) != 10 || len(g.Summary.NonReadyResources) != 10 {
		t.Errorf("counts %+v", g)
	}
}

// TestEntryIsBounded: one deployment in a list keeps what fits, the first objects
// first.
func TestEntryIsBounded(t *testing.T) {
	short := NonReadyResource("c1", &Deployment{State: fleet.Modified, Message: "x",
		Modified: []fleet.ModifiedStatus{{Kind: "ConfigMap", Name: "a", Patch: "{}"}}, NonReady: []fleet.NonReadyStatus{{Kind: "Pod", Name: "b"}}})
	want := fleet.NonReadyResource{Name: "c1", State: fleet.Modified, Message: "x",
		ModifiedStatus: []fleet.ModifiedStatus{{Kind: "ConfigMap", Name: "a", Patch: "{}"}}, NonReadyStatus: []fleet.NonReadyStatus{{Kind: "Pod", Name: "b"}}}
	if diff := cmp.Diff(want, short); diff != "" {
		t.Errorf("what is short stays as it is\n-want +got\n%s", diff)
	}
	text := strings.TrimSpace(strings.Repeat("cannot apply the object; ", 50))
	full := NonReadyResource("c1", &Deployment{State: fleet.ErrApplied, Message: text[:1020], Modified: short.ModifiedStatus})
	if full.Message != text[:1020] || len(full.ModifiedStatus) != 1 {
		t.Errorf("a message of 1,020 characters is not cut: %q", full.Message)
	}
	c := Ready(ByCluster, &fleet.BundleSummary{ErrApplied: 1, NonReadyResources: []fleet.NonReadyResource{full}}, 1)
	if n := len([]rune(c.Message)); n < 1000 || n > 1024 {
		t.Errorf("the Ready condition has %d characters", n)
	}
	long := failing("app", 1, 10)[0]
	before := bytesOf(t, long)
	got := NonReadyResource("c1", long)
	if size := bytesOf(t, got); size > entryBytes {
		t.Errorf("%d bytes", size)
	}
	if len(got.ModifiedStatus) == 0 || !strings.HasSuffix(got.ModifiedStatus[0].Patch, "…") || got.ModifiedStatus[0].Name != long.Modified[0].Name {
		t.Errorf("got %+v", got.ModifiedStatus)
	}
	if after := bytesOf(t, long); after != before {
		t.Error("the deployment was changed")
	}
}

// Up to 200 clusters the lists per cluster are complete.
func TestCompleteUpTo200(t *testing.T) {
	for _, n := range []int{200, 201} {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf("c%03d Ready", i))
		}
		lines[7] = "c007 Modified"
		list := d(lines...)
		shared := objects("x", 1)
		for _, x := range list {
			x.Resources = shared
		}
		list[7].Modified = []fleet.ModifiedStatus{{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: "x-0", Patch: "{}"}}
		st := GitRepoStatus(repo(nil), Sources{Deployments: list, Bundles: []RepoBundle{{Name: "app", Targets: n}}}, now)
		r := st.Resources[0]
		got := fmt.Sprint(len(st.PerClusterResourceCounts), len(r.PerClusterState.Ready), r.PerClusterState.Modified, r.IncompleteState)
		want := map[int]string{200: "200 199 [ns/c007] false", 201: "1 10 [ns/c007] true"}[n]
		if got != want {
			t.Errorf("%d clusters: got %s, want %s", n, got, want)
		}
	}
}

// processor runs f again and again, and measures the time of the processor: that
// of the clock depends on who else is there.
func processor(b *testing.B, f func()) {
	b.Helper()
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	for b.Loop() {
		f()
	}
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	spent := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(spent)/1e6/float64(b.N), "cpu-ms/op")
}

// The manager works out these once a second while a rollout runs.
func BenchmarkStatus5000(b *testing.B) {
	mixed, worst, bad := large(), failing("app", 5000, 5), failing("app", 5000, 5)
	for _, x := range bad {
		x.Modified, x.Message = nil, x.Message[:150]
	}
	var ready []*Deployment
	for i, x := range mixed {
		if i%2 == 0 {
			ready = append(ready, x)
		}
	}
	for name, list := range map[string][]*Deployment{"mixed": ready, "failing": bad, "failingTwiceAtLength": worst} {
		b.Run("GitRepo/"+name, func(b *testing.B) {
			r := repo(nil)
			processor(b, func() {
				GitRepoStatus(r, Sources{Deployments: list, Bundles: []RepoBundle{{Name: "app", Targets: 5000}}}, now)
			})
		})
		f := shaped(list, 4)
		b.Run("Bundle/"+name, func(b *testing.B) {
			processor(b, func() { BundleStatus(&fleet.BundleStatus{}, f, now) })
		})
	}
	var members []Member
	one := Count(ByBundle, bad[:50])
	for i := range 5000 {
		members = append(members, Member{Name: fmt.Sprintf("store-%05d", i), Summary: one})
	}
	b.Run("ClusterGroup", func(b *testing.B) {
		processor(b, func() { GroupStatus(&fleet.ClusterGroup{}, members, now) })
	})
	b.Run("Cluster/50bundles", func(b *testing.B) {
		processor(b, func() { ClusterStatus(&fleet.Cluster{}, ClusterView{Deployments: bad[:50], Life: Online}, now) })
	})
}

// TestCost: a status is worked out in one pass, without an allocation for each
// deployment: ten deployments more take less than one allocation more. What a status
// takes in all differs with the race detector, which empties the pools of encoding/json.
func TestCost(t *testing.T) {
	for name, list := range map[string][]*Deployment{"mixed": large(), "failing": failing("app", 5000, 5)} {
		few := list[:len(list)/5]
		limit := float64(len(list)-len(few)) / 10
		wholeRepo, fewRepo := repoCost(list), repoCost(few)
		if wholeRepo-fewRepo > limit {
			t.Errorf("%s: a GitRepo takes %.0f allocations with %d deployments, %.0f with %d", name, wholeRepo, len(list), fewRepo, len(few))
		}
		wholeBundle, fewBundle := bundleCost(list), bundleCost(few)
		if wholeBundle-fewBundle > limit {
			t.Errorf("%s: a Bundle takes %.0f allocations with %d deployments, %.0f with %d", name, wholeBundle, len(list), fewBundle, len(few))
		}
	}
}

// repoCost is how many allocations the status of a GitRepo with these deployments takes.
func repoCost(list []*Deployment) float64 {
	r := repo(nil)
	return testing.AllocsPerRun(3, func() {
		GitRepoStatus(r, Sources{Deployments: list, Bundles: []RepoBundle{{Name: "app", Targets: len(list)}}}, now)
	})
}

// bundleCost is the same for a Bundle.
func bundleCost(list []*Deployment) float64 {
	f := shaped(list, 4)
	return testing.AllocsPerRun(3, func() { BundleStatus(&fleet.BundleStatus{}, f, now) })
}
