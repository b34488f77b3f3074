package workspace

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	provisioning "github.com/fleetworkspace/fleet/pkg/apis/provisioning.cattle.io/v1"
)

// A row says what one field of the Fleet Cluster is made of.
type row struct {
	why    string
	change func(*provisioning.Cluster, *management.Cluster)
	with   Surroundings
	field  string // path in the Fleet Cluster, without which JSON
	want   string // JSON; empty: the field is not there
}

// hosted makes a pair one of those whose management Cluster comes first.
func hosted(p *provisioning.Cluster, m *management.Cluster) {
	p.Name, p.Status.ClusterName, p.Status.ClientSecretName, p.Spec.RKEConfig = "c-12345", "c-12345", "c-12345-kubeconfig", nil
	m.Name, m.Spec.DisplayName = "c-12345", "My Cluster"
}

// internal makes a pair the cluster that Rancher runs in.
func internal(p *provisioning.Cluster, m *management.Cluster) {
	p.Namespace, p.Name, p.Status.ClusterName, p.Status.ClientSecretName, p.Spec.RKEConfig = "fleet-local", "local", "local", "local-kubeconfig", nil
	m.Name, m.Spec.DisplayName, m.Spec.Internal, m.Spec.FleetWorkspaceName = "local", "local", true, "fleet-local"
}

func customised(c management.AgentDeploymentCustomization) func(*provisioning.Cluster, *management.Cluster) {
	return func(_ *provisioning.Cluster, m *management.Cluster) { m.Spec.FleetAgentDeploymentCustomization = &c }
}

func unchanged(*provisioning.Cluster, *management.Cluster) {}

