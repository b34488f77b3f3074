package rancher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

// timeout is how long something may take to happen.
const timeout = 90 * time.Second

// Put makes an object as people do: the test's administrator. text is JSON without
// kind and name. A status that is a subresource is written by Rancher.
func (r *Rancher) Put(t testing.TB, what schema.GroupVersionResource, namespace, name, text string) *object {
	t.Helper()
	obj := blank(what, namespace, name)
	var more map[string]any
	check(t, json.Unmarshal([]byte(text), &more))
	status := more["status"]
	for key, value := range more {
		if meta, ok := value.(map[string]any); ok && key == "metadata" {
			for k, v := range meta {
				set(obj, v, "metadata", k)
			}
			continue
		}
		obj.Object[key] = value
	}
	made, err := r.people.Resource(what).Namespace(namespace).Create(t.Context(), obj, metav1.CreateOptions{})
	check(t, err)
	if status != nil && own[what].status {
		body, err := json.Marshal(map[string]any{"status": status})
		check(t, err)
		return r.Says(t, what, namespace, name, string(body))
	}
	return made
}

// Patch changes an object as people do, by a JSON merge patch.
func (r *Rancher) Patch(t testing.TB, what schema.GroupVersionResource, namespace, name, text string) *object {
	t.Helper()
	return r.patch(t, r.people, what, namespace, name, text)
}

// Says changes an object as one of Rancher's own parts does, whether Rancher runs
// or not.
func (r *Rancher) Says(t testing.TB, what schema.GroupVersionResource, namespace, name, text string) *object {
	t.Helper()
	return r.patch(t, r.objects, what, namespace, name, text)
}

// patch sends a merge patch; a status that is a subresource goes by itself, as
// Rancher.
func (r *Rancher) patch(t testing.TB, as dynamic.Interface, what schema.GroupVersionResource, namespace, name, text string) *object {
	t.Helper()
	var body map[string]any
	check(t, json.Unmarshal([]byte(text), &body))
	var changed *object
	send := func(as dynamic.Interface, body map[string]any, sub ...string) {
		data, err := json.Marshal(body)
		check(t, err)
		changed, err = as.Resource(what).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{}, sub...)
		check(t, err)
	}
	if status := body["status"]; status != nil && own[what].status {
		send(r.objects, map[string]any{"status": status}, "status")
		delete(body, "status")
	}
	if len(body) > 0 {
		send(as, body)
	}
	return changed
}

// Get reads an object; nil if there is none.
func (r *Rancher) Get(t testing.TB, what schema.GroupVersionResource, namespace, name string) *object {
	t.Helper()
	return r.find(what, namespace, name)
}

// Condition is a condition of an object; nil if there is none.
func (r *Rancher) Condition(t testing.TB, what schema.GroupVersionResource, namespace, name, kind string) map[string]any {
	t.Helper()
	obj := r.find(what, namespace, name)
	if obj == nil {
		return nil
	}
	list, _ := field(obj, "status", "conditions").([]any)
	for _, one := range list {
		if c, _ := one.(map[string]any); c["type"] == kind {
			return c
		}
	}
	return nil
}

