package workspace

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// TestStandalone plays Rancher's kinds without a Rancher that maps them.
func TestStandalone(t *testing.T) {
	w := newWorld(t)
	w.start(plan.Auto) // before the kinds are there: it sleeps, and wakes up by itself
	w.kinds()
	w.hub.Namespace(t, "fleet-default")
	w.hub.Namespace(t, "fleet-local")
	w.put(settings, "", "fleet-default-workspace-name", `{"value":"","default":"fleet-default"}`)
	for _, s := range []struct {
		name string
		tell func(*world)
	}{
		{"01Mapping", mapping}, {"02NotReadyYet", notReadyYet}, {"04DefaultWorkspace", defaultWorkspace},
		{"05ExternallyManaged", externallyManaged}, {"06ForeignFields", foreignFields}, {"07UnknownFields", unknownFields},
		{"08Local", local}, {"13Create", createWorkspace}, {"14Existing", existingNamespace},
		{"15Unmanaged", unmanaged}, {"16Guard", guard}, {"18Moved", moved}, {"20Down", down},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.tell(w.in(t)) }) {
			return
		}
	}
}

func mapping(w *world) {
	w.triple("fleet-default", "c1", "c-m-abcd1234", `"labels":{"env":"dev","foo.cattle.io/x":"1"}`)
	w.until("it is mapped", func() bool { return w.cluster("fleet-default", "c1") != nil })
	c := w.cluster("fleet-default", "c1")
	if c.Spec.KubeConfigSecret != "c1-kubeconfig" || c.Spec.KubeConfigSecretNamespace != "fleet-default" {
		w.Errorf("spec %+v", c.Spec)
	}
	want := map[string]string{"env": "dev", plan.LabelManagementCluster: "c-m-abcd1234", fleet.LabelDisplayName: "c1"}
	for key, value := range want {
		if c.Labels[key] != value {
			w.Errorf("label %s is %q", key, c.Labels[key])
		}
	}
	if len(c.Labels) != len(want) {
		w.Errorf("labels %v", c.Labels)
	}
}