// rows are the fields of a Fleet Cluster that Rancher writes, as Rancher 2.15 does.
var rows = map[string]row{
	"name":                   {why: "people know the provisioning Cluster", change: unchanged, field: "metadata.name", want: `"c1"`},
	"name, legacy":           {why: "that is its name there too", change: hosted, field: "metadata.name", want: `"c-12345"`},
	"namespace":              {why: "the workspace is the management Cluster's", change: unchanged, field: "metadata.namespace", want: `"fleet-default"`},
	"namespace, moved":       {why: "a cluster that came first moves by its management Cluster alone", change: func(_ *provisioning.Cluster, m *management.Cluster) { m.Spec.FleetWorkspaceName = "team-a" }, field: "metadata.namespace", want: `"team-a"`},
	"labels":                 {why: "users' labels travel, those of Rancher and Fleet do not", change: unchanged, field: "metadata.labels.env", want: `"dev"`},
	"labels, Rancher's":      {why: "such a label never gets through Rancher", change: unchanged, field: "metadata.labels.foo|cattle|io/x"},
	"labels, provider":       {why: "its key has no slash", change: unchanged, field: "metadata.labels.provider|cattle|io", want: `"rke2"`},
	"label cluster-name":     {why: "it says whose it is", change: unchanged, field: "metadata.labels.management|cattle|io/cluster-name", want: `"c-m-abcd1234"`},
	"label display-name":     {why: "people know it by that", change: unchanged, field: "metadata.labels.management|cattle|io/cluster-display-name", want: `"c1"`},
	"label display-name, no": {why: "it is no value of a label", change: hosted, field: "metadata.labels.management|cattle|io/cluster-display-name"},
	"label name":             {why: "the group default selects it", change: internal, field: "metadata.labels.name", want: `"local"`},
	"label name, others":     {why: "they are not local", change: hosted, field: "metadata.labels.name"},
	"annotations":            {why: "users' annotations travel", change: unchanged, field: "metadata.annotations.note", want: `"kept"`},
	"annotations, kubectl's": {why: "they are about the other object", change: unchanged, field: "metadata.annotations.kubectl|kubernetes|io/last-applied-configuration"},
	"kubeConfigSecret":       {why: "Rancher says its name", change: unchanged, field: "spec.kubeConfigSecret", want: `"c1-kubeconfig"`},
	"kubeConfigSecret, local": {
		why: "it is no exception since 2.8", change: internal, field: "spec.kubeConfigSecret", want: `"local-kubeconfig"`,
	},
	"kubeConfigSecretNamespace": {
		why: "the Secret stays where the provisioning Cluster is", field: "spec.kubeConfigSecretNamespace", want: `"a"`,
		change: func(p *provisioning.Cluster, _ *management.Cluster) { p.Namespace = "a" },
	},
	"agentEnvVars": {
		why: "the management Cluster's count", field: "spec.agentEnvVars", want: `[{"name":"A","value":"1"}]`,
		change: func(p *provisioning.Cluster, m *management.Cluster) {
			p.Spec.AgentEnvVars = []provisioning.EnvVar{{Name: "B", Value: "2"}}
			m.Spec.AgentEnvVars = []corev1.EnvVar{{Name: "A", Value: "1"}}
		},
	},
	"agentNamespace":         {why: "the agent of a manager beside this one has the other", change: internal, field: "spec.agentNamespace", want: `"cattle-fleet-local-system"`},
	"agentNamespace, others": {why: "the manager has a default", change: hosted, field: "spec.agentNamespace"},
	"privateRepoURL":         {why: "the setting counts for all", change: unchanged, with: Surroundings{Registry: "r.example"}, field: "spec.privateRepoURL", want: `"r.example"`},
	"privateRepoURL, none":   {why: "images come from where they come from", change: hosted, field: "spec.privateRepoURL"},
	"agentTolerations": {
		why: "they are sorted, and those that a person repeats stay, as in Rancher", field: "spec.agentTolerations",
		want: `[{"key":"a","operator":"Exists"},{"key":"a","operator":"Exists"},{"key":"a","operator":"Exists","tolerationSeconds":5},{"key":"b","operator":"Equal","value":"x","effect":"NoSchedule"}]`,
		change: customised(management.AgentDeploymentCustomization{AppendTolerations: []corev1.Toleration{
			{Key: "b", Operator: corev1.TolerationOpEqual, Value: "x", Effect: corev1.TaintEffectNoSchedule},
			{Key: "a", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(5))},
			{Key: "a", Operator: corev1.TolerationOpExists}, {Key: "a", Operator: corev1.TolerationOpExists},
		}}),
	},
	"agentTolerations, taints": {
		why: "only the local agent runs beside a control plane that is known here", change: hosted, field: "spec.agentTolerations",
		with: Surroundings{Taints: []corev1.Taint{{Key: "control-plane"}}},
	},
	"agentTolerations, local": {
		why: "it must run where its only nodes may be", change: internal, field: "spec.agentTolerations",
		with: Surroundings{Taints: []corev1.Taint{{Key: "control-plane", Value: "v", Effect: corev1.TaintEffectNoExecute}}},
		want: `[{"key":"control-plane","operator":"Equal","value":"v","effect":"NoExecute"}]`,
	},
	"agentAffinity": {
		why: "the cluster's own goes first", with: Surroundings{Affinity: `{"podAffinity":{}}`}, field: "spec.agentAffinity", want: `{"nodeAffinity":{}}`,
		change: customised(management.AgentDeploymentCustomization{OverrideAffinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}),
	},
	"agentAffinity, preset": {why: "the setting is the default", change: hosted, with: Surroundings{Affinity: `{"podAffinity":{}}`}, field: "spec.agentAffinity", want: `{"podAffinity":{}}`},
	"agentResources": {
		why: "the agent gets what is asked for it", field: "spec.agentResources", want: `{"limits":{"cpu":"1"}}`,
		change: customised(management.AgentDeploymentCustomization{OverrideResourceRequirements: &corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceCPU: quantity.MustParse("1")},
		}}),
	},
	"agentSchedulingCustomization": {
		why: "only that of the provisioning Cluster counts, as in Rancher", field: "spec.agentSchedulingCustomization.priorityClass.value", want: `7`,
		change: func(p *provisioning.Cluster, m *management.Cluster) {
			of := func(n int) *management.AgentDeploymentCustomization {
				return &management.AgentDeploymentCustomization{SchedulingCustomization: &fleet.AgentSchedulingCustomization{PriorityClass: &fleet.PriorityClassSpec{Value: n}}}
			}
			p.Spec.FleetAgentDeploymentCustomization, m.Spec.FleetAgentDeploymentCustomization = of(7), of(8)
		},
	},
	"agentSchedulingCustomization, empty": {
		why: "without any part it says nothing", field: "spec.agentSchedulingCustomization",
		change: func(p *provisioning.Cluster, _ *management.Cluster) {
			p.Spec.FleetAgentDeploymentCustomization = &management.AgentDeploymentCustomization{SchedulingCustomization: &fleet.AgentSchedulingCustomization{}}
		},
	},
	"agentPullSecrets": {why: "an empty list is none, and not the manager's", change: unchanged, with: Surroundings{Registry: "r.example"}, field: "spec.agentPullSecrets", want: `[]`},
	"agentPullSecrets, legacy": {
		why: "Rancher keeps copies there", change: hosted, with: Surroundings{Registry: "r.example", Secrets: "one"}, field: "spec.agentPullSecrets",
		want: `[{"name":"one-rancher-managed-pull-secret"}]`,
	},
	"agentPullSecrets, legacy, none": {
		why: "no list means the manager's", change: hosted, with: Surroundings{Registry: "r.example"}, field: "spec.agentPullSecrets",
	},
	// What Rancher leaves to users, is left to them.
	"paused":                  {why: "users pause clusters", change: unchanged, field: "spec.paused"},
	"clientID":                {why: "it is the agent's identity", change: unchanged, field: "spec.clientID"},
	"redeployAgentGeneration": {why: "users have agents deployed again", change: unchanged, field: "spec.redeployAgentGeneration"},
	"templateValues":          {why: "users have values of their own", change: unchanged, field: "spec.templateValues"},
	"hostNetwork":             {why: "users decide it", change: unchanged, field: "spec.hostNetwork"},
	"ownerReferences":         {why: "nothing goes with Rancher's objects by itself", change: unchanged, field: "metadata.ownerReferences"},
}

