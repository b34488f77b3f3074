package deploy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// The release before stays, without a look at it, while the new one does not stand.
func TestFormerStaysWhileTheNewOneFails(t *testing.T) {
	old, next := release.ID{Namespace: "shop", Name: "web"}, release.ID{Namespace: "till", Name: "web"}
	s := &snapshot{
		rec: store.Record{Release: next, Former: []release.ID{old}}, wanted: release.Wanted{ID: next},
		failure: &report.Failure{Reason: "InstallFailed"},
	}
	defer func() {
		if e := recover(); e != nil {
			t.Errorf("the release before was touched: %v", e)
		}
	}()
	if err := (&formerReleases{}).remove(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]release.ID{old}, s.rec.Former); diff != "" {
		t.Error(diff)
	}
}
