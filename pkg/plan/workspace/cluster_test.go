package workspace

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// pair is a cluster as Rancher has it, ready to be mapped.
func pair() (*provisioning.Cluster, *management.Cluster) {
	p := &provisioning.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "c1"}}
	p.Spec.RKEConfig = &provisioning.RKEConfig{}
	p.Status.ClusterName, p.Status.ClientSecretName = "c-m-abcd1234", "c1-kubeconfig"
	m := &management.Cluster{ObjectMeta: metav1.ObjectMeta{
		Name: "c-m-abcd1234", Labels: map[string]string{"env": "dev", "foo.cattle.io/x": "1", "provider.cattle.io": "rke2"},
		Annotations: map[string]string{"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
	}}
	m.Spec.DisplayName, m.Spec.FleetWorkspaceName = "c1", "fleet-default"
	m.Status.Conditions = []management.Condition{{Type: "Ready", Status: corev1.ConditionTrue}}
	return p, m
}

func TestMapped(t *testing.T) {
	none := []corev1.LocalObjectReference{}
	p, m := pair()
	got, verdict, why, err := MapCluster(p, m, Surroundings{})
	if err != nil || verdict != Want {
		t.Fatalf("verdict %v (%s), %v", verdict, why, err)
	}
	want := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: "c1",
			Labels: map[string]string{
				"env": "dev", "provider.cattle.io": "rke2",
				"management.cattle.io/cluster-name": "c-m-abcd1234", "management.cattle.io/cluster-display-name": "c1",
			},
			Annotations: map[string]string{"note": "kept"},
		},
		Spec: fleet.ClusterSpec{KubeConfigSecret: "c1-kubeconfig", KubeConfigSecretNamespace: "fleet-default", AgentPullSecrets: &none},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		change func(*provisioning.Cluster, *management.Cluster)
		gone   bool // there is no management Cluster
		want   Verdict
	}{
		"ready":     {why: "there is nothing to wait for", change: func(*provisioning.Cluster, *management.Cluster) {}, want: Want},
		"unborn":    {why: "Rancher removes it then, too", change: func(p *provisioning.Cluster, _ *management.Cluster) { p.Status.ClusterName = "" }, want: Remove},
		"no secret": {why: "the agent could not be installed", change: func(p *provisioning.Cluster, _ *management.Cluster) { p.Status.ClientSecretName = "" }, want: Remove},
		"missing":   {why: "it may only be late", gone: true, want: Keep},
		"not ready": {why: "what is there stays, and nothing new is made", change: func(_ *provisioning.Cluster, m *management.Cluster) {
			m.Status.Conditions[0].Status = corev1.ConditionFalse
		}, want: Keep},
		"no condition": {why: "nothing was said yet", change: func(_ *provisioning.Cluster, m *management.Cluster) { m.Status.Conditions = nil }, want: Keep},
		"no workspace": {why: "that is how a cluster leaves Fleet", change: func(_ *provisioning.Cluster, m *management.Cluster) { m.Spec.FleetWorkspaceName = "" }, want: Remove},
		"external": {why: "Rancher looks at the workspace alone", change: func(_ *provisioning.Cluster, m *management.Cluster) {
			m.Annotations[AnnotationExternallyManaged] = "true"
		}, want: Want},
	} {
		t.Run(name, func(t *testing.T) {
			p, m := pair()
			if c.gone {
				m = nil
			} else {
				c.change(p, m)
			}
			got, verdict, why, err := MapCluster(p, m, Surroundings{})
			if err != nil || verdict != c.want {
				t.Fatalf("%s: verdict %v, want %v (%v)", c.why, verdict, c.want, err)
			}
			if (got != nil) != (verdict == Want) || (why == "") != (verdict == Want) {
				t.Errorf("verdict %v with %+v and %q", verdict, got, why)
			}
		})
	}
}

func TestDisplayName(t *testing.T) {
	for display, want := range map[string]bool{"web": true, "my cluster": false, strings.Repeat("x", 70): false, "": true} {
		p, m := pair()
		m.Spec.DisplayName = display
		got, _, _, _ := MapCluster(p, m, Surroundings{})
		if value, ok := got.Labels[fleet.LabelDisplayName]; ok != want || ok && value != display {
			t.Errorf("%q: label %q, %t", display, value, ok)
		}
	}
}

