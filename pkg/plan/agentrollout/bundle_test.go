package agentrollout

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// settings are those of a manager in production.
func settings(t *testing.T, config string) Manager {
	t.Helper()
	s, _, err := registration.ParseSettings(config)
	if err != nil {
		t.Fatal(err)
	}
	return Manager{Settings: s, System: registration.System{Namespace: "cattle-fleet-system", ManagerID: "m1"}}
}

func plain(t *testing.T) Manager {
	return settings(t, `{"agentImage":"x/agent:v1.0.0","systemDefaultRegistry":"reg.example.com"}`)
}

func cluster(change func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c1", UID: "u1"}}
	c.Spec.ClientID = "word"
	c.Status.Agent.Namespace = "cattle-fleet-system"
	if change != nil {
		change(c)
	}
	return c
}

func wishes(c *fleet.Cluster) {
	never := corev1.PreemptNever
	c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://proxy:3128"}}
	c.Spec.AgentTolerations = []corev1.Toleration{{Key: "z", Operator: corev1.TolerationOpExists}, {Key: "a", Operator: corev1.TolerationOpExists}}
	c.Spec.AgentAffinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpDoesNotExist}}}},
	}}}
	c.Spec.AgentResources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}}
	c.Spec.HostNetwork = new(true)
	c.Spec.PrivateRepoURL = "mirror.example.com:5000"
	c.Spec.AgentPullSecrets = &[]corev1.LocalObjectReference{{Name: "mine"}}
	c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{
		PriorityClass:       &fleet.PriorityClassSpec{Value: 1000, PreemptionPolicy: &never},
		PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MinAvailable: "0", MaxUnavailable: "50%"},
	}
}

// local makes a Cluster the manager's own.
func local(c *fleet.Cluster) {
	c.Namespace, c.Name = "fleet-local", "local"
	c.Spec.KubeConfigSecret, c.Spec.AgentNamespace = "local-cluster", "cattle-fleet-local-system"
}

