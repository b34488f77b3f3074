package harness

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

// Everything is each object of a cluster that can be listed and is no Secret,
// as JSON, by kind and name. What Contents and Bundles hold in another
// encoding is unpacked, and so are the journals of agents.
func (w *World) Everything(m *Member) map[string][]byte {
	w.t.Helper()
	config := m.Cluster.REST()
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	w.must(err)
	client, err := dynamic.NewForConfig(config)
	w.must(err)
	_, groups, err := disco.ServerGroupsAndResources()
	w.must(err)
	all := map[string][]byte{}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		w.must(err)
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") || version.Group == "" && resource.Name == "secrets" {
				continue
			}
			list, err := client.Resource(version.WithResource(resource.Name)).List(w.ctx(), metav1.ListOptions{})
			w.must(err)
			for i := range list.Items {
				obj := &list.Items[i]
				all[resource.Name+" "+obj.GetNamespace()+"/"+obj.GetName()] = w.text(obj)
			}
		}
	}
	return all
}

// text is an object as JSON, followed by what it holds in another encoding.
func (w *World) text(obj *unstructured.Unstructured) []byte {
	w.t.Helper()
	out, err := json.Marshal(obj.Object)
	w.must(err)
	var resources []fleet.BundleResource
	convert := runtime.DefaultUnstructuredConverter
	switch obj.GroupVersionKind() {
	case fleet.GroupVersion.WithKind("Content"):
		var c fleet.Content
		w.must(convert.FromUnstructured(obj.Object, &c))
		if n, _ := content.Parts(&c); n > 0 || c.Labels[fleet.LabelContentOf] != "" {
			break // what is kept in parts is noise in these tests
		}
		manifest, err := content.Open(&c)
		w.must(err)
		resources = manifest.Resources
	case fleet.GroupVersion.WithKind("Bundle"):
		var b fleet.Bundle
		w.must(convert.FromUnstructured(obj.Object, &b))
		resources = b.Spec.Resources
	case fleet.GroupVersion.WithKind("Cluster"):
		var c fleet.Cluster
		w.must(convert.FromUnstructured(obj.Object, &c))
		lines, err := journal.Unpack(c.Status.Agent.Journal)
		w.must(err)
		out = append(append(out, '\n'), journal.Text(lines)...)
	}
	for _, r := range resources {
		data, err := content.ResourceBytes(r)
		w.must(err)
		out = append(append(out, '\n'), data...)
	}
	return out
}
