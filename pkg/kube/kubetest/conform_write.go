package kubetest

import (
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

func (c *conformity) update() {
	made := c.configMap("made", nil)
	same := c.okMap(c.configMaps.Update(c.Context(), made.DeepCopy()))
	if same.ResourceVersion != made.ResourceVersion {
		c.Error("an update without a difference has written")
	}
	changed := made.DeepCopy()
	changed.Data = map[string]string{"other": "value"}
	now := c.okMap(c.configMaps.Update(c.Context(), changed))
	if now.ResourceVersion == made.ResourceVersion || now.UID != made.UID || len(now.Data) != 1 || now.Data["other"] != "value" {
		c.Errorf("want the object replaced, got %+v", now)
	}
	_, err := c.configMaps.Update(c.Context(), changed)
	c.refused(err, kube.IsConflict, "it was changed since it was read")
	other := now.DeepCopy()
	other.UID = "00000000-0000-4000-8000-00000000ffff"
	_, err = c.configMaps.Update(c.Context(), other)
	c.refused(err, kube.IsConflict, "it is another object of that name")
	anyVersion := now.DeepCopy()
	anyVersion.ResourceVersion, anyVersion.Data = "", map[string]string{"any": "version"}
	if now = c.okMap(c.configMaps.Update(c.Context(), anyVersion)); now.Data["any"] != "version" {
		c.Errorf("a ConfigMap may be updated without a version, got %+v", now)
	}
	custom := c.cluster()
	custom.ResourceVersion = ""
	_, err = c.clusters.Update(c.Context(), custom)
	c.refused(err, apierrors.IsInvalid, "a custom object may not")
	_, err = c.configMaps.Update(c.Context(), c.newConfigMap("missing", nil))
	c.refused(err, kube.IsGone, "there is no such object")
}

// Only the status subresource writes the status, and it writes nothing else.
func (c *conformity) status() {
	made := c.cluster()
	if made.Status.Namespace != "" {
		c.Errorf("a status was taken at creation: %+v", made.Status)
	}
	changed := made.DeepCopy()
	changed.Status.Namespace, changed.Spec.ClientID, changed.Labels = "of-status", "of-status", map[string]string{"of": "status"}
	now := c.okCluster(c.clusters.UpdateStatus(c.Context(), changed))
	if now.Status.Namespace != "of-status" || now.Spec.ClientID != "one" || now.Labels["of"] != "" || now.Generation != made.Generation {
		c.Errorf("want the status changed and nothing else, got %+v", now)
	}
	changed = now.DeepCopy()
	changed.Status.Namespace, changed.Spec.ClientID = "of-spec", "of-spec"
	now = c.okCluster(c.clusters.Update(c.Context(), changed))
	if now.Status.Namespace != "of-status" || now.Spec.ClientID != "of-spec" {
		c.Errorf("want the spec changed and not the status, got %+v", now)
	}
	changed = now.DeepCopy()
	changed.Status.Namespace = "patched"
	now = c.okCluster(c.clusters.PatchStatus(c.Context(), now, changed))
	if now.Status.Namespace != "patched" {
		c.Errorf("want the status patched, got %+v", now.Status)
	}
	_, err := c.clusters.PatchStatus(c.Context(), made, changed)
	c.refused(err, kube.IsConflict, "the status was changed since")
}

// Each change outside of metadata and status increases the generation.
func (c *conformity) generation() {
	made := c.cluster()
	labelled := made.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	labelled = c.okCluster(c.clusters.Patch(c.Context(), made, labelled))
	changed := labelled.DeepCopy()
	changed.Spec.ClientID = "two"
	changed = c.okCluster(c.clusters.Patch(c.Context(), labelled, changed))
	if made.Generation != 1 || labelled.Generation != 1 || changed.Generation != 2 {
		c.Errorf("want 1, 1 and 2, got %d, %d and %d", made.Generation, labelled.Generation, changed.Generation)
	}
}

func (c *conformity) mergePatch() {
	made := c.configMap("made", map[string]string{"a": "1", "b": "1"})
	changed := made.DeepCopy()
	delete(changed.Labels, "b")
	changed.Data["more"] = "data"
	now := c.okMap(c.configMaps.Patch(c.Context(), made, changed))
	if len(now.Labels) != 1 || now.Data["key"] != "value" || now.Data["more"] != "data" {
		c.Errorf("want a label removed and data added, got %+v", now)
	}
	late := made.DeepCopy()
	late.Data["key"] = "late"
	_, err := c.configMaps.Patch(c.Context(), made, late)
	c.refused(err, kube.IsConflict, "it was changed since it was read")
	again := c.okMap(c.configMaps.PatchRaw(c.Context(), c.key("made"), types.MergePatchType, []byte(`{"data":{"more":"data"}}`)))
	if again.ResourceVersion != now.ResourceVersion {
		c.Error("a patch without a difference has written")
	}
	_, err = c.configMaps.PatchRaw(c.Context(), c.key("missing"), types.MergePatchType, []byte(`{"data":{"more":"data"}}`))
	c.refused(err, kube.IsGone, "there is no such object")
}

func (c *conformity) jsonPatch() {
	c.configMap("made", nil)
	now := c.okMap(c.configMaps.PatchRaw(c.Context(), c.key("made"), types.JSONPatchType,
		[]byte(`[{"op":"test","path":"/data/key","value":"value"},{"op":"replace","path":"/data/key","value":"changed"}]`)))
	if now.Data["key"] != "changed" {
		c.Errorf("want it changed, got %v", now.Data)
	}
	_, err := c.configMaps.PatchRaw(c.Context(), c.key("made"), types.JSONPatchType,
		[]byte(`[{"op":"test","path":"/data/key","value":"value"},{"op":"remove","path":"/data/key"}]`))
	c.refused(err, func(err error) bool {
		return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonInvalid || codeOf(err) == http.StatusUnprocessableEntity
	}, "the test of the patch fails")
}

// A strategic merge patch merges lists of a built-in kind by their keys.
func (c *conformity) strategicPatch() {
	makeDeployment(c)
	now, err := c.dynamic.Resource(deploymentKind).Namespace(c.ns).Patch(c.Context(), "made", types.StrategicMergePatchType,
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"second","image":"b:v1"}]}}}}`), metav1.PatchOptions{})
	if err != nil {
		c.Fatal(err)
	}
	if list, _, _ := unstructured.NestedSlice(now.Object, "spec", "template", "spec", "containers"); len(list) != 2 {
		c.Errorf("want both containers, got %v", list)
	}
}

// makeDeployment makes the Deployment "made", which has no pods.
func makeDeployment(c *conformity) {
	c.Helper()
	pod := map[string]any{"containers": []any{map[string]any{"name": "first", "image": "a:v1"}}}
	_, err := c.dynamic.Resource(deploymentKind).Namespace(c.ns).Create(c.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "made"},
		"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": map[string]any{"app": "made"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "made"}}, "spec": pod},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
}

// revision checks that a Deployment has another revision if its template has changed, and only
// then.
func revision(c *conformity) {
	makeDeployment(c)
	for _, step := range []struct{ patch, revision string }{
		{`{"metadata":{"labels":{"step":"0"}}}`, "1"},
		{`{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`, "2"},
		{`{"spec":{"paused":false,"minReadySeconds":1}}`, "2"},
		{`{"spec":{"template":{"metadata":{"labels":{"version":"3"}}}}}`, "3"},
	} {
		changed, err := c.dynamic.Resource(deploymentKind).Namespace(c.ns).Patch(c.Context(), "made", types.MergePatchType, []byte(step.patch), metav1.PatchOptions{})
		if err != nil {
			c.Fatal(err)
		}
		var got string
		waitFor(c, c.collect, "the Deployment is at work after "+step.patch, func() bool {
			now, err := c.dynamic.Resource(deploymentKind).Namespace(c.ns).Get(c.Context(), "made", metav1.GetOptions{})
			if err != nil {
				c.Fatal(err)
			}
			seen, _, _ := unstructured.NestedInt64(now.Object, "status", "observedGeneration")
			got = now.GetAnnotations()[revisionMark]
			return seen >= changed.GetGeneration() && got != ""
		})
		if got != step.revision {
			c.Errorf("want revision %s after %s, got %s", step.revision, step.patch, got)
		}
	}
}

func (c *conformity) apply() {
	applied := c.newConfigMap("applied", map[string]string{"a": "1", "b": "1"})
	made := c.okMap(c.configMaps.Apply(c.Context(), applied.DeepCopy()))
	if made.UID == "" || made.Data["key"] != "value" {
		c.Errorf("want it made, got %+v", made)
	}
	again := c.okMap(c.configMaps.Apply(c.Context(), applied.DeepCopy()))
	if again.ResourceVersion != made.ResourceVersion {
		c.Error("applying the same has written")
	}
	foreign := again.DeepCopy()
	foreign.Data["foreign"] = "data"
	ok[*corev1.ConfigMap](c)(kube.StoreOf[*corev1.ConfigMap](c.as("other")).Patch(c.Context(), again, foreign))
	delete(applied.Labels, "b")
	applied.Data = map[string]string{"new": "data"}
	now := c.okMap(c.configMaps.Apply(c.Context(), applied))
	if len(now.Labels) != 1 || len(now.Data) != 2 || now.Data["foreign"] != "data" || now.Data["new"] != "data" {
		c.Errorf("want what is not applied any more removed, and what another one set kept; got %v %v", now.Labels, now.Data)
	}
	custom := c.okCluster(c.clusters.Apply(c.Context(), newCluster(c.ns, "custom")))
	if custom.Generation != 1 || custom.Spec.ClientID != "applied" {
		c.Errorf("want a custom object made, got %+v", custom)
	}
}

func (c *conformity) applyConflict() {
	c.configMap("made", nil)
	r := c.dynamic.Resource(configMapKind).Namespace(c.ns)
	wanted := fromConfigMap(c.ns, "made", map[string]any{"key": "applied"})
	_, err := r.Apply(c.Context(), "made", wanted, metav1.ApplyOptions{FieldManager: "other"})
	c.refused(err, apierrors.IsConflict, "another manager has set the field")
	now, err := r.Apply(c.Context(), "made", wanted, metav1.ApplyOptions{FieldManager: "other", Force: true})
	if err != nil || dataOf(now)["key"] != "applied" {
		c.Errorf("want the field taken over, got %v, %v", now, err)
	}
	for _, m := range now.GetManagedFields() {
		if owns := strings.Contains(m.FieldsV1.GetRawString(), `"f:key"`); owns != (m.Manager == "other") {
			c.Errorf("want only the other one to own the field, got %v", now.GetManagedFields())
		}
	}
}

func (c *conformity) managedFields() {
	made := c.cluster()
	changed := made.DeepCopy()
	changed.Status.Namespace = "set"
	now := ok[*fleet.Cluster](c)(kube.StoreOf[*fleet.Cluster](c.as("reporter")).PatchStatus(c.Context(), made, changed))
	got := managersOf(now)
	if len(got) != 2 || !got["conform/Update/"] || !got["reporter/Update/status"] {
		c.Errorf("want one manager of the spec and one of the status, got %v", got)
	}
}
