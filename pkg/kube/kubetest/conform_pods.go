package kubetest

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// running returns the UIDs of the ReplicaSets and of the running pods of the namespace.
func running(c *conformity) (sets, pods map[string]bool) {
	c.Helper()
	sets, pods = map[string]bool{}, map[string]bool{}
	all, err := kube.StoreOf[*appsv1.ReplicaSet](c.client).List(c.Context(), c.ns, "app=web")
	if err != nil {
		c.Fatal(err)
	}
	for _, s := range all {
		sets[string(s.UID)] = true
	}
	list, err := kube.StoreOf[*corev1.Pod](c.client).List(c.Context(), c.ns, "app=web")
	if err != nil {
		c.Fatal(err)
	}
	for _, p := range list {
		if p.Status.Phase == corev1.PodRunning && p.Spec.NodeName != "" && p.DeletionTimestamp == nil {
			pods[string(p.UID)] = true
		}
	}
	return sets, pods
}

// The pods of a Deployment are replaced with its template, and by nothing else.
func conformPods(c *conformity) {
	deployments := kube.StoreOf[*appsv1.Deployment](c.client)
	labels := map[string]string{"app": "web"}
	d := ok[*appsv1.Deployment](c)(deployments.Create(c.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "none.invalid/web:1"}}},
		}},
	}))
	c.collected("its pod runs", func() bool { _, pods := running(c); return len(pods) == 1 })
	sets, pods := running(c)
	change := func(f func(*appsv1.Deployment)) {
		c.collected("the Deployment is changed", func() bool {
			d = ok[*appsv1.Deployment](c)(deployments.Get(c.Context(), c.key("web")))
			changed := d.DeepCopy()
			f(changed)
			_, err := deployments.Patch(c.Context(), d, changed)
			return err == nil
		})
	}
	change(func(d *appsv1.Deployment) { d.Labels = map[string]string{"any": "label"} })
	c.collect()
	if nowSets, nowPods := running(c); !maps.Equal(sets, nowSets) || !maps.Equal(pods, nowPods) {
		c.Error("a label of the Deployment has replaced its pods")
	}
	change(func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "none.invalid/web:2" })
	c.collected("the pod is replaced", func() bool {
		nowSets, nowPods := running(c)
		for uid := range nowPods {
			if pods[uid] {
				return false
			}
		}
		return len(nowSets) == 2 && len(nowPods) == 1
	})
	if err := deployments.Delete(c.Context(), c.key("web"), kube.Precondition{}); err != nil {
		c.Fatal(err)
	}
	c.collected("all are gone", func() bool { nowSets, nowPods := running(c); return len(nowSets)+len(nowPods) == 0 })
}
