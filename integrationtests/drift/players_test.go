package drift

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// This file plays what writes in a cluster where nothing is wrong: injectors,
// autoscalers, operators, cloud controllers and tools. What Kubernetes' own
// controllers do is done by themselves, and only waited for.

// jsonPatch changes an object as field manager who, with a JSON patch.
func (w *world) jsonPatch(o object, who, patch string) {
	w.Helper()
	_, err := w.of(o).Patch(w.Context(), w.named(o.name), types.JSONPatchType, []byte(w.named(patch)), metav1.PatchOptions{FieldManager: who})
	if err != nil {
		w.Fatalf("%s changes %s: %v", who, o.name, err)
	}
}

// playWebhooks injects the certificate authority of those who answer.
func playWebhooks(w *world, _ string) {
	const injector = "cert-manager-cainjector"
	ca := base64.StdEncoding.EncodeToString(w.Down.Cluster.CA())
	for _, o := range []object{
		{kind: "admissionregistration.k8s.io/v1/MutatingWebhookConfiguration", name: "corpus-inject"},
		{kind: "admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration", name: "corpus-check"},
	} {
		w.jsonPatch(o, injector, fmt.Sprintf(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":%q}]`, ca))
	}
	crd := object{kind: "apiextensions.k8s.io/v1/CustomResourceDefinition", name: "converteds.corpus.example"}
	w.patch(crd, injector, fmt.Sprintf(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":%q}}}}}`, ca))
}

// playScaling scales through the scale subresource, as autoscalers do.
func playScaling(w *world, namespace string) {
	web := object{kind: "apps/v1/Deployment", namespace: namespace, name: "web"}
	w.patch(web, "horizontal-pod-autoscaler", `{"spec":{"replicas":4}}`, "scale")
	w.patch(web, "kubectl-rollout", fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`,
		w.Moment().Format("2006-01-02T15:04:05Z07:00")))
}

// playDefaults writes objects as tools write them that know their types: in other
// orders and spellings, and with things of their own beside.
func playDefaults(w *world, namespace string) {
	w.replace(object{kind: "apps/v1/Deployment", namespace: namespace, name: "defaults"}, "kubectl-edit", func(o *unstructured.Unstructured) {
		pod := o.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		containers := pod["containers"].([]any)
		named := func(name string) func(any) bool {
			return func(c any) bool { return c.(map[string]any)["name"] == name }
		}
		main := containers[slices.IndexFunc(containers, named("main"))].(map[string]any)
		slices.Reverse(main["env"].([]any))
		main["resources"] = map[string]any{
			"limits": map[string]any{"cpu": "1", "memory": "1048576Ki"}, "requests": map[string]any{"cpu": "0.5", "memory": "100M"},
		}
		slices.Reverse(pod["volumes"].([]any))
		mesh := map[string]any{"name": "mesh", "image": "nowhere.example/mesh:1"}
		if !slices.ContainsFunc(containers, named("mesh")) {
			containers = append([]any{mesh}, containers...)
		}
		pod["containers"] = containers
		pod["tolerations"] = nil
		labels := o.GetLabels()
		labels["team"] = "theirs"
		o.SetLabels(labels)
	})
	w.patch(object{kind: "v1/ConfigMap", namespace: namespace, name: "defaults"}, "operator",
		`{"metadata":{"annotations":{"operator/seen":"yes"}},"data":{"more":"theirs"}}`)
	w.patch(object{kind: "apps/v1/DaemonSet", namespace: namespace, name: "node"}, "operator",
		`{"metadata":{"annotations":{"operator/seen":"yes"},"finalizers":["operator/held"]}}`)
	w.patch(object{kind: "apps/v1/DaemonSet", namespace: namespace, name: "node"}, "operator", `{"metadata":{"finalizers":null}}`)
}

// playServices gives addresses, as cloud controllers do.
func playServices(w *world, namespace string) {
	const cloud = "cloud-controller-manager"
	balanced := object{kind: "v1/Service", namespace: namespace, name: "balanced"}
	w.patch(balanced, cloud, `{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"],"annotations":{"cloud/id":"7"}}}`)
	w.patch(balanced, cloud, `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`, "status")
	w.patch(object{kind: "networking.k8s.io/v1/Ingress", namespace: namespace, name: "web"}, "ingress-controller",
		`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.2"}]}}}`, "status")
}

// playRights waits for what Kubernetes adds to rights and accounts, and adds what
// other distributions add.
func playRights(w *world, namespace string) {
	w.Until("the role is aggregated", func() bool {
		return strings.Contains(w.value(object{kind: "rbac.authorization.k8s.io/v1/ClusterRole", name: "corpus-all"}, "rules"), "pods")
	})
	w.Until("the token is made", func() bool {
		return strings.Contains(w.value(object{kind: "v1/Secret", namespace: namespace, name: "app-token"}, "data"), "token")
	})
	w.patch(object{kind: "v1/ServiceAccount", namespace: namespace, name: "app"}, "token-controller",
		`{"secrets":[{"name":"app-dockercfg"}],"imagePullSecrets":[{"name":"app-dockercfg"}]}`)
}

// playJobs waits until a Job has removed itself, and takes a finalizer off.
func playJobs(w *world, namespace string) {
	w.Until("the Job is done and gone", func() bool {
		return w.get(object{kind: "batch/v1/Job", namespace: namespace, name: "migrate"}) == nil
	})
	w.patch(object{kind: "v1/ConfigMap", namespace: namespace, name: "held"}, "holder", `{"metadata":{"finalizers":null}}`)
}

// playLimits waits until the claim is bound.
func playLimits(w *world, namespace string) {
	w.Until("the claim is bound", func() bool {
		return w.value(object{kind: "v1/PersistentVolumeClaim", namespace: namespace, name: "disk"}, "spec", "volumeName") == w.named(`"corpus-disk"`)
	})
	w.patch(object{kind: "v1/ResourceQuota", namespace: namespace, name: "quota"}, "quota-tool", `{"metadata":{"annotations":{"quota/owner":"x"}}}`)
}

// playKinds deploys a version of a kind that keeps one field less.
func playKinds(w *world, _ string) {
	piece{name: "kinds"}.order(w, fleet.BundleDeploymentOptions{})
	w.Until("the new version of the kind is deployed", func() bool {
		bd := w.Deployment("kinds")
		return bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
	})
}

// playThings is the operator of a kind: it writes in its own spelling, sets
// finalizers and status, and its objects lose what their kind keeps no longer.
func playThings(w *world, namespace string) {
	one := object{kind: "corpus.example/v1/App", namespace: namespace, name: "one"}
	w.Until("the field is not kept any more", func() bool {
		w.patch(one, "app-operator", `{"spec":{"every":"1h30m0s","resources":{"limits":{"cpu":"1","memory":"1Gi"}},"labels":null}}`)
		return w.value(one, "spec", "old") == ""
	})
	w.patch(one, "app-operator", `{"metadata":{"finalizers":["corpus.example/app"]}}`)
	w.patch(one, "app-operator", `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, "status")
	w.patch(one, "app-operator", `{"metadata":{"finalizers":null}}`)
}
