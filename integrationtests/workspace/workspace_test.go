package workspace

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// TestStandalone has Rancher's kinds and no Rancher.
func TestStandalone(t *testing.T) {
	w := newWorld(t)
	w.start(plan.Auto) // before the kinds are there: it sleeps, and wakes up by itself
	w.rancher = rancher.New(t, w.hub)
	w.hub.Namespace(t, "fleet-default")
	w.hub.Namespace(t, "fleet-local")
	w.rancher.Put(t, rancher.Settings, "", "fleet-default-workspace-name", `{"value":"","default":"fleet-default"}`)
	for _, s := range []struct {
		name   string
		report func(*world)
	}{
		{"01_Mapping", mapping}, {"02_NotReadyYet", notReadyYet}, {"04_DefaultWorkspace", defaultWorkspace},
		{"05_ExternallyManaged", externallyManaged}, {"06_ForeignFields", foreignFields}, {"07_UnknownFields", unknownFields},
		{"08_Local", local}, {"13_Create", createWorkspace}, {"14_Existing", existingNamespace},
		{"15_Unmanaged", unmanaged}, {"16_Guard", guard}, {"18_Moved", moved}, {"20_Down", down},
	} {
		if !t.Run(s.name, func(t *testing.T) { s.report(w.in(t)) }) {
			return
		}
	}
}

func mapping(w *world) {
	since := time.Now()
	w.rancher.Triple(w, "fleet-default", "c1", "c-m-abcd1234", `"labels":{"env":"dev","foo.cattle.io/x":"1"}`)
	c := w.mapped("fleet-default", "c1")
	if c.Spec.KubeConfigSecret != "c1-kubeconfig" || c.Spec.KubeConfigSecretNamespace != "fleet-default" {
		w.Errorf("spec %+v", c.Spec)
	}
	want := map[string]string{"env": "dev", fleet.LabelManagementCluster: "c-m-abcd1234", fleet.LabelDisplayName: "c1"}
	for key, value := range want {
		if c.Labels[key] != value {
			w.Errorf("label %s is %q", key, c.Labels[key])
		}
	}
	if len(c.Labels) != len(want) {
		w.Errorf("labels %v", c.Labels)
	}
	w.by(manager, since, "spec.kubeConfigSecret", fleetClusters, "fleet-default", "c1")
	w.untouched(manager, since, mgmtClusters, "", "c-m-abcd1234")
	w.untouched(manager, since, provClusters, "fleet-default", "c1")
}

func notReadyYet(w *world) {
	w.rancher.Triple(w, "fleet-default", "c2", "c-m-abcd0002", "")
	uid := w.mapped("fleet-default", "c2").UID
	since := time.Now()
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-abcd0002", `{"metadata":{"labels":{"late":"yes"}},"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	w.turns("02")
	if c := w.cluster("fleet-default", "c2"); c == nil || c.UID != uid || c.Labels["late"] != "" {
		w.Errorf("a cluster that is not ready any more is kept as it was: %+v", c)
	}
	w.untouched(manager, since, fleetClusters, "fleet-default", "c2")
	w.rancher.Ready(w, "c-m-abcd0002", true)
	w.sees("it goes on", "yes", func() string { return w.label("fleet-default", "c2", "late") })
}