func TestAssign(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		spec   management.ClusterSpec
		marks  map[string]string
		preset string
		want   string
	}{
		"new":            {why: "the setting says where", preset: "fleet-default", want: "fleet-default"},
		"another preset": {why: "the setting says where", preset: "team-a", want: "team-a"},
		"no preset":      {why: "an empty setting means none"},
		"assigned":       {why: "what a user has set stays", spec: management.ClusterSpec{FleetWorkspaceName: "a"}, preset: "b"},
		"internal":       {why: "the local cluster has a workspace of its own", spec: management.ClusterSpec{Internal: true}, want: "fleet-local"},
		"external": {
			why: "another controller manages it", marks: map[string]string{AnnotationExternallyManaged: "yes"}, preset: "fleet-default",
		},
		"False": {why: "that says no", marks: map[string]string{AnnotationExternallyManaged: "False"}, preset: "fleet-default", want: "fleet-default"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := Assign(&management.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-12345", Annotations: c.marks}, Spec: c.spec}, c.preset)
			if got != c.want || ok != (c.want != "") {
				t.Errorf("%s: got %q, %t", c.why, got, ok)
			}
		})
	}
}

func TestProvisioned(t *testing.T) {
	_, m := pair()
	if ProvisioningFor(m) != nil {
		t.Error("of c-m- clusters the provisioning Cluster comes first")
	}
	m.Name, m.Spec.DisplayName = "c-12345", "My Cluster"
	got := ProvisioningFor(m)
	want := &provisioning.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet-default", Name: "c-12345", Labels: map[string]string{"env": "dev", "provider.cattle.io": "rke2"},
		Annotations: map[string]string{"note": "kept", AnnotationDisplayName: "My Cluster", AnnotationMappedFrom: "c-12345"},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if m.Spec.FleetWorkspaceName = ""; ProvisioningFor(m) != nil {
		t.Error("without a workspace there is no namespace for it")
	}
	if m.Annotations[AnnotationExternallyManaged] = "true"; ProvisioningFor(m).Namespace != "default" {
		t.Error("one that others manage has one nevertheless, where Rancher has it")
	}
	m.Spec.ClusterAgentDeploymentCustomization = &runtime.RawExtension{Raw: []byte(`{"invented":1}`)}
	m.Spec.FleetAgentDeploymentCustomization = &management.AgentDeploymentCustomization{AppendTolerations: []corev1.Toleration{{Key: "a"}}}
	m.Spec.WebhookDeploymentCustomization = &runtime.RawExtension{Raw: []byte(`{"replicaCount":2}`)}
	if got := ProvisioningFor(m).Spec; got.WebhookDeploymentCustomization == nil || got.ClusterAgentDeploymentCustomization == nil || got.FleetAgentDeploymentCustomization == nil || got.RKEConfig != nil {
		t.Errorf("what changes the agents goes along, and nothing else: %+v", got)
	}
}

func TestEmptied(t *testing.T) {
	custom := &management.AgentDeploymentCustomization{}
	for name, c := range map[string]struct {
		why        string
		live, want provisioning.ClusterSpec
		ok         bool
	}{
		"last":    {why: "nothing is left", live: provisioning.ClusterSpec{FleetAgentDeploymentCustomization: custom}, ok: true},
		"webhook": {why: "nothing is left", live: provisioning.ClusterSpec{WebhookDeploymentCustomization: &runtime.RawExtension{}}, ok: true},
		"another": {why: "one stays", live: provisioning.ClusterSpec{FleetAgentDeploymentCustomization: custom},
			want: provisioning.ClusterSpec{ClusterAgentDeploymentCustomization: &runtime.RawExtension{}}},
		"none": {why: "there is nothing to take back", live: provisioning.ClusterSpec{RKEConfig: &provisioning.RKEConfig{}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.live.AgentEnvVars = []provisioning.EnvVar{{Name: "of others"}}
			got, ok := WithoutMappedFields(&provisioning.Cluster{Spec: c.live}, &provisioning.Cluster{Spec: c.want})
			if ok != c.ok {
				t.Fatalf("%s: got %t", c.why, ok)
			}
			if left := (provisioning.ClusterSpec{AgentEnvVars: c.live.AgentEnvVars}); ok && !cmp.Equal(got.Spec, left) {
				t.Errorf("what is not mapped stays, and nothing else: %+v", got.Spec)
			}
		})
	}
}