func notReadyYet(w *world) {
	w.triple("fleet-default", "c2", "c-m-abcd0002", "")
	w.until("it is mapped", func() bool { return w.cluster("fleet-default", "c2") != nil })
	uid := w.cluster("fleet-default", "c2").UID
	w.patch(mgmtClusters, "", "c-m-abcd0002", `{"metadata":{"labels":{"late":"yes"}},"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	w.turns(2)
	if c := w.cluster("fleet-default", "c2"); c == nil || c.UID != uid || c.Labels["late"] != "" {
		w.Errorf("a cluster that is not ready any more is kept as it was: %+v", c)
	}
	w.patch(mgmtClusters, "", "c-m-abcd0002", `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	w.until("it goes on", func() bool { return w.cluster("fleet-default", "c2").Labels["late"] == "yes" })
}

func defaultWorkspace(w *world) {
	w.put(mgmtClusters, "", "c-12345", `{"spec":{"displayName":"old","invented":{"a":1}},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	workspaceOf := func() string {
		name, _, _ := unstructured.NestedString(w.get(mgmtClusters, "", "c-12345").Object, "spec", "fleetWorkspaceName")
		return name
	}
	w.sees("it gets the default", "fleet-default", workspaceOf)
	w.until("its provisioning Cluster is made", func() bool { return w.get(provClusters, "fleet-default", "c-12345") != nil })
	w.patch(settings, "", "fleet-default-workspace-name", `{"value":"team-x"}`)
	w.turns(4)
	w.sees("it does not move", "fleet-default", workspaceOf)
	w.patch(settings, "", "fleet-default-workspace-name", `{"value":"","default":""}`)
	w.put(mgmtClusters, "", "c-00000", `{"spec":{"displayName":"none"}}`)
	w.turns(5)
	if name, found, _ := unstructured.NestedString(w.get(mgmtClusters, "", "c-00000").Object, "spec", "fleetWorkspaceName"); found {
		w.Errorf("assigned to %q though no default is set", name)
	}
	w.patch(settings, "", "fleet-default-workspace-name", `{"default":"fleet-default"}`)
}

func externallyManaged(w *world) {
	w.triple("fleet-default", "c5", "c-m-abcd0005", "")
	w.until("it is mapped", func() bool { return w.cluster("fleet-default", "c5") != nil })
	w.patch(mgmtClusters, "", "c-m-abcd0005", `{"metadata":{"annotations":{"provisioning.cattle.io/externally-managed":"true"}},"spec":{"fleetWorkspaceName":null}}`)
	w.until("it is given up", func() bool { return w.cluster("fleet-default", "c5") == nil })
	w.turns(6)
	if _, found, _ := unstructured.NestedString(w.get(mgmtClusters, "", "c-m-abcd0005").Object, "spec", "fleetWorkspaceName"); found {
		w.Error("a cluster that others manage gets no workspace")
	}
}

func foreignFields(w *world) {
	clusters := resource("fleet.cattle.io", "v1alpha1", "clusters")
	w.patch(clusters, "fleet-default", "c1", `{"metadata":{"labels":{"mine":"l"},"annotations":{"mine":"a"}},"spec":{"paused":true,"hostNetwork":true,"kubeConfigSecret":"other"}}`)
	w.sees("what is ours is put back", "c1-kubeconfig", func() string { return w.cluster("fleet-default", "c1").Spec.KubeConfigSecret })
	w.patch(mgmtClusters, "", "c-m-abcd1234", `{"metadata":{"labels":{"env":null,"tier":"1"}}}`)
	w.until("a label goes, another comes", func() bool {
		l := w.cluster("fleet-default", "c1").Labels
		return l["env"] == "" && l["tier"] == "1"
	})
	c := w.cluster("fleet-default", "c1")
	if !c.Spec.Paused || c.Spec.HostNetwork == nil || c.Labels["mine"] != "l" || c.Annotations["mine"] != "a" {
		w.Errorf("what users have set is gone: %+v %+v", c.ObjectMeta, c.Spec)
	}
	since := time.Now()
	for range 3 {
		w.patch(clusters, "fleet-default", "c1", `{"metadata":{"annotations":{"mine":"`+time.Now().String()+`"}}}`)
	}
	w.turns(7)
	for _, r := range w.writes(since) {
		if r.Name == "c1" {
			w.Errorf("written for nothing: %s", r)
		}
	}
}

// Every write to Rancher's own objects is a patch of what changes.
func unknownFields(w *world) {
	m := w.get(mgmtClusters, "", "c-12345")
	if _, found, _ := unstructured.NestedFieldNoCopy(m.Object, "spec", "invented", "a"); !found {
		w.Errorf("unknown fields are lost: %v", m.Object)
	}
	for _, r := range w.writes(time.Time{}) {
		if strings.HasSuffix(r.Resource, "clusters") && r.Group != fleet.Group && r.Verb != "patch" {
			w.Errorf("not a patch: %s", r)
		}
	}
}

func local(w *world) {
	nodes := kube.StoreOf[*corev1.Node](w.hub.Admin)
	taint := corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}
	for _, name := range []string{"n1", "n2"} {
		_, err := nodes.Create(w.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"node-role.kubernetes.io/control-plane": "true"}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{taint}},
		})
		w.must(err)
	}
	w.put(mgmtClusters, "", "local", `{"spec":{"displayName":"local","internal":true},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	w.until("its provisioning Cluster is made", func() bool { return w.get(provClusters, "fleet-local", "local") != nil })
	w.patch(provClusters, "fleet-local", "local", `{"status":{"clusterName":"local","clientSecretName":"local-kubeconfig"}}`)
	w.until("it is mapped", func() bool {
		c := w.cluster("fleet-local", "local")
		return c != nil && len(c.Spec.AgentTolerations) == 1
	})
	c := w.cluster("fleet-local", "local")
	if c.Spec.AgentNamespace != fleet.NamespaceLocalAgent || c.Labels["name"] != "local" || c.Spec.AgentTolerations[0].Key != taint.Key {
		w.Errorf("%+v %+v", c.Labels, c.Spec)
	}
	w.until("the group is there", func() bool {
		_, err := kube.StoreOf[*fleet.ClusterGroup](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: "fleet-local", Name: "default"})
		return err == nil
	})
}

func createWorkspace(w *world) {
	w.put(workspaces, "", "team-a", `{"metadata":{"labels":{"tier":"1","x.cattle.io/y":"z"},"annotations":{"field.cattle.io/creatorId":"u-abcde"}}}`)
	w.until("the namespace is there", func() bool { return w.namespace("team-a") != nil })
	if ns := w.namespace("team-a"); ns.Labels["tier"] != "1" || ns.Labels["x.cattle.io/y"] != "" || ns.Annotations[plan.AnnotationOrigin] != plan.OriginCreated {
		w.Errorf("%+v", ns.ObjectMeta)
	}
	w.until("its maker has the rights", func() bool {
		b, err := kube.StoreOf[*rbacv1.RoleBinding](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: "team-a", Name: "fleetworkspace-admin-binding-team-a"})
		return err == nil && b.Subjects[0].Name == "u-abcde"
	})
	since := time.Now()
	w.patch(workspaces, "", "team-a", `{"metadata":{"annotations":{"field.cattle.io/note":"x"}}}`)
	w.turns(13)
	for _, r := range w.writes(since) {
		if strings.Contains(r.Name, "team-a") {
			w.Errorf("written for nothing: %s", r)
		}
	}
}

func existingNamespace(w *world) {
	w.hub.Namespace(w.TB, "prod")
	for _, name := range []string{"kube-system", "prod"} {
		before := w.namespace(name)
		w.put(workspaces, "", name, `{"metadata":{"annotations":{"field.cattle.io/creatorId":"u-evil"}}}`)
		w.refused(name, "NamespaceRefused")
		if now := w.namespace(name); now.ResourceVersion != before.ResourceVersion {
			w.Errorf("namespace %s was changed: %+v", name, now.ObjectMeta)
		}
		bindings, err := kube.StoreOf[*rbacv1.RoleBinding](w.hub.Admin).List(w.Context(), name, "")
		w.must(err)
		for _, b := range bindings {
			if strings.HasPrefix(b.Name, "fleetworkspace-") {
				w.Errorf("somebody got rights in %s by making a workspace: %+v", name, b)
			}
		}
	}
	for _, name := range []string{"kube-system", "prod"} {
		w.patch(workspaces, "", name, `{"metadata":{"annotations":{"`+plan.AnnotationAllowExisting+`":"true"}}}`)
	}
	w.sees("an administrator may", plan.OriginAdopted, func() string { return w.namespace("prod").Annotations[plan.AnnotationOrigin] })
	w.turns(14)
	if ns := w.namespace("kube-system"); ns.Annotations[plan.AnnotationOrigin] != "" {
		w.Error("never the system's")
	}
	w.remove(workspaces, "", "prod")
	w.until("the workspace goes", func() bool { return w.get(workspaces, "", "prod") == nil })
	if ns := w.namespace("prod"); ns == nil || ns.DeletionTimestamp != nil {
		w.Error("a namespace that was there before stays")
	}
}

func unmanaged(w *world) {
	w.hub.Namespace(w.TB, "x")
	w.hub.Namespace(w.TB, "cluster-fleet-default-c1-0")
	bundles := kube.StoreOf[*fleet.Bundle](w.hub.Admin)
	for _, ns := range []string{"cluster-fleet-default-c1-0", "x"} {
		_, err := bundles.Create(w.Context(), &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "b"}})
		w.must(err)
	}
	w.until("a namespace with a Bundle is a workspace", func() bool { return w.get(workspaces, "", "x") != nil })
	if ws := w.get(workspaces, "", "x"); ws.GetAnnotations()[plan.AnnotationManaged] != "false" || ws.GetOwnerReferences()[0].Kind != "Namespace" {
		w.Errorf("%v", ws.Object)
	}
	w.turns(15)
	if w.get(workspaces, "", "cluster-fleet-default-c1-0") != nil {
		w.Error("our own namespaces are none")
	}
	w.must(bundles.Delete(w.Context(), kube.Key{Namespace: "x", Name: "b"}, kube.Precondition{}))
	w.remove(workspaces, "", "x")
	w.until("it goes", func() bool { return w.get(workspaces, "", "x") == nil })
	if ns := w.namespace("x"); ns == nil || ns.DeletionTimestamp != nil {
		w.Error("its namespace stays")
	}
}