func defaultWorkspace(w *world) {
	since := time.Now()
	w.rancher.Put(w, rancher.Clusters, "", "c-12345", `{"spec":{"displayName":"old","invented":{"a":1}},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	workspaceOf := func() string { return w.text(rancher.Clusters, "", "c-12345", "spec", "fleetWorkspaceName") }
	w.sees("it gets the default", "fleet-default", workspaceOf)
	w.until("its provisioning Cluster is made", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "fleet-default", "c-12345") != nil })
	w.by(manager, since, "spec.fleetWorkspaceName", mgmtClusters, "", "c-12345")
	w.rancher.Patch(w, rancher.Settings, "", "fleet-default-workspace-name", `{"value":"team-x"}`)
	w.until("its workspace is made", func() bool { return w.namespace("team-x") != nil })
	w.sees("it does not move", "fleet-default", workspaceOf)
	w.rancher.Patch(w, rancher.Settings, "", "fleet-default-workspace-name", `{"value":"","default":""}`)
	w.rancher.Put(w, rancher.Settings, "", plan.SettingRegistry, `{"value":"registry.example"}`)
	w.registry("registry.example") // settings are seen in order
	w.rancher.Put(w, rancher.Clusters, "", "c-00000", `{"spec":{"displayName":"none"}}`)
	w.rancher.Put(w, rancher.Clusters, "", "c-early", `{"spec":{"displayName":"early","fleetWorkspaceName":"late"}}`)
	w.turns("04")
	w.untouched(manager, since, mgmtClusters, "", "c-00000")
	if w.namespace("late") != nil {
		w.Error("a cluster makes its workspace")
	}
	w.rancher.Put(w, rancher.Workspaces, "", "late", `{}`)
	w.until("its provisioning Cluster is made with its workspace", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "late", "c-early") != nil })
	w.rancher.Patch(w, rancher.Settings, "", "fleet-default-workspace-name", `{"default":"fleet-default"}`)
	w.rancher.Patch(w, rancher.Settings, "", plan.SettingRegistry, `{"value":""}`)
	w.registry("")
}

// registry waits until all mapped Clusters have a registry.
func (w *world) registry(want string) {
	w.Helper()
	w.until("all have the registry "+want, func() bool {
		list, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).List(w.Context(), "fleet-default", "")
		w.must(err)
		return !slices.ContainsFunc(list, func(c *fleet.Cluster) bool { return c.Spec.PrivateRepoURL != want })
	})
}

func externallyManaged(w *world) {
	w.rancher.Triple(w, "fleet-default", "c5", "c-m-abcd0005", "")
	w.mapped("fleet-default", "c5")
	since := time.Now()
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-abcd0005", `{"metadata":{"annotations":{"provisioning.cattle.io/externally-managed":"true"}}}`)
	w.turns("5a")
	w.mapped("fleet-default", "c5") // as in Rancher, which looks at the workspace alone
	w.rancher.Unreviewed(func() {   // once it is set, Rancher's webhook does not let it be emptied
		w.rancher.Patch(w, rancher.Clusters, "", "c-m-abcd0005", external)
	})
	w.until("it is given up", func() bool { return w.cluster("fleet-default", "c5") == nil })
	w.made("fleet-default", "c5", nil) // by who manages it
	w.turns("05")
	if w.cluster("fleet-default", "c5") == nil {
		w.Error("what others have made stays")
	}
	w.untouched(manager, since, mgmtClusters, "", "c-m-abcd0005")
}

// made makes a Fleet Cluster by hand.
func (w *world) made(namespace, name string, annotations map[string]string) {
	w.Helper()
	_, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).Create(w.Context(), &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
	})
	w.must(err)
}

func foreignFields(w *world) {
	since := time.Now()
	w.rancher.Patch(w, rancher.FleetClusters, "fleet-default", "c1", `{"metadata":{"labels":{"mine":"l"},"annotations":{"mine":"a"}},"spec":{"paused":true,"hostNetwork":true,"kubeConfigSecret":"other"}}`)
	w.sees("what is ours is put back", "c1-kubeconfig", func() string { return w.cluster("fleet-default", "c1").Spec.KubeConfigSecret })
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-abcd1234", `{"metadata":{"labels":{"env":null,"tier":"1"}}}`)
	w.until("a label goes, another comes", func() bool {
		l := w.cluster("fleet-default", "c1").Labels
		return l["env"] == "" && l["tier"] == "1"
	})
	c := w.cluster("fleet-default", "c1")
	if !c.Spec.Paused || c.Spec.HostNetwork == nil || c.Labels["mine"] != "l" || c.Annotations["mine"] != "a" {
		w.Errorf("what users have set is gone: %+v %+v", c.ObjectMeta, c.Spec)
	}
	for _, f := range w.fields(manager, since, fleetClusters, "fleet-default", "c1") {
		if slices.Contains([]string{"spec.paused", "spec.hostNetwork", "metadata.labels.mine", "metadata.annotations.mine"}, f) {
			w.Errorf("%s belongs to users, and the manager has written it", f)
		}
	}
	// Of Clusters the manager sees everything in order, also what it has written itself.
	w.rancher.Patch(w, rancher.FleetClusters, "fleet-default", "c1", `{"spec":{"kubeConfigSecret":"other"}}`)
	w.sees("what is ours is put back", "c1-kubeconfig", func() string { return w.cluster("fleet-default", "c1").Spec.KubeConfigSecret })
	since = time.Now()
	for range 3 {
		w.rancher.Patch(w, rancher.FleetClusters, "fleet-default", "c1", `{"metadata":{"annotations":{"mine":"`+time.Now().String()+`"}}}`)
	}
	w.turns("06")
	w.untouched(manager, since, fleetClusters, "fleet-default", "c1")
}

func local(w *world) {
	w.node("n1")
	w.node("n2")
	w.rancher.Put(w, rancher.Clusters, "", "local", `{"spec":{"displayName":"local","internal":true},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`)
	w.until("its provisioning Cluster is made", func() bool { return w.rancher.Get(w, rancher.ProvClusters, "fleet-local", "local") != nil })
	w.rancher.Says(w, rancher.ProvClusters, "fleet-local", "local", `{"status":{"clusterName":"local","clientSecretName":"local-kubeconfig"}}`)
	w.until("it is mapped", func() bool {
		c := w.cluster("fleet-local", "local")
		return c != nil && len(c.Spec.AgentTolerations) == 1
	})
	c := w.cluster("fleet-local", "local")
	if c.Spec.AgentNamespace != fleet.NamespaceLocalAgent || c.Labels["name"] != "local" || c.Spec.AgentTolerations[0].Key != controlPlane {
		w.Errorf("%+v %+v", c.Labels, c.Spec)
	}
	w.until("the group is there", func() bool { return w.group("fleet-local") })
	w.rancher.Patch(w, rancher.FleetGroups, "fleet-local", "default", `{"spec":{"selector":{"matchLabels":{"name":"other"}}}}`)
	w.sees("the group is put back", "local", func() string {
		return w.text(rancher.FleetGroups, "fleet-local", "default", "spec", "selector", "matchLabels", "name")
	})
	since := time.Now()
	for _, order := range []string{"n2", "n1", "n2"} { // nodes come in any order
		w.rancher.Patch(w, nodes, "", order, `{"metadata":{"labels":{"seen":"`+time.Now().Format("150405.000000")+`"}}}`)
	}
	w.turns("08")
	w.untouched(manager, since, fleetClusters, "fleet-local", "local")
}

const controlPlane = "node-role.kubernetes.io/control-plane"

var nodes = corev1.SchemeGroupVersion.WithResource("nodes")

// node makes a node of the control plane, and waits until it is ready: before that
// it has another taint.
func (w *world) node(name string) {
	w.Helper()
	store := kube.StoreOf[*corev1.Node](w.hub.Admin)
	_, err := store.Create(w.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{controlPlane: "true"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: controlPlane, Effect: corev1.TaintEffectNoSchedule}}},
	})
	w.must(err)
	w.until("node "+name+" is ready", func() bool {
		n, err := store.Get(w.Context(), kube.Key{Name: name})
		return err == nil && len(n.Spec.Taints) == 1 && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
	})
}

// group reports whether a workspace has the group of the local cluster.
func (w *world) group(namespace string) bool {
	_, err := kube.StoreOf[*fleet.ClusterGroup](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: namespace, Name: "default"})
	return err == nil
}

func createWorkspace(w *world) {
	w.rancher.Put(w, rancher.Workspaces, "", "team-a", `{"metadata":{"labels":{"tier":"1","x.cattle.io/y":"z"},"annotations":{"field.cattle.io/creatorId":"u-abcde"}}}`)
	w.until("the namespace is there", func() bool { return w.namespace("team-a") != nil })
	if ns := w.namespace("team-a"); ns.Labels["tier"] != "1" || ns.Labels["x.cattle.io/y"] != "" || ns.Annotations[plan.AnnotationOrigin] != plan.OriginCreated {
		w.Errorf("%+v", ns.ObjectMeta)
	}
	w.until("its maker has the rights", func() bool {
		b, err := kube.StoreOf[*rbacv1.RoleBinding](w.hub.Admin).Get(w.Context(), kube.Key{Namespace: "team-a", Name: "fleetworkspace-admin-binding-team-a"})
		return err == nil && b.Subjects[0].Name == "u-abcde"
	})
	since := time.Now()
	w.rancher.Patch(w, rancher.Workspaces, "", "team-a", `{"metadata":{"annotations":{"field.cattle.io/note":"x"}}}`)
	w.turns("13")
	for _, r := range w.writes(since) {
		if strings.Contains(r.Name, "team-a") {
			w.Errorf("written for nothing: %s", r)
		}
	}
}

func existingNamespace(w *world) {
	w.hub.Namespace(w.TB, "prod")
	allowed := `{"metadata":{"annotations":{"` + plan.AnnotationAllowExisting + `":"true"}}}`
	for _, name := range []string{"kube-system", "prod"} {
		since := time.Now()
		w.rancher.Put(w, rancher.Workspaces, "", name, `{"metadata":{"annotations":{"field.cattle.io/creatorId":"u-evil"}}}`)
		w.rancher.Patch(w, rancher.Workspaces, "", name, allowed) // by the same person: it says nothing there
		w.refused(name, "NamespaceRefused")
		w.untouched(manager, since, namespaces, "", name)
		bindings, err := kube.StoreOf[*rbacv1.RoleBinding](w.hub.Admin).List(w.Context(), name, "")
		w.must(err)
		for _, b := range bindings {
			if strings.HasPrefix(b.Name, "fleetworkspace-") {
				w.Errorf("a user got rights in %s by making a workspace: %+v", name, b)
			}
		}
	}
	since := time.Now()
	for _, name := range []string{"kube-system", "prod"} {
		w.rancher.Patch(w, rancher.Namespaces, "", name, allowed)
	}
	w.sees("who may change the namespace may", plan.OriginAdopted, func() string { return w.namespace("prod").Annotations[plan.AnnotationOrigin] })
	w.turns("14")
	w.untouched(manager, since, namespaces, "", "kube-system")
	w.rancher.Delete(w, rancher.Workspaces, "", "prod")
	w.until("the workspace goes", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "prod") == nil })
	if w.leaves("prod") {
		w.Error("a namespace that was there before stays")
	}
}

func unmanaged(w *world) {
	w.hub.Namespace(w.TB, "x")
	w.hub.Namespace(w.TB, "cluster-fleet-default-c1-0")
	w.bundle("cluster-fleet-default-c1-0")
	w.bundle("x")
	w.until("a namespace with a Bundle is a workspace", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "x") != nil })
	if ws := w.rancher.Get(w, rancher.Workspaces, "", "x"); ws.GetAnnotations()[plan.AnnotationManaged] != "false" || ws.GetOwnerReferences()[0].Kind != "Namespace" {
		w.Errorf("%v", ws.Object)
	}
	w.turns("15")
	if w.rancher.Get(w, rancher.Workspaces, "", "cluster-fleet-default-c1-0") != nil {
		w.Error("our own namespaces are none")
	}
	w.must(kube.StoreOf[*fleet.Bundle](w.hub.Admin).Delete(w.Context(), kube.Key{Namespace: "x", Name: "b"}, kube.Precondition{}))
	w.rancher.Delete(w, rancher.Workspaces, "", "x")
	w.until("it goes", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "x") == nil })
	if w.leaves("x") {
		w.Error("its namespace stays")
	}
}

// bundle makes a Bundle in a namespace.
func (w *world) bundle(namespace string) {
	w.Helper()
	_, err := kube.StoreOf[*fleet.Bundle](w.hub.Admin).Create(w.Context(), &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "b"}})
	w.must(err)
}

func guard(w *world) {
	w.rancher.Triple(w, "team-a", "held", "c-m-abcd0016", "")
	w.mapped("team-a", "held")
	w.rancher.Delete(w, rancher.Workspaces, "", "team-a")
	w.refused("team-a", "DeletionRefused")
	if w.leaves("team-a") {
		w.Error("the namespace is on its way out")
	}
	w.rancher.Delete(w, rancher.Clusters, "", "c-m-abcd0016")
	w.rancher.Delete(w, rancher.ProvClusters, "team-a", "held")
	w.until("without clusters it goes", func() bool { return w.rancher.Get(w, rancher.Workspaces, "", "team-a") == nil })
}

// A cluster that was made in one workspace and belongs to another has its Fleet
// Cluster there, and the old one goes when the new one is there.
func moved(w *world) {
	for _, name := range []string{"a", "b"} {
		w.rancher.Put(w, rancher.Workspaces, "", name, `{}`)
		w.until("the namespace is there", func() bool { return w.namespace(name) != nil })
	}
	w.rancher.Triple(w, "a", "mover", "c-m-abcd0018", "")
	w.mapped("a", "mover")
	since := time.Now()
	w.rancher.Patch(w, rancher.Clusters, "", "c-m-abcd0018", `{"spec":{"fleetWorkspaceName":"b"}}`)
	if c := w.mapped("b", "mover"); c.Spec.KubeConfigSecretNamespace != "a" {
		w.Errorf("the kubeconfig stays where it is: %+v", c.Spec)
	}
	w.until("the old one goes", func() bool { return w.cluster("a", "mover") == nil })
	w.sees("the new one comes first", "patch b, delete a", func() string {
		var order []string // the audit log may be written after the request is answered
		for _, r := range w.writes(since) {
			if r.Name == "mover" && r.Group == fleet.Group {
				order = append(order, r.Verb+" "+r.Namespace)
			}
		}
		return strings.Join(order, ", ")
	})
}

// forsaken waits until the namespace of a workspace goes that was deleted while the
// manager was stopped: not at once, and when time has passed.
func (w *world) forsaken(name string) {
	w.Helper()
	w.turns("lost")
	if w.leaves(name) {
		w.Error("a workspace that is missing may be about to be restored")
	}
	w.until("the namespace of a lost workspace goes", func() bool {
		w.looks(name)
		return w.leaves(name)
	})
}

// looks lets time pass, and the manager look at a namespace.
func (w *world) looks(name string) {
	ns := w.namespace(name)
	if ns == nil || ns.DeletionTimestamp != nil {
		return
	}
	w.ahead.Add(int64(plan.ForsakenTimeout))
	changed := ns.DeepCopy()
	changed.Labels["look"] = time.Now().Format("150405.000000")
	_, _ = kube.StoreOf[*corev1.Namespace](w.hub.Admin).Patch(w.Context(), ns, changed) // it may go this moment
}

// What is deleted while the manager is stopped is cleaned up afterwards, and a
// namespace without a mark stays.
func down(w *world) {
	w.rancher.Put(w, rancher.Workspaces, "", "leak", `{}`)
	w.until("the namespace is there", func() bool { return w.namespace("leak") != nil })
	w.until("the finalizer is there", func() bool { return len(w.rancher.Get(w, rancher.Workspaces, "", "leak").GetFinalizers()) == 1 })
	w.made("fleet-default", "by-hand", nil)
	w.stop()
	w.rancher.Patch(w, rancher.Workspaces, "", "leak", `{"metadata":{"finalizers":null}}`)
	w.rancher.Delete(w, rancher.Workspaces, "", "leak")
	w.rancher.Delete(w, rancher.ProvClusters, "fleet-default", "c1")
	w.start(plan.Auto)
	w.forsaken("leak")
	w.until("the Cluster of a lost cluster goes", func() bool { return w.cluster("fleet-default", "c1") == nil })
	w.turns("20")
	if w.cluster("fleet-default", "by-hand") == nil || w.cluster("fleet-default", "c2") == nil {
		w.Error("what others have made, and what is still wanted, stays")
	}
}
