package deploy

import (
	"testing"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// An order may come together with other options: the release to uninstall is the one that
// was made.
func TestWithdrawnReleaseIsTheRecordedOne(t *testing.T) {
	made, wanted := release.ID{Namespace: "shop", Name: "web"}, release.ID{Namespace: "till", Name: "web"}
	cases := map[string]struct {
		why   string
		known bool
		rec   release.ID
		want  release.ID
	}{
		"Recorded":  {"the record says which one was made", true, made, made},
		"NoRecord":  {"nothing else is known", false, made, wanted},
		"NoRelease": {"the record is of a version that was never tried", true, release.ID{}, wanted},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &snapshot{hasRecord: c.known, rec: store.Record{Release: c.rec}, wanted: release.Wanted{ID: wanted}}
			if got := installedRelease(s); got != c.want {
				t.Errorf("%s: want %s, got %s", c.why, c.want, got)
			}
		})
	}
}

// An order is not answered while a former release is still there.
func TestOrderWaitsForFormerReleases(t *testing.T) {
	forgotten := false
	w := &withdrawals{
		cleanup: &cleanup{former: &formerReleases{}, copies: &copies{}, namespaces: &namespaces{}},
		records: recordsOf(t), memory: memory{func(string) { forgotten = true }},
	}
	s := &snapshot{
		name: "web", bd: &fleet.BundleDeployment{}, failure: &report.Failure{Reason: "x"}, // which keeps the former release
		rec: store.Record{Former: []release.ID{{Namespace: "till", Name: "web"}}},
	}
	defer func() {
		if e := recover(); e != nil || forgotten {
			t.Errorf("the order is answered: forgotten %t, %v", forgotten, e)
		}
	}()
	if err := w.acknowledge(t.Context(), s, release.Action{Verb: release.Acknowledge}); err != nil {
		t.Fatal(err)
	}
}

// An order to remove one deployment removes its records, of all managers, and no others.
func TestDropAllKeepsOtherRecords(t *testing.T) {
	web, webBefore, db := store.Key{Manager: "m", Name: "web"}, store.Key{Manager: "before", Name: "web"}, store.Key{Manager: "m", Name: "db"}
	r := recordsOf(t, web, webBefore, db)
	w := &withdrawals{records: r}
	if err := w.dropAll(t.Context(), &snapshot{name: "web"}); err != nil {
		t.Fatal(err)
	}
	if left := r.All(); len(left) != 1 || left[0].Key != db {
		t.Errorf("want the record of db alone, got %+v", left)
	}
}

// recordsOf returns records with some keys.
func recordsOf(t *testing.T, keys ...store.Key) records {
	t.Helper()
	s := kubetest.New(t)
	s.MakeNamespace("agent")
	r := records{store.New(s.Connect("test"), "agent")}
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := r.Save(t.Context(), store.Record{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}
