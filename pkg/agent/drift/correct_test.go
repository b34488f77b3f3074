package drift

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

func TestFoundDrift(t *testing.T) {
	total := 0
	m := New(t.Context(), Config{OnDrift: func(n int) { total += n }})
	d := m.deploymentOf("web")
	a, b := fleet.ModifiedStatus{Kind: "ConfigMap", Name: "a"}, fleet.ModifiedStatus{Kind: "ConfigMap", Name: "b"}
	for _, step := range []struct {
		why  string
		now  []fleet.ModifiedStatus
		want int
	}{
		{"new", []fleet.ModifiedStatus{a}, 1},
		{"still there", []fleet.ModifiedStatus{a}, 1},
		{"another one", []fleet.ModifiedStatus{a, b}, 2},
		{"put back", nil, 2},
		{"again", []fleet.ModifiedStatus{a}, 3},
	} {
		if m.countNewDrift(d, step.now); total != step.want {
			t.Errorf("%s: want %d in all, got %d", step.why, step.want, total)
		}
	}
}

// repaired is a release of one ConfigMap, which a correction gives another version.
type repaired struct {
	*helm.Client
	live        *oneMap
	observed    release.Observed
	fails       error
	corrections int
}

func (r *repaired) Complete(context.Context, *release.Observed) error { return nil }

func (r *repaired) Observe(context.Context, release.ID) (release.Observed, error) {
	return r.observed, nil
}

func (r *repaired) Correct(_ context.Context, _ release.ID, _ helm.Rights, c helm.Correction) error {
	r.corrections++
	if r.fails == nil && c.Only(configMap, "ns", "a") {
		r.live.version = 2
		r.observed.Good++
	}
	return r.fails
}

// What others changed is reverted where the options ask for it, and looked at again. A
// correction that fails is tried again later; after a failed upgrade there is none.
func TestCorrect(t *testing.T) {
	for name, c := range map[string]struct {
		disabled    bool
		failed      bool // the upgrade before
		fails       error
		corrections int
		modified    bool // afterwards
	}{
		"Corrected": {corrections: 1},
		"Disabled":  {disabled: true, modified: true},
		"HalfWay":   {failed: true, modified: true},
		"Fails":     {fails: errors.New("connection refused"), corrections: 1, modified: true},
	} {
		t.Run(name, func(t *testing.T) {
			log := logrus.New()
			log.SetOutput(io.Discard)
			now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			live := &oneMap{version: 1}
			r := &repaired{live: live, fails: c.fails, observed: release.Observed{
				ID: release.ID{Namespace: "ns", Name: "web"}, State: release.Deployed, Good: 1,
				Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {version: \"2\"}\n",
			}}
			m := New(t.Context(), Config{
				Helm: r, Live: live, Log: logrus.NewEntry(log), Now: func() time.Time { return now }, Enqueue: func(string, time.Duration) {},
			})
			live.set = m.setHash("web")
			observed := r.observed
			if c.failed {
				observed.State = release.Failed
			}
			rel := Release{Name: "web", Observed: &observed, Failed: c.failed}
			rel.Spec.CorrectDrift = &fleet.CorrectDrift{Enabled: !c.disabled}
			objects, err := m.Inspect(t.Context(), rel)
			if err != nil || len(modified(objects)) != 1 {
				t.Fatalf("want one difference, got %+v, %v", objects, err)
			}
			out, err := m.Correct(t.Context(), rel, objects)
			if err != nil || r.corrections != c.corrections || (out.Attempt != nil) != (c.corrections > 0) {
				t.Fatalf("%d corrections, attempt %+v: %v", r.corrections, out.Attempt, err)
			}
			if got := len(modified(out.Objects)) > 0; got != c.modified {
				t.Errorf("modified %t, want %t", got, c.modified)
			}
			if failed := out.Failure != ""; failed != (c.fails != nil) || failed && (out.After != correctionDelay || !strings.Contains(out.Failure, "connection refused")) {
				t.Errorf("failure %q, again after %s", out.Failure, out.After)
			}
		})
	}
}