// If a cluster comes first and moves, its provisioning Cluster is created again.
func TestOldHalf(t *testing.T) {
	for name, c := range map[string]struct {
		why             string
		name, namespace string
		workspace       string
		want            bool
	}{
		"moved":          {why: "it has another in team-a", name: "c-12345", namespace: "fleet-default", workspace: "team-a", want: true},
		"at home":        {why: "it is the only one", name: "c-12345", namespace: "team-a", workspace: "team-a"},
		"came first":     {why: "it stays where people have made it", name: "c-m-abcd1234", namespace: "fleet-default", workspace: "team-a"},
		"external":       {why: "without a workspace that is its place", name: "c-12345", namespace: "default"},
		"left workspace": {why: "it is externally managed from now on", name: "c-12345", namespace: "team-a", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			p, m := pair()
			p.Name, p.Namespace, p.Status.ClusterName = c.name, c.namespace, c.name
			m.Name, m.Spec.FleetWorkspaceName = c.name, c.workspace
			if got := OldHalf(p, m); got != c.want {
				t.Errorf("%s: got %t", c.why, got)
			}
			if _, verdict, _, _ := MapCluster(p, m, Surroundings{}); c.want && verdict == Want {
				t.Error("it must not be mapped into the new workspace: the other one is")
			}
			if MadeOf(p, m) {
				t.Error("MadeOf without an annotation")
			}
			p.Annotations = map[string]string{AnnotationMappedFrom: c.name}
			byUs := MadeOf(p, m)
			if p.Annotations = marks("provisioning-cluster-create", "", c.name); !byUs || !MadeOf(p, m) {
				t.Error("it was made of the management Cluster, by us or by Rancher")
			}
		})
	}
}

func TestRegistry(t *testing.T) {
	global := func(p *provisioning.Cluster, _ *management.Cluster) {
		p.Spec.RKEConfig.MachineGlobalConfig.Data = map[string]any{keyRegistry: "global.example"}
	}
	legacy := func(name string, own *management.ImportedConfig) func(*provisioning.Cluster, *management.Cluster) {
		return func(p *provisioning.Cluster, m *management.Cluster) {
			p.Spec.RKEConfig, m.Name, m.Spec.ImportedConfig = nil, name, own
		}
	}
	for name, c := range map[string]struct {
		change    func(*provisioning.Cluster, *management.Cluster)
		want      string
		secrets   []string
		ofManager bool // no list
	}{
		"preset": {change: func(*provisioning.Cluster, *management.Cluster) {}, want: "preset.example"},
		"of all": {change: global, want: "global.example"},
		"of some": {change: func(p *provisioning.Cluster, _ *management.Cluster) {
			some := provisioning.SystemConfig{MachineLabelSelector: &metav1.LabelSelector{}, Config: fleet.GenericMap{Data: map[string]any{keyRegistry: "some.example"}}}
			all := provisioning.SystemConfig{Config: fleet.GenericMap{Data: map[string]any{keyRegistry: "selector.example"}}}
			p.Spec.RKEConfig.MachineSelectorConfig = []provisioning.SystemConfig{some, all}
		}, want: "selector.example"},
		"imported": {change: legacy("c-12345", &management.ImportedConfig{PrivateRegistryURL: "imported.example", PrivateRegistryPullSecrets: []string{"a", "b"}}),
			want: "imported.example", secrets: []string{"a-rancher-managed-pull-secret", "b-rancher-managed-pull-secret"}},
		"imported, without secrets": {change: legacy("c-12345", &management.ImportedConfig{PrivateRegistryURL: "imported.example"}),
			want: "imported.example", ofManager: true},
		"imported, preset": {change: legacy("c-12345", &management.ImportedConfig{PrivateRegistryPullSecrets: []string{"not this"}}),
			want: "preset.example", secrets: []string{"one-rancher-managed-pull-secret", "two-rancher-managed-pull-secret"}},
		"local":         {change: legacy("local", &management.ImportedConfig{PrivateRegistryURL: "imported.example", PrivateRegistryPullSecrets: []string{"a"}}), want: "imported.example", secrets: []string{"a"}},
		"local, preset": {change: legacy("local", nil), want: "preset.example", secrets: []string{"one", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, m := pair()
			c.change(p, m)
			got, _, _, err := MapCluster(p, m, Surroundings{Registry: "preset.example", Secrets: "one, two,"})
			if err != nil || got.Spec.PrivateRepoURL != c.want {
				t.Fatalf("registry %q, want %q (%v)", got.Spec.PrivateRepoURL, c.want, err)
			}
			if got.Spec.AgentPullSecrets == nil || c.ofManager {
				if got.Spec.AgentPullSecrets != nil || !c.ofManager {
					t.Errorf("pull secrets %v", got.Spec.AgentPullSecrets)
				}
				return
			}
			var names []string
			for _, s := range *got.Spec.AgentPullSecrets {
				names = append(names, s.Name)
			}
			if diff := cmp.Diff(c.secrets, names); diff != "" {
				t.Errorf("pull secrets -want +got\n%s", diff)
			}
		})
	}
}

