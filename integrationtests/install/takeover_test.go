package install

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// runtimeRoles are the objects that the reference creates when it starts,
// without Helm.
const runtimeRoles = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: fleet-bundle-deployment}
rules: [{apiGroups: [fleet.cattle.io], resources: [bundledeployments], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: fleet-content}
rules: [{apiGroups: [fleet.cattle.io], resources: [contents], verbs: [get]}]
`

// possessions are objects that users have in a cluster with Fleet: those of its
// kinds, those of an agent, and a workload.
const possessions = `apiVersion: v1
kind: Namespace
metadata: {name: fleet-default}
---
apiVersion: v1
kind: Namespace
metadata: {name: cluster-fleet-default-c1-0123456789ab}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Cluster
metadata: {namespace: fleet-default, name: c1, labels: {env: prod}}
spec: {clientID: c1, kubeConfigSecret: c1-kubeconfig}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: ClusterGroup
metadata: {namespace: fleet-default, name: prod}
spec: {selector: {matchLabels: {env: prod}}}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: ClusterRegistrationToken
metadata: {namespace: fleet-default, name: new-clusters}
spec: {ttl: 240h0m0s}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: GitRepo
metadata: {namespace: fleet-default, name: shop}
spec: {repo: "https://git.invalid/shop", paths: [shop], targets: [{clusterGroup: prod}]}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Bundle
metadata: {namespace: fleet-default, name: shop-shop, labels: {fleet.cattle.io/repo-name: shop}}
spec: {resources: [{name: a.yaml, content: "{}"}], targets: [{clusterGroup: prod}]}
---
apiVersion: fleet.cattle.io/v1alpha1
kind: Content
metadata: {name: s-0123}
content: AAAA
---
apiVersion: fleet.cattle.io/v1alpha1
kind: BundleDeployment
metadata: {namespace: cluster-fleet-default-c1-0123456789ab, name: shop-shop}
spec: {deploymentID: "s-0123:4567", options: {}, stagedOptions: {}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: cluster-fleet-default-c1-0123456789ab, name: request-x}
---
apiVersion: v1
kind: Secret
metadata: {namespace: cattle-fleet-system, name: fleet-agent}
stringData: {deploymentNamespace: cluster-fleet-default-c1-0123456789ab, clusterNamespace: fleet-default, clusterName: c1, kubeconfig: "{}"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: shop, name: web, labels: {objectset.rio.cattle.io/hash: "0123"}, annotations: {meta.helm.sh/release-name: shop-shop, meta.helm.sh/release-namespace: shop}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "none.invalid/web:1"}]}
`

// goes are the parts of the reference's charts that ours do not have: rights of its agent
// under another name.
var goes = []string{
	"ClusterRole fleet-agent-system-fleet-agent-role",
	"ClusterRoleBinding fleet-agent-system-fleet-agent-role-binding",
}

// tolerations are the values with which Rancher installs charts if its control plane is
// tainted.
var tolerations = map[string]any{
	"tolerations": []any{map[string]any{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}},
}

// Our charts are upgrades of the reference's: what people have stays, no pod of
// theirs is started again, and all that goes is the reference's own.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "takeover")
	w.install(referenceKinds(), tolerations) // Rancher passes them to every chart
	w.until("the kinds are served", w.serves)
	w.install(referenceManager(), map[string]any{
		"apiServerURL": "https://fleet.invalid", "apiServerCA": "PEM", "bootstrap": map[string]any{"agentNamespace": "cattle-fleet-local-system"},
		"controller": map[string]any{"reconciler": map[string]any{"workers": map[string]any{"bundle": "100"}}},
	})
	w.install(referenceAgent(), map[string]any{"apiServerURL": "https://fleet.invalid", "token": "t0ken", "tokenName": "old", "clusterNamespace": "fleet-default"})
	w.apply(runtimeRoles)
	w.apply(possessions)
	w.until("the workload is ready", func(ctx context.Context) bool { return w.ready(ctx, "shop", "web") })
	before, since := w.objects(), time.Now()

	w.must(w.upgrade(w.ours("fleet-crd"), nil))
	w.must(w.upgrade(w.ours("fleet-crd"), tolerations)) // as Rancher does
	w.must(w.upgrade(w.ours("fleet"), nil))
	w.must(w.upgrade(w.ours("fleet-agent"), nil))
	after := w.objects()

	if diff := cmp.Diff(goes, missing(before, after)); diff != "" {
		t.Errorf("what is gone\n-want +got\n%s", diff)
	}
	for name, o := range before {
		now, ok := after[name]
		if !ok {
			continue
		}
		if diff := cmp.Diff(fixed(o), fixed(now)); diff != "" {
			t.Errorf("%s: what cannot be changed was changed\n%s", name, diff)
		}
		mine := o.GroupVersionKind().Group == fleet.Group || o.GetNamespace() == "shop"
		if mine && now.GetResourceVersion() != o.GetResourceVersion() {
			t.Errorf("%s was written", name)
		}
	}
	if n := len(w.deletions(since)); n != len(goes) {
		t.Errorf("%d things were deleted:\n%s", n, strings.Join(w.deletions(since), "\n"))
	}
	t.Run("Values", func(t *testing.T) { w.part(t).keepsValues(after) })
	t.Run("Back", func(t *testing.T) { w.part(t).back(before) })
}

// keepsValues: our release has the values of the reference's.
func (w *world) keepsValues(now map[string]*unstructured.Unstructured) {
	config, _, _ := unstructured.NestedString(now["ConfigMap cattle-fleet-system/fleet-controller"].Object, "data", "config")
	if !strings.Contains(config, `"apiServerURL": "https://fleet.invalid"`) {
		w.Errorf("the manager does not know its URL: %s", config)
	}
	containers, _, _ := unstructured.NestedSlice(now["Deployment cattle-fleet-system/fleet-controller"].Object, "spec", "template", "spec", "containers")
	if len(containers) != 1 {
		w.Fatalf("want one container, got %d", len(containers))
	}
	args, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	if !slices.Contains(args, "--bundle-workers=100") {
		w.Errorf("not the workers of before: %v", args)
	}
}

// back: Helm's rollback to the reference is an upgrade like any other.
func (w *world) back(before map[string]*unstructured.Unstructured) {
	since := time.Now()
	w.rollback("fleet", 1)
	now := w.objects()
	var lost []string
	for _, name := range missing(before, now) {
		if !strings.HasSuffix(name, "(created again)") {
			lost = append(lost, name)
		}
	}
	if diff := cmp.Diff(goes, lost); diff != "" { // all of the chart that was not rolled back
		w.Errorf("what is gone after a rollback\n-want +got\n%s", diff)
	}
	const ours = "fleet-controller-workspace" // of no other chart, and for no longer than ours is there
	for _, d := range w.deletions(since) {
		if !strings.Contains(d, "cattle-fleet-system") && !strings.Contains(d, ours) {
			w.Errorf("deleted: %s", d)
		}
	}
}

// fixed returns the fields of an object that must never change: selectors, and
// the role of a binding.
func fixed(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	if o.GetKind() == "Deployment" {
		out["selector"], _, _ = unstructured.NestedMap(o.Object, "spec", "selector")
	}
	if role, ok := o.Object["roleRef"]; ok {
		out["roleRef"] = role
	}
	if o.GetKind() == "CustomResourceDefinition" {
		out["scope"], _, _ = unstructured.NestedString(o.Object, "spec", "scope")
		out["names"], _, _ = unstructured.NestedString(o.Object, "spec", "names", "plural")
	}
	return out
}