func guard(w *world) {
	w.triple("team-a", "held", "c-m-abcd0016", "")
	w.until("it is mapped", func() bool { return w.cluster("team-a", "held") != nil })
	w.remove(workspaces, "", "team-a")
	w.refused("team-a", "DeletionRefused")
	if ns := w.namespace("team-a"); ns.DeletionTimestamp != nil {
		w.Error("the namespace is on its way out")
	}
	w.remove(mgmtClusters, "", "c-m-abcd0016")
	w.remove(provClusters, "team-a", "held")
	w.until("without clusters it goes", func() bool { return w.get(workspaces, "", "team-a") == nil })
}

// A cluster that was made in one workspace and belongs to another has its Fleet
// Cluster there, and the old one goes when the new one is there.
func moved(w *world) {
	for _, name := range []string{"a", "b"} {
		w.put(workspaces, "", name, `{}`)
		w.until("the namespace is there", func() bool { return w.namespace(name) != nil })
	}
	w.triple("a", "mover", "c-m-abcd0018", "")
	w.until("it is mapped", func() bool { return w.cluster("a", "mover") != nil })
	w.patch(mgmtClusters, "", "c-m-abcd0018", `{"spec":{"fleetWorkspaceName":"b"}}`)
	w.until("it is mapped to the other", func() bool { return w.cluster("b", "mover") != nil })
	w.until("the old one goes", func() bool { return w.cluster("a", "mover") == nil })
	if c := w.cluster("b", "mover"); c.Spec.KubeConfigSecretNamespace != "a" {
		w.Errorf("the kubeconfig stays where it is: %+v", c.Spec)
	}
}