// The local cluster tolerates what its control plane is tainted with, whatever the
// order of the nodes.
func TestLocal(t *testing.T) {
	node := func(label string, taints ...corev1.Taint) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{label: "true"}}, Spec: corev1.NodeSpec{Taints: taints}}
	}
	master := corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}
	etcd := corev1.Taint{Key: "node-role.kubernetes.io/etcd", Value: "true", Effect: corev1.TaintEffectNoExecute}
	nodes := []corev1.Node{node(labelControlPlane, master, etcd), node(labelControlPlane, master), node("worker", corev1.Taint{Key: "gpu"}), node(labelControlPlaneOld, corev1.Taint{Key: "old"})}
	p, m := pair()
	p.Namespace, p.Name, p.Spec.RKEConfig = "fleet-local", "local", nil
	m.Name, m.Spec.Internal, m.Spec.FleetWorkspaceName = "local", true, "fleet-local"
	m.Spec.FleetAgentDeploymentCustomization = &management.AgentDeploymentCustomization{AppendTolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}, {Key: "a", Operator: corev1.TolerationOpExists}}}
	want := []corev1.Toleration{
		{Key: "a", Operator: corev1.TolerationOpExists}, // Rancher drops repeated taints only
		{Key: "a", Operator: corev1.TolerationOpExists},
		{Key: master.Key, Operator: corev1.TolerationOpEqual, Effect: master.Effect},
		{Key: etcd.Key, Operator: corev1.TolerationOpEqual, Value: "true", Effect: etcd.Effect},
	}
	for range nodes {
		nodes = append(nodes[1:], nodes[0])
		got, _, _, err := MapCluster(p, m, Surroundings{Taints: ControlPlaneTaints(nodes)})
		if err != nil || got.Spec.AgentNamespace != "cattle-fleet-local-system" || got.Labels["name"] != "local" {
			t.Fatalf("%+v, %v", got, err)
		}
		if diff := cmp.Diff(want, got.Spec.AgentTolerations); diff != "" {
			t.Fatalf("-want +got\n%s", diff)
		}
	}
	if got := ControlPlaneTaints(nodes[2:3]); got != nil && got[0].Key == "gpu" {
		t.Error("taints of workers do not count")
	}
}

func TestCustomization(t *testing.T) {
	priority := &fleet.AgentSchedulingCustomization{PriorityClass: &fleet.PriorityClassSpec{Value: 7}}
	custom := func(s *fleet.AgentSchedulingCustomization) *management.AgentDeploymentCustomization {
		return &management.AgentDeploymentCustomization{SchedulingCustomization: s}
	}
	p, m := pair()
	m.Spec.FleetAgentDeploymentCustomization = custom(priority)
	p.Spec.FleetAgentDeploymentCustomization = custom(&fleet.AgentSchedulingCustomization{})
	setting := Surroundings{Affinity: `{"nodeAffinity":{}}`}
	got, _, _, err := MapCluster(p, m, setting)
	if err != nil || got.Spec.AgentSchedulingCustomization != nil || got.Spec.AgentAffinity.NodeAffinity == nil {
		t.Errorf("Rancher does not read the scheduling of a management Cluster: %+v, %v", got, err)
	}
	m.Spec.FleetAgentDeploymentCustomization.OverrideAffinity = &corev1.Affinity{}
	if got, _, _, _ = MapCluster(p, m, setting); got.Spec.AgentAffinity.NodeAffinity != nil {
		t.Error("the cluster's own affinity goes first")
	}
	m.Spec.FleetAgentDeploymentCustomization = nil
	if _, v, _, err := MapCluster(p, m, Surroundings{Affinity: "?"}); v != Keep || reconcile.ReasonOf(err) != ReasonSetting {
		t.Errorf("a setting that cannot be read changes nothing: %v, %v", v, err)
	}
}
