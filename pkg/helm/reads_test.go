package helm

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// secret puts a Secret into a namespace: "k: v" under the keys k and values.yaml.
func (f *fakeCluster) secret(namespace, name string) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"k": "azogdg==", "values.yaml": "azogdg=="},
	}}
	o.SetName(name)
	o.SetNamespace(namespace)
	f.put("/api/v1/namespaces/"+namespace+"/secrets/"+name, o)
}

// What an administrator has limited to a namespace reads in no other with the
// agent's own rights: neither by lookup in templates nor by valuesFrom.
func TestReadsOfLimitedBundles(t *testing.T) {
	from := func(namespace string) *fleet.HelmOptions {
		return &fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{{SecretKeyRef: &fleet.SecretKeySelector{
			LocalObjectReference: fleet.LocalObjectReference{Name: "s"}, Namespace: namespace,
		}}}}
	}
	mapFrom := &fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{{ConfigMapKeyRef: &fleet.ConfigMapKeySelector{
		LocalObjectReference: fleet.LocalObjectReference{Name: "s"}, Namespace: "kube-system",
	}}}}
	cases := map[string]struct {
		why    string
		text   string // of a template
		helm   *fleet.HelmOptions
		open   bool   // the namespace is that of fleet.yaml
		as     string // account
		says   string // in the refusal; empty: it is deployed
		labels bool   // limited by labels of namespaces
	}{
		"Elsewhere":      {why: "another namespace", text: `(lookup "v1" "Secret" "kube-system" "s").data`, says: `lookup of secrets of namespace "kube-system"`},
		"List":           {why: "all of it", text: `lookup "v1" "Secret" "kube-system" ""`, says: `lookup of secrets of namespace "kube-system"`},
		"Everywhere":     {why: "the whole cluster", text: `lookup "v1" "Secret" "" ""`, says: `lookup of secrets in the whole cluster`},
		"Labels":         {why: "a limit by labels of namespaces is one", text: `lookup "v1" "Secret" "kube-system" "s"`, labels: true, says: `lookup of secrets of namespace "kube-system"`},
		"Values":         {why: "values of another namespace", text: `.Values.k`, helm: from("kube-system"), says: `helm.valuesFrom: Secret "s" of namespace "kube-system"`},
		"ValuesMap":      {why: "those of ConfigMaps, too", text: `.Values.k`, helm: mapFrom, says: `helm.valuesFrom: ConfigMap "s" of namespace "kube-system"`},
		"Own":            {why: "its own namespace", text: `(lookup "v1" "Secret" "team-a" "s").data.k`},
		"OwnList":        {why: "all of its own namespace", text: `len (lookup "v1" "Secret" "team-a" "").items`},
		"Cluster":        {why: "no namespace holds it", text: `lookup "v1" "Namespace" "" "kube-system"`},
		"OwnValues":      {why: "values of its own namespace", text: `.Values.k`, helm: from("team-a")},
		"Default":        {why: "which is the default", text: `.Values.k`, helm: from("")},
		"FleetYAML":      {why: "its own author could take the limit out", text: `(lookup "v1" "Secret" "kube-system" "s").data.k`, open: true},
		"Account":        {why: "RBAC says what an account may read", text: `(lookup "v1" "Secret" "kube-system" "s").data.k`, as: "tenant"},
		"AccountsValues": {why: "RBAC says what an account may read", text: `.Values.k`, helm: from("kube-system"), as: "tenant"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t)
			client := cluster.client(t)
			cluster.serviceAccount("tenant", nil, nil)
			cluster.secret("kube-system", "s")
			cluster.secret("team-a", "s")
			options := fleet.BundleDeploymentOptions{TargetNamespace: "team-a", Helm: c.helm, ServiceAccount: c.as}
			if c.labels {
				options.TargetNamespace, options.DefaultNamespace, options.AllowedTargetNamespaceSelector = "", "team-a", &metav1.LabelSelector{}
			}
			d := rendered(options, map[string]string{
				"Chart.yaml": renderChart, "templates/a.yaml": strings.Replace(renderMap, "a: b", "a: {{ "+c.text+" | toJson | quote }}", 1),
			})
			d.AdminNamespace = !c.open && !c.labels
			d.ID = release.ID{Namespace: "team-a", Name: "web"}
			err := client.Install(t.Context(), d)
			if c.says == "" {
				if err != nil {
					t.Errorf("%s: %v", c.why, err)
				}
				return
			}
			if reconcile.ReasonOf(err) != release.ReasonClusterScoped || !reconcile.IsTerminal(err) || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), "serviceAccount") {
				t.Errorf("%s: want it refused with %q, got %v", c.why, c.says, err)
			}
			if got := cluster.writes(); len(got) > 0 {
				t.Errorf("written: %v", got)
			}
		})
	}
}