// What is deleted while nobody looks is cleaned up afterwards, and what was marked
// by nobody stays.
func down(w *world) {
	w.put(workspaces, "", "leak", `{}`)
	w.until("the namespace is there", func() bool { return w.namespace("leak") != nil })
	w.until("the finalizer is there", func() bool { return len(w.get(workspaces, "", "leak").GetFinalizers()) == 1 })
	_, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).Create(w.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "by-hand"}})
	w.must(err)
	w.stop()
	w.patch(workspaces, "", "leak", `{"metadata":{"finalizers":null}}`)
	w.remove(workspaces, "", "leak")
	w.remove(provClusters, "fleet-default", "c1")
	w.start(plan.Auto)
	w.until("the namespace of a lost workspace goes", func() bool { ns := w.namespace("leak"); return ns == nil || ns.DeletionTimestamp != nil })
	w.until("the Cluster of a lost cluster goes", func() bool { return w.cluster("fleet-default", "c1") == nil })
	w.turns(20)
	if w.cluster("fleet-default", "by-hand") == nil || w.cluster("fleet-default", "c2") == nil {
		w.Error("what others have made, and what is still wanted, stays")
	}
}

// refused waits for an event about a FleetWorkspace.
func (w *world) refused(name, reason string) {
	w.Helper()
	w.until(name+": "+reason, func() bool {
		list, err := kube.StoreOf[*eventsv1.Event](w.hub.Admin).List(w.Context(), "", "")
		w.must(err)
		for _, e := range list {
			if e.Regarding.Kind == "FleetWorkspace" && e.Regarding.Name == name && e.Reason == reason {
				return true
			}
		}
		return false
	})
}

// TestBesideRancher plays a Rancher that lives: nobody but it maps. When it is gone
// for long, or its feature is off, we do.
func TestBesideRancher(t *testing.T) {
	w := newWorld(t)
	w.kinds()
	w.hub.Namespace(t, "fleet-default")
	w.lives()
	w.triple("fleet-default", "c1", "c-m-abcd1234", "")
	w.put(workspaces, "", "team-a", `{}`)
	since := time.Now()
	w.start(plan.Auto)
	w.watches("nodes")
	if list := w.writes(since); len(list) > 0 {
		t.Errorf("written beside Rancher: %v", list)
	}
	if w.cluster("fleet-default", "c1") != nil || w.namespace("team-a") != nil {
		t.Error("mapped beside Rancher")
	}
	w.put(features, "", "fleet", `{"spec":{"value":false},"status":{"default":true}}`)
	w.until("with its feature off we map", func() bool { return w.cluster("fleet-default", "c1") != nil && w.namespace("team-a") != nil })
}
