package charts_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// TestAgentOfManagerIsAgentOfChart: the agent that the manager installs is the
// one that the chart installs, but for its scope and the manager's mark.
func TestAgentOfManagerIsAgentOfChart(t *testing.T) {
	objects := mustRender(t, agentRelease(map[string]any{
		"image": map[string]any{"repository": "x/agent", "tag": "t"}, "clientID": "c", "agentTLSMode": "strict",
		"labels": map[string]any{"a": "b"}, "agentCheckinInterval": "1m30s",
		"fleetAgent": map[string]any{"tolerations": []any{map[string]any{"key": "k", "operator": "Exists"}}},
		"global":     map[string]any{"cattle": map[string]any{"imagePullSecrets": []any{map[string]any{"name": "p"}}, "systemDefaultRegistry": "reg"}},
	}))
	agent := registration.Agent{
		Namespace: "cattle-fleet-system", Image: "reg/x/agent:t", ImagePullPolicy: "IfNotPresent",
		ImagePullSecrets: []string{"p"}, CheckinInterval: 90e9,
		Config:      registration.AgentConfig{TLSMode: "strict", ClientID: "c", Labels: map[string]string{"a": "b"}},
		Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}},
		// What the chart fleet passes to its manager by default.
		Custom: registration.Custom{Lease: registration.LeaseTimes{Duration: "30s", Retry: "10s", Renew: "25s"}},
	}
	o, err := agent.Objects()
	if err != nil {
		t.Fatal(err)
	}
	bootstrap := &corev1.Secret{Data: registration.Bootstrapping{
		APIServerURL: "https://fleet.example.com", APIServerCA: []byte("PEM"), Token: "t0ken", TokenName: "import-all",
		ClusterNamespace: "fleet-default", RegistrationNamespace: "cattle-fleet-clusters-system",
	}.Data()}
	bootstrap.Namespace, bootstrap.Name = "cattle-fleet-system", fleet.SecretAgentBootstrap
	want := map[string]runtime.Object{
		"ServiceAccount/cattle-fleet-system/fleet-agent":                   o.ServiceAccount,
		"ClusterRole//cattle-fleet-system-fleet-agent-role":                o.ClusterRole,
		"ClusterRoleBinding//cattle-fleet-system-fleet-agent-role-binding": o.ClusterRoleBinding,
		"NetworkPolicy/cattle-fleet-system/default-allow-all":              o.NetworkPolicy,
		"ConfigMap/cattle-fleet-system/fleet-agent":                        o.ConfigMap,
		"Deployment/cattle-fleet-system/fleet-agent":                       o.Deployment,
		"Secret/cattle-fleet-system/fleet-agent-bootstrap":                 bootstrap,
	}
	for key := range objects {
		if want[key] == nil {
			t.Errorf("the manager does not install %s", key)
		}
	}
	for key, object := range want {
		rendered := objects[key]
		if rendered == nil {
			t.Errorf("the chart does not render %s", key)
			continue
		}
		if diff := cmp.Diff(normal(t, rendered.Object), normal(t, object)); diff != "" {
			t.Errorf("%s\n-chart +manager\n%s", key, diff)
		}
	}
}

// normal is an object in the words of JSON, without what may differ: its kind,
// empty fields, the checksum of its configuration, the layout of JSON in it.
func normal(t *testing.T, o any) map[string]any {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"kind", "apiVersion", "status"} {
		delete(m, f)
	}
	prune(m)
	if data, ok := m["data"].(map[string]any); ok {
		if config, ok := data["config"].(string); ok {
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(config)); err != nil {
				t.Fatal(err)
			}
			data["config"] = compact.String()
		}
	}
	return m
}

func prune(v any) bool {
	switch x := v.(type) {
	case nil:
		return true
	case map[string]any:
		delete(x, "checksum/config")
		for k, e := range x {
			_, list := e.([]any)
			if prune(e) && !list && k != "emptyDir" && k != "podSelector" {
				delete(x, k)
			}
		}
		return len(x) == 0
	case []any:
		for _, e := range x {
			prune(e)
		}
	}
	return false
}
