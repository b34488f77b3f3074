package managed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// passing are kinds whose objects come and go by themselves.
var passing = []string{
	"events", "leases", "endpoints", "endpointslices", "nodes", "csinodes", "controllerrevisions", "componentstatuses", "ipaddresses",
	"pods", "replicasets",
}

// objects are those of a cluster that keep accepts, by "Kind namespace/name",
// each with what shows whether it was written or created again.
func (w world) objects(h *harness.Hub, keep func(*unstructured.Unstructured) bool) map[string]string {
	w.Helper()
	config := h.Cluster.REST()
	disco, err := discovery.NewDiscoveryClientForConfig(config)
	w.must(err)
	lists, err := disco.ServerPreferredResources()
	w.must(err)
	client, err := dynamic.NewForConfig(config)
	w.must(err)
	out := map[string]string{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		w.must(err)
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains(passing, r.Name) {
				continue
			}
			found, err := client.Resource(version.WithResource(r.Name)).List(w.Context(), metav1.ListOptions{})
			w.must(err)
			for i := range found.Items {
				o := &found.Items[i]
				if keep(o) {
					out[fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())] = state(o)
				}
			}
		}
	}
	return out
}

// state is the UID of an object, its generation, and that it is going.
func state(o *unstructured.Unstructured) string {
	text := fmt.Sprint(o.GetUID(), " ", o.GetGeneration())
	if o.GetDeletionTimestamp() != nil {
		text += " being deleted"
	}
	return text
}

// ofAgent selects what belongs to the agent in a namespace and its manager: what
// bears that one's mark, the agent's Secrets and store, and its workloads, whose
// namespaces begin with a prefix.
func ofAgent(namespace, manager, prefix string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool {
		if o.GetName() == "kube-root-ca.crt" || o.GetKind() == "Namespace" {
			return false
		}
		own := o.GetKind() == "Secret" && o.GetNamespace() == namespace &&
			(o.GetName() == fleet.SecretAgent || o.Object["type"] == fleet.SecretTypeAgentStore)
		return o.GetLabels()[fleet.LabelManagerID] == manager || own || strings.HasPrefix(o.GetNamespace(), prefix)
	}
}

// inNamespace selects what lives in a namespace.
func inNamespace(name string) func(*unstructured.Unstructured) bool {
	return func(o *unstructured.Unstructured) bool { return o.GetNamespace() == name }
}

// written are the requests since a moment that have changed something in a
// cluster, as far as keep wants them.
func (w world) written(h *harness.Hub, since time.Time, keep func(harness.Request) bool) []harness.Request {
	w.Helper()
	list, err := h.Requests(since)
	w.must(err)
	return slices.DeleteFunc(list, func(r harness.Request) bool {
		return !r.Writes() || r.Code >= 300 || !keep(r)
	})
}

// kubernetes reports whether a request was made by Kubernetes itself, or by the test.
func kubernetes(r harness.Request) bool {
	return strings.HasPrefix(r.User, "system:serviceaccount:kube-system:") && !strings.HasSuffix(r.User, "-importer") ||
		strings.HasPrefix(r.User, "system:kube") || strings.HasPrefix(r.User, "system:node") || strings.HasPrefix(r.User, "kwok") ||
		strings.HasPrefix(r.Agent, harness.TestAgent)
}

// passes reports whether a request is a sign of life, which is written at rest too.
func passes(r harness.Request) bool {
	return r.Resource == "leases" || r.Resource == "events" || r.What() == "clusters/status" ||
		r.Resource == "configmaps" && r.Name == "fleet-agent-contact"
}

// cluster reads a Cluster of the manager.
func (m *manager) cluster(namespace, name string) *fleet.Cluster {
	m.Helper()
	c, ok := harness.Read[*fleet.Cluster](m.world, m.hub, namespace, name)
	if !ok {
		return &fleet.Cluster{}
	}
	return c
}

