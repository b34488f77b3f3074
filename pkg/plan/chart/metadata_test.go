package chart_test

import (
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

func TestNameAndVersion(t *testing.T) {
	data := chart.MetadataFile(strings.NewReader(string(webtest.Chart{Name: "redis", Version: "17.0.1"}.Pack())))
	if name, version, err := chart.NameAndVersion(data); name != "redis" || version != "17.0.1" || err != nil {
		t.Errorf("%q %q %v", name, version, err)
	}
	for _, bad := range []string{"", "name: ../x\nversion: 1.0.0", "name: a\nversion: ../1", "name: a"} {
		if _, _, err := chart.NameAndVersion([]byte(bad)); reconcile.ReasonOf(err) != chart.ReasonInvalidChart {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if got := chart.MetadataFile(strings.NewReader("no archive")); got != nil {
		t.Errorf("%q", got)
	}
}