// Delete deletes an object as people do. It does not wait.
func (r *Rancher) Delete(t testing.TB, what schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	check(t, r.people.Resource(what).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// Denied changes an object as people do, or deletes it where text is empty, and returns the
// answer. It fails unless Rancher's webhook has refused that.
func (r *Rancher) Denied(t testing.TB, what schema.GroupVersionResource, namespace, name, text string) metav1.Status {
	t.Helper()
	var err error
	if objects := r.people.Resource(what).Namespace(namespace); text == "" {
		err = objects.Delete(t.Context(), name, metav1.DeleteOptions{})
	} else {
		_, err = objects.Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	}
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !strings.Contains(err.Error(), "denied the request") {
		t.Fatalf("%s %s: want a denial of Rancher's webhook, got %v", what.GroupResource(), name, err)
	}
	return answer.Status()
}

// find reads an object; nil if it cannot be read.
func (r *Rancher) find(what schema.GroupVersionResource, namespace, name string) *object {
	obj, err := r.objects.Resource(what).Namespace(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return obj
}

// Ready says whether a management Cluster is connected, as Rancher's tunnel does.
// Its other conditions stay.
func (r *Rancher) Ready(t testing.TB, cluster string, ready bool) {
	t.Helper()
	word := map[bool]string{true: "True", false: "False"}[ready]
	for {
		m := r.find(Clusters, "", cluster)
		if m == nil {
			t.Fatalf("there is no management Cluster %s", cluster)
		}
		list, _ := field(m, "status", "conditions").([]any)
		for _, kind := range []string{"Ready", "Connected"} {
			list = replaced(list, map[string]any{"type": kind, "status": word})
		}
		set(m, list, "status", "conditions")
		_, err := r.objects.Resource(Clusters).UpdateStatus(t.Context(), m, metav1.UpdateOptions{})
		if err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			t.Fatal(err)
		}
	}
}

// Triple makes a provisioning and a management Cluster as Rancher leaves those of a
// cluster that it has made and that is connected, whether Rancher runs or not. more
// goes into the management Cluster's metadata.
func (r *Rancher) Triple(t testing.TB, namespace, name, cluster, more string) {
	t.Helper()
	r.managed(t, namespace, name, cluster, more)
	r.provisioned(t, namespace, name, cluster, `{"rkeConfig":{"machineGlobalConfig":{"invented":true}}}`)
}

// TripleImported is Triple for a cluster that Rancher has not made: people import it by its
// provisioning Cluster.
func (r *Rancher) TripleImported(t testing.TB, namespace, name, cluster string) {
	t.Helper()
	r.managed(t, namespace, name, cluster, "")
	r.provisioned(t, namespace, name, cluster, `{}`)
}

// managed makes a management Cluster that is connected.
func (r *Rancher) managed(t testing.TB, namespace, name, cluster, more string) {
	t.Helper()
	r.Put(t, Clusters, "", cluster, fmt.Sprintf(`{"metadata":{%s},"spec":{"displayName":%q,"fleetWorkspaceName":%q,"invented":{"a":[1]}},
		"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Connected","status":"True"}]}}`, more, name, namespace))
}

// provisioned makes a provisioning Cluster that knows its management Cluster.
func (r *Rancher) provisioned(t testing.TB, namespace, name, cluster, spec string) {
	t.Helper()
	r.Put(t, ProvClusters, namespace, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}},"spec":%s,
		"status":{"clusterName":%q,"clientSecretName":"%s-kubeconfig"}}`, annotationForcedName, cluster, spec, cluster, name))
}

// Import makes the management Cluster of a cluster that people import ("c-" and
// five characters); in workspace, or in none where that is empty. more goes into
// its spec.
func (r *Rancher) Import(t testing.TB, workspace, cluster, display, more string) {
	t.Helper()
	spec := fmt.Sprintf(`"displayName":%q,"internal":false,"importedConfig":{}`, display)
	if workspace != "" {
		spec += fmt.Sprintf(`,"fleetWorkspaceName":%q`, workspace)
	}
	if more != "" {
		spec += "," + more
	}
	r.Put(t, Clusters, "", cluster, `{"spec":{`+spec+`}}`)
}

// Provision makes a provisioning Cluster as people do, with text as in Put, waits
// until Rancher, which must run, has made its management Cluster, and returns the
// name of that.
func (r *Rancher) Provision(t testing.TB, namespace, name, body string) string {
	t.Helper()
	r.Put(t, ProvClusters, namespace, name, body)
	cluster := ""
	harness.Wait(t, timeout, "a management Cluster for "+name, func() bool {
		if p := r.find(ProvClusters, namespace, name); p != nil {
			cluster = text(p, "status", "clusterName")
		}
		return cluster != "" && r.find(Clusters, "", cluster) != nil
	})
	return cluster
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
