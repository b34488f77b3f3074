package kubetest

import (
	"fmt"
	"hash/fnv"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// podNode is the node on which all pods run.
const podNode = "node"

// RunPods does what the deployment controller, the scheduler and a kubelet do: the pods of a
// Deployment's newest template run on one node, and those of another template are replaced.
// Each template has a ReplicaSet, which stays. CollectGarbage deletes what belongs to a
// Deployment that is gone.
func RunPods(s *Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := podRunner{s}
	for _, r := range c.of("deployments").sorted(func(*record) bool { return true }) {
		if r.GetDeletionTimestamp() != nil {
			continue
		}
		if err := c.run(r); err != nil {
			s.t.Errorf("kubetest: run the pods of %s: %v", kube.KeyOf(r), err)
		}
	}
}

// A podRunner runs the pods of Deployments.
type podRunner struct{ *Server }

func (s podRunner) of(resource string) *resource {
	group := appsv1.SchemeGroupVersion
	if resource == "pods" {
		group = corev1.SchemeGroupVersion
	}
	return s.resources[group.WithResource(resource)]
}

// run brings the ReplicaSets and pods of one Deployment in line with its spec.
func (s podRunner) run(r *record) error {
	var d appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(r.Object, &d); err != nil {
		return err
	}
	hash := templateHash(d.Spec.Template)
	labels := maps.Clone(d.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name + "-" + hash, Labels: labels, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&d, r.GroupVersionKind())},
	}}
	set.Spec = appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: d.Spec.Selector, Template: d.Spec.Template}
	owner, err := s.ensure("replicasets", appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), set)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	replicas := int32(1)
	if d.Spec.Replicas != nil {
		replicas = *d.Spec.Replicas
	}
	for i := range replicas {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: fmt.Sprintf("%s-%d", set.Name, i), Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))},
		}, Spec: *d.Spec.Template.Spec.DeepCopy(), Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		pod.Spec.NodeName = podNode
		wanted[pod.Name] = true
		if _, err := s.ensure("pods", corev1.SchemeGroupVersion.WithKind("Pod"), pod); err != nil {
			return err
		}
	}
	return s.replace(&d, wanted)
}

// replace deletes the pods of a Deployment's ReplicaSets that are not wanted.
func (s podRunner) replace(d *appsv1.Deployment, wanted map[string]bool) error {
	pods := s.of("pods")
	for _, r := range pods.sorted(func(r *record) bool { return r.GetNamespace() == d.Namespace && !wanted[r.GetName()] }) {
		owner := metav1.GetControllerOf(r)
		if owner == nil {
			continue
		}
		set := s.of("replicasets").objects[kube.Key{Namespace: d.Namespace, Name: owner.Name}]
		if set == nil || !metav1.IsControlledBy(set, d) {
			continue
		}
		if _, err := s.remove(pods, r, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// ensure creates an object unless it exists, and returns that which exists.
func (s podRunner) ensure(resource string, kind schema.GroupVersionKind, obj kube.Object) (*record, error) {
	res := s.of(resource)
	if r := res.objects[kube.KeyOf(obj)]; r != nil {
		return r, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	made := &unstructured.Unstructured{Object: content}
	made.SetGroupVersionKind(kind)
	status := content["status"]
	handler(s).begin(res, made)
	setOrDrop(made.Object, "status", status)
	return s.commit(res, made, false)
}

// templateHash identifies a template in the names of its ReplicaSet and pods.
func templateHash(t corev1.PodTemplateSpec) string {
	h := fnv.New32a()
	text, _ := t.Marshal() // it was read from JSON, and can be written
	_, _ = h.Write(text)
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}