// TestBundle compares the objects of agents with testdata/TestBundle/<case>.golden.
// Run with -update after a change of what agents are; each such change starts
// every agent of every fleet again.
func TestBundle(t *testing.T) {
	cases := map[string]func(*fleet.Cluster){
		"chart":      nil,
		"chart-all":  wishes,
		"import":     func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "k" },
		"import-all": func(c *fleet.Cluster) { c.Spec.KubeConfigSecret, c.Spec.AgentNamespace = "k", "edge-agent"; wishes(c) },
		"local":      local,
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			m := plain(t)
			m.Tolerations = []corev1.Toleration{{Key: "control-plane", Operator: corev1.TolerationOpExists}}
			build, err := m.Build()
			if err != nil {
				t.Fatal(err)
			}
			b, err := m.Bundle(cluster(change), build)
			if err != nil {
				t.Fatal(err)
			}
			got := "# " + b.Namespace + "/" + b.Name + " in " + b.Spec.DefaultNamespace + "\n" + b.Spec.Resources[0].Content
			path := filepath.Join("testdata", "TestBundle", name+".golden")
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestBuild: what makes agents different, and what does not.
func TestBuild(t *testing.T) {
	of := func(m Manager) Build {
		b, err := m.Build()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	base := of(plain(t))
	if base != of(plain(t)) || base.Image != "reg.example.com/x/agent:v1.0.0" {
		t.Errorf("the same settings make another build: %v", base)
	}
	other := of(settings(t, `{"agentImage":"x/agent:v2.0.0","systemDefaultRegistry":"reg.example.com"}`))
	if other.Image == base.Image || other.Shape != base.Shape {
		t.Errorf("another version is another image, and nothing else: %v, %v", base, other)
	}
	for name, config := range map[string]string{
		"TLSMode":  `{"agentImage":"x/agent:v1.0.0","systemDefaultRegistry":"reg.example.com","agentTLSMode":"strict"}`,
		"Replicas": `{"agentImage":"x/agent:v1.0.0","systemDefaultRegistry":"reg.example.com","agentReplicas":2}`,
		"Secrets":  `{"agentImage":"x/agent:v1.0.0","systemDefaultRegistry":"reg.example.com","imagePullSecrets":[{"name":"p"}]}`,
	} {
		if got := of(settings(t, config)); got.Shape == base.Shape || got.Image != base.Image {
			t.Errorf("%s: want another shape and the same image: %v, %v", name, base, got)
		}
	}
	for name, config := range map[string]string{
		"URL":       `{"agentImage":"x/agent:v1.0.0","systemDefaultRegistry":"reg.example.com","apiServerURL":"https://x"}`,
		"Bootstrap": `{"agentImage":"x/agent:v1.0.0","systemDefaultRegistry":"reg.example.com","bootstrap":{"clusterLabels":{"a":"b"}}}`,
	} {
		if got := of(settings(t, config)); got != base {
			t.Errorf("%s is nothing that agents have: %v, %v", name, base, got)
		}
	}
}

// TestOwn: each wish makes an agent different, and none of them is the same as an
// empty one.
func TestOwn(t *testing.T) {
	m := plain(t)
	base := m.SettingsDigest(cluster(nil))
	same := map[string]func(*fleet.Cluster){
		"Labels": func(c *fleet.Cluster) { c.Labels = map[string]string{"a": "b"} },
		"EmptyLists": func(c *fleet.Cluster) {
			c.Spec.AgentTolerations, c.Spec.AgentEnvVars = []corev1.Toleration{}, []corev1.EnvVar{}
			c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{}
		},
		"NoHost":      func(c *fleet.Cluster) { c.Spec.HostNetwork = new(false) },
		"Seen":        func(c *fleet.Cluster) { c.Status.Agent.LastSeen = metav1.NewTime(now) },
		"OwnTemplate": func(c *fleet.Cluster) { c.Spec.TemplateValues = &fleet.GenericMap{Data: map[string]any{"a": "b"}} },
	}
	for name, change := range same {
		if m.SettingsDigest(cluster(change)) != base {
			t.Errorf("%s: the agent would be started again for nothing", name)
		}
	}
	different := map[string]func(*fleet.Cluster){
		"Env":       func(c *fleet.Cluster) { c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A"}} },
		"Host":      func(c *fleet.Cluster) { c.Spec.HostNetwork = new(true) },
		"Private":   func(c *fleet.Cluster) { c.Spec.PrivateRepoURL = "r" },
		"NoSecrets": func(c *fleet.Cluster) { c.Spec.AgentPullSecrets = &[]corev1.LocalObjectReference{} },
		"Imported":  func(c *fleet.Cluster) { c.Spec.KubeConfigSecret = "k" },
		"CheckIn":   func(c *fleet.Cluster) { c.Spec.CheckIn = &fleet.ClusterCheckIn{} },
	}
	for name, change := range different {
		if m.SettingsDigest(cluster(change)) == base {
			t.Errorf("%s: the agent would not get it", name)
		}
	}
	one := cluster(func(c *fleet.Cluster) {
		c.Spec.AgentTolerations = []corev1.Toleration{{Key: "a"}, {Key: "b"}}
	})
	two := cluster(func(c *fleet.Cluster) {
		c.Spec.AgentTolerations = []corev1.Toleration{{Key: "b"}, {Key: "a"}}
	})
	if m.SettingsDigest(one) != m.SettingsDigest(two) {
		t.Error("the order of tolerations means nothing")
	}
}

func TestCheck(t *testing.T) {
	budget := func(least, most string) func(*fleet.Cluster) {
		return func(c *fleet.Cluster) {
			c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{
				PodDisruptionBudget: &fleet.PodDisruptionBudgetSpec{MinAvailable: least, MaxUnavailable: most},
			}
		}
	}
	class := func(value int, policy string) func(*fleet.Cluster) {
		return func(c *fleet.Cluster) {
			c.Spec.AgentSchedulingCustomization = &fleet.AgentSchedulingCustomization{
				PriorityClass: &fleet.PriorityClassSpec{Value: value, PreemptionPolicy: (*corev1.PreemptionPolicy)(&policy)},
			}
		}
	}
	cases := map[string]struct {
		change  func(*fleet.Cluster)
		want    string // in the error
		blocked bool   // nodes cannot be drained
	}{
		"Nothing":      {change: nil},
		"Empty":        {change: budget("", ""), blocked: true},
		"Rancher":      {change: budget("1", "0"), blocked: true},
		"One":          {change: budget("0", "1")},
		"Half":         {change: budget("", "50%")},
		"All":          {change: budget("100%", ""), blocked: true},
		"Both":         {change: budget("1", "1"), want: "cannot both be set"},
		"NotANumber":   {change: budget("one", ""), want: `minAvailable "one"`},
		"Negative":     {change: budget("", "-1"), want: `maxUnavailable "-1"`},
		"TooMuch":      {change: budget("101%", ""), want: `"101%"`},
		"Priority":     {change: class(999999999, "Never")},
		"TooHigh":      {change: class(2_000_000_000, ""), want: "2000000000"},
		"NoSuchPolicy": {change: class(1, "Sometimes"), want: "Sometimes"},
		"Nightly":      {change: func(c *fleet.Cluster) { c.Spec.CheckIn = &fleet.ClusterCheckIn{Mode: "poll", Schedule: "0 3 * * *"} }},
		"NoSchedule": {change: func(c *fleet.Cluster) {
			c.Spec.CheckIn = &fleet.ClusterCheckIn{Mode: "poll", Schedule: "every night"}
		}, want: `checkIn: schedule "every night"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := Check(cluster(c.change))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("want %q, got %v", c.want, err)
			}
			if c.want == "" && (DrainBlockedReason(cluster(c.change), 1) != "") != c.blocked {
				t.Errorf("want blocked %v: %q", c.blocked, DrainBlockedReason(cluster(c.change), 1))
			}
		})
	}
	if why := DrainBlockedReason(cluster(budget("1", "0")), 2); why != "" {
		t.Errorf("one of two may go: %s", why)
	}
}

func TestImage(t *testing.T) {
	cases := map[string]struct{ all, own, image, want string }{
		"Plain":        {"", "", "x/agent:v1", "x/agent:v1"},
		"ForAll":       {"reg", "", "x/agent:v1", "reg/x/agent:v1"},
		"ThereAlready": {"reg", "", "reg/x/agent:v1", "reg/x/agent:v1"},
		"Own":          {"", "r:5000", "x/agent:v1", "r:5000/x/agent:v1"},
		"OwnInstead":   {"reg", "r:5000", "reg/x/agent:v1", "r:5000/x/agent:v1"},
		"OwnSlash":     {"reg", "r:5000/", "x/agent:v1", "r:5000/x/agent:v1"},
	}
	for name, c := range cases {
		if got := Image(c.all, c.own, c.image); got != c.want {
			t.Errorf("%s: want %s, got %s", name, c.want, got)
		}
	}
}

// TestReported: digests of wishes are those of rancher/fleet, and a wish for
// nothing has none, or an upgrade would start every agent again.
func TestReported(t *testing.T) {
	got := Reported(cluster(nil))
	if got.AgentEnvVarsHash+got.AgentAffinityHash+got.AgentResourcesHash+got.AgentTolerationsHash+got.AgentSchedulingCustomizationHash != "" {
		t.Errorf("nothing has a digest: %+v", got)
	}
	got = Reported(cluster(func(c *fleet.Cluster) { c.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "b"}} }))
	// echo -n '[{"name":"A","value":"b"}]' | sha224sum
	if want := "f38d4362da3264f11c28f9a8fabb89bfd9dba861e26c03547d21fc04"; got.AgentEnvVarsHash != want {
		t.Errorf("want %s, got %s", want, got.AgentEnvVarsHash)
	}
	if c := Reconciled(cluster(nil), ReasonSettings, "x", ""); c.Status != corev1.ConditionFalse || c.Reason != ReasonSettings {
		t.Errorf("%+v", c)
	}
	if c := Reconciled(cluster(nil), "", "", "note"); c.Status != corev1.ConditionTrue || c.Reason != "" || c.Message != "note" {
		t.Errorf("the reference gives no reason while all is well: %+v", c)
	}
}

// TestHeld: when an agent is left as it is.
func TestHeld(t *testing.T) {
	m := plain(t)
	cases := map[string]struct {
		change  func(*fleet.Cluster)
		managed bool
		reason  string
		held    bool
	}{
		"Plain":       {nil, true, "", false},
		"NeverSeen":   {func(c *fleet.Cluster) { c.Status.Agent.Namespace = "" }, false, "", false},
		"ToBeMade":    {func(c *fleet.Cluster) { c.Status.Agent.Namespace, c.Spec.KubeConfigSecret = "", "k" }, true, "", false},
		"NotManaged":  {func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelNonManagedAgent: "true"} }, false, "", false},
		"Others":      {func(c *fleet.Cluster) { c.Labels = map[string]string{fleet.LabelClusterManagement: "x"} }, false, "", false},
		"OtherPlace":  {func(c *fleet.Cluster) { c.Spec.AgentNamespace = "there" }, true, ReasonMoving, true},
		"Moving":      {func(c *fleet.Cluster) { c.Spec.AgentNamespace, c.Spec.KubeConfigSecret = "there", "k" }, true, "", true},
		"ItsOwnPlace": {func(c *fleet.Cluster) { c.Status.Agent.Namespace = "mine" }, true, "", false},
		"Paused":      {func(c *fleet.Cluster) { c.Spec.Paused = true }, true, "", true},
		"Scheduled":   {func(c *fleet.Cluster) { c.Status.Scheduled = true }, true, "", true},
		"Active":      {func(c *fleet.Cluster) { c.Status.Scheduled, c.Status.ActiveSchedule = true, true }, true, "", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			reason, why := m.HoldReason(cluster(c.change))
			if got := m.Manages(cluster(c.change)); got != c.managed {
				t.Errorf("want managed %v, got %v", c.managed, got)
			}
			if reason != c.reason || (why != "") != c.held {
				t.Errorf("want %q, %v, got %q, %q", c.reason, c.held, reason, why)
			}
		})
	}
	off := settings(t, `{"agentImage":"x","manageAgent":false}`)
	if off.Manages(cluster(nil)) {
		t.Error("manageAgent: false")
	}
}

// TestForeign checks that a Bundle that another client made is left alone,
// whatever its name.
func TestForeign(t *testing.T) {
	m := plain(t)
	own, err := m.Bundle(cluster(nil), Build{Image: "i"})
	if err != nil {
		t.Fatal(err)
	}
	reference := &fleet.Bundle{Spec: fleet.BundleSpec{Resources: []fleet.BundleResource{{Name: "agent.yaml"}}}}
	repos := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{fleet.LabelRepoName: "r"}}}
	if ForeignReason(own) != "" || ForeignReason(reference) != "" || ForeignReason(repos) == "" || ForeignReason(&fleet.Bundle{}) == "" {
		t.Error("Foreign does not distinguish them")
	}
}

// TestObserve: what is seen of an agent.
func TestObserve(t *testing.T) {
	m := plain(t)
	build := Build{Image: "i", Shape: "s"}
	c := cluster(func(c *fleet.Cluster) {
		c.Status.Summary.Ready, c.Status.Summary.DesiredReady = 2, 5
		c.Status.Conditions = condition.Set(nil, fleet.Condition{Type: fleet.ConditionConnected, Status: corev1.ConditionFalse}, now)
	})
	b, err := m.Bundle(c, build)
	if err != nil {
		t.Fatal(err)
	}
	b.Generation = 2
	b.Status.ObservedGeneration = 1
	b.Status.Summary.Ready, b.Status.Summary.DesiredReady = 1, 1
	got := m.Observe(c, b)
	want := Member{Key: "fleet-default/c1", Has: build, Joined: true, NotReady: 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was Ready before the last change says nothing of it\n-want +got\n%s", diff)
	}
	b.Status.ObservedGeneration = 2
	c.Status.Conditions = nil
	if got = m.Observe(c, b); !got.Applied || !got.Online {
		t.Errorf("%+v", got)
	}
}
