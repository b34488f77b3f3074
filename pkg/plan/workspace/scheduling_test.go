package workspace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// settings answers as Rancher's settings.
func settings(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestScheduling(t *testing.T) {
	lower := corev1.PreemptLowerPriority
	for name, c := range map[string]struct {
		why    string
		values map[string]string
		want   *fleet.AgentSchedulingCustomization
		broken string
	}{
		"Nothing": {why: "no setting, no default"},
		"Rancher's": {
			why: "these are the values that Rancher comes with",
			values: map[string]string{
				SettingPriorityClass: `{"value":999999999,"preemptionPolicy":"PreemptLowerPriority"}`, SettingBudget: `{"minAvailable":"1","maxUnavailable":"0"}`,
			},
			want: &fleet.AgentSchedulingCustomization{
				PriorityClass:       &fleet.PriorityClassSpec{Value: 999999999, PreemptionPolicy: &lower},
				PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MinAvailable: "1", MaxUnavailable: "0"},
			},
		},
		"One": {
			why: "each counts for itself", values: map[string]string{SettingBudget: `{"maxUnavailable":"50%"}`},
			want: &fleet.AgentSchedulingCustomization{PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MaxUnavailable: "50%"}},
		},
		"Broken": {why: "a slip of the pen is said, not passed over", values: map[string]string{SettingPriorityClass: "high"}, broken: SettingPriorityClass},
		"OtherBroken": {
			why:    "it is said of the setting where it is, not of the first one",
			values: map[string]string{SettingPriorityClass: `{"value":1}`, SettingBudget: "one"}, broken: SettingBudget,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, broken, err := Scheduling(settings(c.values))
			if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != (c.broken != "") || broken != c.broken {
				t.Errorf("%s: %q %v\n-want +got\n%s", c.why, broken, err, diff)
			}
			if err != nil && reconcile.ReasonOf(err) != ReasonSetting {
				t.Errorf("reason %q", reconcile.ReasonOf(err))
			}
		})
	}
}

func TestBackfill(t *testing.T) {
	defaults := &fleet.AgentSchedulingCustomization{PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MinAvailable: "1"}}
	own := &fleet.AgentSchedulingCustomization{PriorityClass: &fleet.PriorityClassSpec{Value: 5}}
	tolerant := []corev1.Toleration{{Key: "a"}}
	type custom = management.AgentDeploymentCustomization
	for name, c := range map[string]struct {
		why      string
		asks     string
		has      *custom
		defaults *fleet.AgentSchedulingCustomization
		want     *custom
		ok       bool
	}{
		"Nothing":   {why: "there is no setting", has: &custom{AppendTolerations: tolerant}, defaults: defaults, want: &custom{AppendTolerations: tolerant}},
		"Nonsense":  {why: "Rancher leaves what it does not know", asks: "yes", defaults: defaults},
		"On":        {why: "it gets the defaults, and keeps the rest", asks: "True", has: &custom{AppendTolerations: tolerant}, defaults: defaults, want: &custom{AppendTolerations: tolerant, SchedulingCustomization: defaults}, ok: true},
		"Bare":      {why: "a cluster without any wish may ask, too", asks: "true", defaults: defaults, want: &custom{SchedulingCustomization: defaults}, ok: true},
		"Own":       {why: "its own wish counts more", asks: "true", has: &custom{SchedulingCustomization: own}, defaults: defaults, want: &custom{SchedulingCustomization: own}, ok: true},
		"Off":       {why: "it is to have none", asks: "false", has: &custom{AppendTolerations: tolerant, SchedulingCustomization: own}, defaults: defaults, want: &custom{AppendTolerations: tolerant}, ok: true},
		"OffBare":   {why: "there is nothing to take", asks: "false", defaults: defaults, ok: true},
		"NoDefault": {why: "the question is answered all the same", asks: "true", ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{"mine": "a"}
			if c.asks != "" {
				annotations[AnnotationScheduling] = c.asks
			}
			before := c.has.DeepCopy()
			rest, got, ok := Backfill(annotations, c.has, c.defaults)
			if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok {
				t.Errorf("%s: %v\n-want +got\n%s", c.why, ok, diff)
			}
			if ok && (len(rest) != 1 || rest["mine"] != "a") {
				t.Errorf("the annotation is not taken off: %v", rest)
			}
			if diff := cmp.Diff(before, c.has); diff != "" || c.asks != "" && annotations[AnnotationScheduling] == "" {
				t.Errorf("it was changed where it was: %s", diff)
			}
		})
	}
}

func TestDefaultWorkspace(t *testing.T) {
	for name, c := range map[string]struct {
		why     string
		setting string
		ns      *metav1.PartialObjectMetadata
		want    bool
		managed string
	}{
		"Empty":  {why: "an empty setting means none"},
		"New":    {why: "its namespace follows", setting: "team-a", want: true},
		"System": {why: "a slip of the pen must not open the system", setting: "kube-system"},
		"Ours":   {why: "its namespace stays its own", setting: "team-a", ns: namespace("team-a", nil, map[string]string{AnnotationOrigin: OriginCreated}), want: true},
		"There":  {why: "a namespace that was there is not taken by way of a setting", setting: "prod", ns: namespace("prod", nil, nil), want: true, managed: "false"},
	} {
		t.Run(name, func(t *testing.T) {
			w := DefaultWorkspace(c.setting, c.ns)
			if (w != nil) != c.want || w != nil && (w.Name != c.setting || w.Annotations[AnnotationManaged] != c.managed) {
				t.Errorf("%s: %+v", c.why, w)
			}
		})
	}
}

func TestFill(t *testing.T) {
	all := map[string]string{SettingServerURL: "https://rancher", SettingCACerts: "PEM", SettingTLSMode: "strict", SettingRegistry: "registry.example/"}
	for name, c := range map[string]struct {
		why    string
		chart  registration.Settings
		values map[string]string
		want   registration.Settings
	}{
		"Nothing": {why: "without Rancher the chart is all", chart: registration.Settings{AgentTLSMode: "system-store"}, want: registration.Settings{AgentTLSMode: "system-store"}},
		"All": {
			why: "the chart says nothing", chart: registration.Settings{AgentTLSMode: "system-store"}, values: all,
			want: registration.Settings{APIServerURL: "https://rancher", APIServerCA: []byte("PEM"), AgentTLSMode: "strict", SystemDefaultRegistry: "registry.example"},
		},
		"Chart": {
			why: "what the chart says counts, and its address is not mixed with other certificates", values: all,
			chart: registration.Settings{APIServerURL: "https://chart", AgentTLSMode: "system-store", SystemDefaultRegistry: "own"},
			want:  registration.Settings{APIServerURL: "https://chart", AgentTLSMode: "system-store", SystemDefaultRegistry: "own"},
		},
		"NoAddress": {
			why: "certificates without an address belong to nothing", values: map[string]string{SettingCACerts: "PEM", SettingTLSMode: "strict"},
			chart: registration.Settings{AgentTLSMode: "system-store"}, want: registration.Settings{AgentTLSMode: "system-store"},
		},
		"Public": {
			why: "no certificates are none, and not the chart's", values: map[string]string{SettingServerURL: "https://rancher", SettingTLSMode: "odd"},
			chart: registration.Settings{APIServerCA: []byte("old"), AgentTLSMode: "system-store"},
			want:  registration.Settings{APIServerURL: "https://rancher", AgentTLSMode: "system-store"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, ReportedBy(settings(c.values)).Fill(c.chart)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
