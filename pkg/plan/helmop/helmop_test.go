package helmop

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func opWith(o *fleet.HelmOptions) *fleet.HelmOp {
	op := &fleet.HelmOp{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "op", Generation: 3}}
	op.Spec.Helm = o
	return op
}

func TestSpecError(t *testing.T) {
	for name, c := range map[string]struct {
		helm *fleet.HelmOptions
		want string
	}{
		"None":              {nil, "helm options are empty in the HelmOp's spec"},
		"Empty":             {&fleet.HelmOptions{}, "helm options invalid: non-tarball chart with an empty repo field"},
		"Archive":           {&fleet.HelmOptions{Chart: "https://e.com/a.TGZ"}, ""},
		"ArchiveRepo":       {&fleet.HelmOptions{Chart: "a.tgz", Repo: "https://e.com"}, "helm options invalid: tarball chart with a non-empty repo field"},
		"ArchiveVersion":    {&fleet.HelmOptions{Chart: "a.tgz", Version: "1"}, "helm options invalid: tarball chart with a non-empty version field"},
		"Registry":          {&fleet.HelmOptions{Repo: "OCI://e.com/a"}, ""},
		"RegistryChart":     {&fleet.HelmOptions{Repo: "oci://e.com/a", Chart: "a"}, "helm options invalid: OCI repository with a non-empty chart field"},
		"Repository":        {&fleet.HelmOptions{Repo: "https://e.com", Chart: "a"}, ""},
		"RepositoryNoChart": {&fleet.HelmOptions{Repo: "https://e.com"}, "helm options invalid: non-OCI repository with an empty chart field"},
		"NoRepository":      {&fleet.HelmOptions{Chart: "a"}, "helm options invalid: non-tarball chart with an empty repo field"},
	} {
		t.Run(name, func(t *testing.T) {
			err := SpecError(&opWith(c.helm).Spec)
			if got := errorText(err); got != c.want {
				t.Errorf("want %q, got %q", c.want, got)
			}
			if err != nil && (!reconcile.IsTerminal(err) || reconcile.ReasonOf(err) != ReasonInvalidSpec) {
				t.Errorf("got %T with reason %s", err, reconcile.ReasonOf(err))
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestInterval(t *testing.T) {
	for version, constraint := range map[string]bool{
		"": true, "*": true, "^1": true, "1.2": true, "1": true, ">=1.0.0 <2": true,
		"1.2.3": false, "v1.2.3": false, "1.2.3-rc.1+build": false,
	} {
		op := opWith(&fleet.HelmOptions{Repo: "https://e.com", Chart: "a", Version: version})
		if IsConstraint(op.Spec.Helm) != constraint {
			t.Errorf("%q: want a constraint: %v", version, constraint)
		}
		op.Spec.PollingInterval = &metav1.Duration{Duration: time.Minute}
		if got := Interval(&op.Spec); (got == time.Minute) != constraint {
			t.Errorf("%q: got interval %s", version, got)
		}
	}
	op := opWith(&fleet.HelmOptions{Repo: "https://e.com", Chart: "a"})
	for given, want := range map[time.Duration]time.Duration{0: 0, -time.Second: 0, time.Millisecond: time.Second, time.Hour: time.Hour} {
		op.Spec.PollingInterval = &metav1.Duration{Duration: given}
		if got := Interval(&op.Spec); got != want {
			t.Errorf("pollingInterval %s: want %s, got %s", given, want, got)
		}
	}
	op.Spec.Helm = &fleet.HelmOptions{Chart: "https://e.com/a.tgz"}
	if got := Interval(&op.Spec); got != 0 {
		t.Errorf("a packaged chart is polled every %s", got)
	}
}

func TestBundleOf(t *testing.T) {
	op := opWith(&fleet.HelmOptions{Repo: "https://e.com", Chart: "a", Version: "^1"})
	op.Labels = map[string]string{"mine": "1", fleet.LabelShardRef: "blue"}
	op.Spec.Labels = map[string]string{"tier": "1", fleet.LabelHelmOpName: "another"}
	op.Spec.HelmSecretName, op.Spec.InsecureSkipTLSverify = "auth", true
	op.Spec.Resources = []fleet.BundleResource{{Name: "a.yaml"}}
	op.Spec.HelmOpOptions = &fleet.BundleHelmOptions{SecretName: "another", Pull: fleet.PullManager}
	op.Spec.Targets = []fleet.BundleTarget{
		{Name: "first"},
		{BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{ReleaseName: "b"}}},
		{BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Version: "1.0.0"}}},
	}
	before := op.DeepCopy()
	b := BundleOf(op, "1.4.0", []byte("authorities"))
	if diff := cmp.Diff(before, op); diff != "" {
		t.Errorf("the HelmOp was changed\n%s", diff)
	}
	want := map[string]string{"tier": "1", fleet.LabelHelmOpName: "op", fleet.LabelShardRef: "blue"}
	if diff := cmp.Diff(want, b.Labels); diff != "" {
		t.Errorf("labels\n%s", diff)
	}
	if diff := cmp.Diff(&fleet.BundleHelmOptions{SecretName: "auth", InsecureSkipTLSverify: true, CABundle: []byte("authorities"), Pull: fleet.PullManager}, b.Spec.HelmOpOptions); diff != "" {
		t.Errorf("helmOpOptions\n%s", diff)
	}
	if b.Namespace != "team" || b.Name != "op" || b.Spec.Helm.Version != "1.4.0" || b.Spec.Resources != nil {
		t.Errorf("got %+v", b)
	}
	names := []string{b.Spec.Targets[0].Name, b.Spec.Targets[1].Name, b.Spec.Targets[2].Name}
	if diff := cmp.Diff([]string{"first", "target001", "target002"}, names); diff != "" {
		t.Errorf("targets\n%s", diff)
	}
	if diff := cmp.Diff(&fleet.HelmOptions{ReleaseName: "b", Repo: "https://e.com", Chart: "a", Version: "1.4.0"}, b.Spec.Targets[1].Helm); diff != "" {
		t.Errorf("options of a target\n%s", diff)
	}
	if got := b.Spec.Targets[2].Helm.Version; got != "1.0.0" {
		t.Errorf("the target's own version became %s", got)
	}
	if got := BundleOf(opWith(op.Spec.Helm), "1", nil).Spec.Targets; len(got) != 1 || got[0].Name != "default" || got[0].ClusterGroup != "default" {
		t.Errorf("without targets: %+v", got)
	}
}

func TestStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	polled := func(op *fleet.HelmOp) *fleet.HelmOp {
		op.Spec.PollingInterval = &metav1.Duration{Duration: time.Minute}
		return op
	}
	chart := &fleet.HelmOptions{Repo: "https://e.com", Chart: "a"}
	for name, c := range map[string]struct {
		facts Facts
		want  map[string]string // conditions; empty: there is none
	}{
		"Once":      {Facts{Op: opWith(chart), Asked: true, Version: "1.0.0"}, map[string]string{"Accepted": "True", "Polled": "", "Stalled": "False", "Reconciling": "False"}},
		"Polled":    {Facts{Op: polled(opWith(chart)), Asked: true, Version: "1.0.0"}, map[string]string{"Accepted": "True", "Polled": "True", "Stalled": "False"}},
		"NotAsked":  {Facts{Op: polled(opWith(chart)), Version: "1.0.0"}, map[string]string{"Accepted": "True", "Polled": "", "Stalled": "False"}},
		"Away":      {Facts{Op: polled(opWith(chart)), Asked: true, Err: reconcile.RequeueError("Unreachable", 0, errors.New("away"))}, map[string]string{"Accepted": "", "Polled": "False", "Stalled": "False", "Reconciling": "True"}},
		"NoVersion": {Facts{Op: opWith(chart), Asked: true, Err: reconcile.TerminalError("VersionNotFound", errors.New("none"))}, map[string]string{"Accepted": "", "Polled": "", "Stalled": "True", "Reconciling": "False"}},
		"Refused":   {Facts{Op: opWith(nil), Refused: SpecError(&fleet.HelmOpSpec{})}, map[string]string{"Accepted": "False", "Stalled": "True"}},
		"Suspended": {Facts{Op: opWith(chart), Suspended: "suspended"}, map[string]string{"Accepted": "", "Stalled": "False", "Reconciling": "True"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Status(c.facts, now)
			for kind, want := range c.want {
				got := ""
				if found := condition.Find(s.Conditions, kind); found != nil {
					got = string(found.Status)
				}
				if got != want {
					t.Errorf("%s: want %q, got %q", kind, want, got)
				}
			}
			if s.Version != c.facts.Version {
				t.Errorf("got version %q", s.Version)
			}
			again := c.facts
			again.Op = c.facts.Op.DeepCopy()
			again.Op.Status = s
			if diff := cmp.Diff(s, Status(again, now.Add(time.Hour))); diff != "" {
				t.Errorf("the same facts give another status\n%s", diff)
			}
			version, ok := Known(again.Op, nil)
			if ok != (s.Version != "") || version != s.Version {
				t.Errorf("known: %q, %v", version, ok)
			}
			again.Op.Generation++
			if _, ok := Known(again.Op, nil); ok {
				t.Error("the version of another spec is taken for known")
			}
		})
	}
}

// What Rancher Fleet has deployed is not asked for again, so that a takeover does not
// change versions.
func TestKnownOfAnotherManager(t *testing.T) {
	for name, c := range map[string]struct {
		wanted, status string
		live           *fleet.HelmOptions
		want           bool
	}{
		"Same":         {"^1", "1.2.0", &fleet.HelmOptions{Repo: "r", Chart: "c", Version: "1.2.0"}, true},
		"Newest":       {"", "v1.2.0", &fleet.HelmOptions{Repo: "r", Chart: "c", Version: "v1.2.0"}, true},
		"NoBundle":     {"^1", "1.2.0", nil, false},
		"OtherVersion": {"^1", "1.2.0", &fleet.HelmOptions{Repo: "r", Chart: "c", Version: "1.1.0"}, false},
		"OtherChart":   {"^1", "1.2.0", &fleet.HelmOptions{Repo: "r", Chart: "d", Version: "1.2.0"}, false},
		"OtherRepo":    {"^1", "1.2.0", &fleet.HelmOptions{Repo: "s", Chart: "c", Version: "1.2.0"}, false},
		"Constraint":   {"^2", "1.2.0", &fleet.HelmOptions{Repo: "r", Chart: "c", Version: "1.2.0"}, false},
		"NoVersion":    {"^1", "", &fleet.HelmOptions{Repo: "r", Chart: "c"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			op := opWith(&fleet.HelmOptions{Repo: "r", Chart: "c", Version: c.wanted})
			op.Status.Version = c.status
			op.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionAccepted, Status: "True"}}
			var live *fleet.Bundle
			if c.live != nil {
				live = &fleet.Bundle{}
				live.Spec.Helm = c.live
			}
			if _, ok := Known(op, live); ok != c.want {
				t.Errorf("want %v, got %v", c.want, ok)
			}
		})
	}
}
