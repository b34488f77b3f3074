package v1alpha1_test

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestResource(t *testing.T) {
	tests := map[string]struct {
		plural     string
		namespaced bool
		ok         bool
		why        string
	}{
		"GitRepo":  {"gitrepos", true, true, "not the plural that a generator would guess"},
		"Policy":   {"policies", true, true, "the irregular plural"},
		"Content":  {"contents", false, true, "the one cluster-scoped kind"},
		"Pod":      {"", false, false, "a kind of another group"},
		"":         {"", false, false, "no kind"},
		"gitrepos": {"", false, false, "a plural is no kind"},
	}
	for kind, c := range tests {
		t.Run(kind, func(t *testing.T) {
			plural, namespaced, ok := fleet.Resource(kind)
			if plural != c.plural || namespaced != c.namespaced || ok != c.ok {
				t.Errorf("got %q %v %v: %s", plural, namespaced, ok, c.why)
			}
		})
	}
}

func TestAddToScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := fleet.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, k := range fleet.Kinds() {
		for _, object := range []runtime.Object{k.New(), k.NewList()} {
			gvks, _, err := s.ObjectKinds(object)
			if err != nil || len(gvks) != 1 || gvks[0].GroupVersion() != fleet.GroupVersion {
				t.Errorf("%T: %v, %v", object, gvks, err)
			}
		}
		if _, ok := k.NewList().(interface{ GetResourceVersion() string }); !ok {
			t.Errorf("%T has no list metadata", k.NewList())
		}
	}
}

func TestRank(t *testing.T) {
	if fleet.ErrApplied.Rank() != 7 || fleet.Ready.Rank() != 1 || fleet.BundleState("Offline").Rank() != 0 {
		t.Error("ErrApplied is 7, Ready 1, anything else 0")
	}
	sorted := slices.IsSortedFunc(fleet.States, func(a, b fleet.BundleState) int { return b.Rank() - a.Rank() })
	if !sorted {
		t.Error("States are not in order of their rank")
	}
}

func TestSummaryString(t *testing.T) {
	tests := map[string]struct {
		in   fleet.Summary
		want string
	}{
		"Fine":        {fleet.Summary{State: "active", Message: []string{"m"}}, "active"},
		"Progressing": {fleet.Summary{Transitioning: true, Message: []string{"a", "b"}}, "[progressing] a, b"},
		"Both":        {fleet.Summary{Transitioning: true, Error: true}, "[progressing,error]"},
		"Error":       {fleet.Summary{Error: true, Message: []string{"a"}}, "error] a"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			if got := c.in.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestModifiedStatusString(t *testing.T) {
	deployment := fleet.ModifiedStatus{Kind: "Deployment", APIVersion: "apps/v1", Namespace: "ns", Name: "web"}
	with := func(f func(*fleet.ModifiedStatus)) fleet.ModifiedStatus {
		m := deployment
		f(&m)
		return m
	}
	tests := map[string]struct {
		in   fleet.ModifiedStatus
		want string
	}{
		"Modified":      {with(func(m *fleet.ModifiedStatus) { m.Patch = "{}" }), "deployment.apps ns/web modified {}"},
		"Missing":       {with(func(m *fleet.ModifiedStatus) { m.Create = true }), "deployment.apps ns/web missing"},
		"NotOurs":       {with(func(m *fleet.ModifiedStatus) { m.Create, m.Exist = true, true }), "deployment.apps ns/web is not owned by us"},
		"Extra":         {with(func(m *fleet.ModifiedStatus) { m.Delete = true }), "deployment.apps ns/web extra"},
		"Core":          {fleet.ModifiedStatus{Kind: "ConfigMap", APIVersion: "v1", Namespace: "ns", Name: "c", Create: true}, "configmap.v1 ns/c missing"},
		"ClusterScoped": {fleet.ModifiedStatus{Kind: "Namespace", APIVersion: "v1", Name: "n", Create: true}, "namespace.v1 n missing"},
		"NoVersion":     {fleet.ModifiedStatus{Kind: "Thing", Name: "n", Create: true}, "thing n missing"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			if got := c.in.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestNonReadyStatusString(t *testing.T) {
	n := fleet.NonReadyStatus{Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: "p",
		Summary: fleet.Summary{Transitioning: true, Message: []string{"pulling"}}}
	if got, want := n.String(), "pod.v1 ns/p [progressing] pulling"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGenericMap(t *testing.T) {
	var m fleet.GenericMap
	if err := json.Unmarshal([]byte(`{"b": [1, {"c": "d"}], "a": 1.5}`), &m); err != nil {
		t.Fatal(err)
	}
	clone := m.DeepCopy()
	m.Data["b"].([]any)[1].(map[string]any)["c"] = "changed"
	raw, err := json.Marshal(clone)
	if err != nil || string(raw) != `{"a":1.5,"b":[1,{"c":"d"}]}` {
		t.Errorf("the copy is %s, %v", raw, err)
	}
	if err := json.Unmarshal([]byte(`null`), &m); err != nil || m.Data == nil || len(m.Data) != 0 {
		t.Errorf("null gives %v, %v", m.Data, err)
	}
	if err := json.Unmarshal([]byte(`[1]`), &m); err == nil {
		t.Error("a list is no map")
	}
	if raw, _ := json.Marshal(fleet.GenericMap{}); string(raw) != "null" {
		t.Errorf("an unset map is %s", raw)
	}
}