func TestRows(t *testing.T) {
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			p, m := pair()
			r.change(p, m)
			c, verdict, why, err := MapCluster(p, m, r.with)
			if err != nil || verdict != Want {
				t.Fatalf("verdict %v (%s), %v", verdict, why, err)
			}
			if diff := cmp.Diff(parsed(t, r.want), at(t, c, r.field)); diff != "" {
				t.Errorf("%s: %s -want +got\n%s", r.why, r.field, diff)
			}
		})
	}
}

// parsed is the value of a JSON text; nil for none.
func parsed(t *testing.T, text string) any {
	t.Helper()
	if text == "" {
		return nil
	}
	var out any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// at is a field of an object as JSON has it. In names of fields | stands for a dot.
func at(t *testing.T, obj any, path string) any {
	t.Helper()
	now, err := asJSON(obj)
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(path, ".") {
		fields, _ := now.(map[string]any)
		now = fields[strings.ReplaceAll(name, "|", ".")]
	}
	return now
}

// Directions of creation depend on the name of the management Cluster alone.
func TestLegacy(t *testing.T) {
	for name, want := range map[string]bool{
		"local": true, "c-12345": true, "c-abcde": true, "c-m-abcd1234": false, "c-1234": false, "c-123456": false, "C-12345": false, "locally": false, "my-c-12345": false,
	} {
		if got := Legacy(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A group of the local cluster is as Rancher and standalone installations have it.
func TestGroup(t *testing.T) {
	g := LocalGroup("fleet-local")
	if got := fmt.Sprintf("%s/%s %v", g.Namespace, g.Name, g.Spec.Selector.MatchLabels); got != "fleet-local/default map[name:local]" {
		t.Error(got)
	}
}