// imported waits for the condition Imported of a Cluster, and returns its message.
func (m *manager) imported(namespace, name string, want corev1.ConditionStatus, reason string) string {
	m.Helper()
	var last *fleet.Condition
	defer func() {
		if m.Failed() {
			m.Logf("Imported of %s: %+v", name, last)
		}
	}()
	m.until(fmt.Sprintf("Cluster %s is Imported=%s %s", name, want, reason), func() bool {
		last = condition.Find(m.cluster(namespace, name).Status.Conditions, fleet.ConditionImported)
		return last != nil && last.Status == want && last.Reason == reason
	})
	return last.Message
}

// checksIn waits until the agent of a Cluster checks in from a namespace, and the
// Cluster is Ready.
func (m *manager) checksIn(namespace, name, from string) {
	m.Helper()
	var c *fleet.Cluster
	defer func() {
		if m.Failed() {
			m.Logf("%s/%s: %+v\n%+v", namespace, name, c.Status.Agent, c.Status.Conditions)
		}
	}()
	m.until(fmt.Sprintf("the agent of %s checks in from %s", name, from), func() bool {
		c = m.cluster(namespace, name)
		return c.Status.Agent.Namespace == from && condition.IsTrue(c.Status.Conditions, fleet.ConditionConnected) &&
			condition.IsTrue(c.Status.Conditions, fleet.ConditionReady)
	})
}

// bundle makes a Bundle with one ConfigMap for a Cluster.
func (m *manager) bundle(cluster, workspace, name, namespace, value string, more ...func(*fleet.Bundle)) {
	m.Helper()
	b := &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name},
		Spec: fleet.BundleSpec{
			BundleDeploymentOptions: fleet.BundleDeploymentOptions{DefaultNamespace: namespace},
			Resources:               []fleet.BundleResource{{Name: "a.yaml", Content: harness.ConfigMap("a", value)}},
			Targets:                 []fleet.BundleTarget{{ClusterName: cluster}},
		},
	}
	for _, f := range more {
		f(b)
	}
	harness.Make(m.world, m.hub, b)
}

// release gives the release of a Bundle a name.
func release(name string, take bool) func(*fleet.Bundle) {
	return func(b *fleet.Bundle) { b.Spec.Helm = &fleet.HelmOptions{ReleaseName: name, TakeOwnership: take} }
}

// ready waits until a Bundle is Ready.
func (m *manager) ready(workspace, name string) {
	m.Helper()
	var b *fleet.Bundle
	defer func() {
		if m.Failed() && b != nil {
			m.Logf("%s/%s: %+v", workspace, name, b.Status)
		}
	}()
	m.until("the Bundle "+name+" is Ready", func() bool {
		var there bool
		b, there = harness.Read[*fleet.Bundle](m.world, m.hub, workspace, name)
		return there && b.Status.ObservedGeneration == b.Generation && b.Status.Summary.Ready == 1 && b.Status.Summary.DesiredReady == 1
	})
}

// says waits until the deployment of a Bundle has a condition with a reason, and a
// text in its message.
func (m *manager) says(c *fleet.Cluster, bundle, kind, reason, text string) {
	m.Helper()
	var bd *fleet.BundleDeployment
	defer func() {
		if m.Failed() && bd != nil {
			m.Logf("%s: %+v", bundle, bd.Status.Conditions)
		}
	}()
	m.until(fmt.Sprintf("the deployment of %s says %s", bundle, reason), func() bool {
		var there bool
		if bd, there = harness.Read[*fleet.BundleDeployment](m.world, m.hub, c.Status.Namespace, bundle); !there {
			return false
		}
		cond := condition.Find(bd.Status.Conditions, kind)
		return cond != nil && cond.Reason == reason && strings.Contains(cond.Message, text)
	})
}

// value returns the data of a ConfigMap of a cluster, and its UID.
func (w world) value(h *harness.Hub, namespace string) (value, uid string) {
	w.Helper()
	cm, ok := harness.Read[*corev1.ConfigMap](w, h, namespace, "a")
	if !ok {
		return "", ""
	}
	return cm.Data["k"], string(cm.UID)
}
