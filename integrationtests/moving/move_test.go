package moving

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/integrationtests/harness/rancher"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// TestMoves reports what becomes of clusters that Rancher moves.
func TestMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("Parallel", func(t *testing.T) {
		for name, test := range map[string]func(*world){
			"11_rotated_kubeconfig": rotated, "17_move_imported": imported, "17_move_forever": forever,
			"18_move_provisioned": provisioned,
		} {
			t.Run(name, func(t *testing.T) { t.Parallel(); test(w.in(t)) })
		}
	})
	// Others would miss what was under way when the manager and Rancher are stopped, and
	// when the manager has lost a right.
	t.Run("17_move_twice", func(t *testing.T) { twice(w.in(t)) })
	t.Run("17_no_right_to_see_it_move", func(t *testing.T) { blind(w.in(t)) })
	t.Run("RancherIsAway", func(t *testing.T) { cutOff(w.in(t)) })
}

// A mover is one imported cluster of Rancher's, whose management Cluster comes first.
type mover struct {
	*world
	id   string // of the management Cluster, and of all that is made of it
	home string // namespace of its workloads
}

// imports lets Rancher import a cluster into fleet-default, and waits until its agent
// works. more is set on the Fleet Cluster by a user.
func (w *world) imports(id string, more func(*fleet.Cluster)) *mover {
	w.Helper()
	m := &mover{world: w, id: id, home: "app-" + id}
	w.Cleanup(m.report)
	w.rancher.Attach(w, id, w.down.Cluster.REST())
	harness.AgentOf(w, w.down, "agent-"+id)
	c := &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: id, Labels: map[string]string{"users": id}, Annotations: map[string]string{}},
		Spec:       fleet.ClusterSpec{AgentNamespace: "agent-" + id}, // every test has an agent of its own
	}
	more(c)
	harness.Make(w, w.hub, c)
	w.put(rancher.Clusters, "", id, fmt.Sprintf(`{"spec":{"displayName":%q,"fleetWorkspaceName":"fleet-default","importedConfig":{}},
		"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Connected","status":"True"}]}}`, id))
	w.online(fleet.NamespaceDefault, id)
	return m
}

// report logs what has become of the cluster, if its test failed.
func (m *mover) report() {
	if !m.Failed() {
		return
	}
	ctx := context.Background() // that of the test has ended
	clusters, err := kube.StoreOf[*fleet.Cluster](m.hub.Admin).List(ctx, "", "")
	for _, c := range clusters {
		if c.Name == m.id {
			m.Logf("Cluster %s: deleted %v, annotations %v\nconditions %+v\nagent %+v", kube.KeyOf(c), c.DeletionTimestamp, c.Annotations, c.Status.Conditions, c.Status.Agent)
		}
	}
	list, err2 := kube.StoreOf[*fleet.BundleDeployment](m.hub.Admin).List(ctx, "", "")
	for _, bd := range list {
		if bd.Labels[fleet.LabelCluster] == m.id {
			m.Logf("BundleDeployment %s: deleted %v, wants %s, annotations %v\nstatus %+v", kube.KeyOf(bd), bd.DeletionTimestamp, bd.Spec.DeploymentID, bd.Annotations, bd.Status)
		}
	}
	if err != nil || err2 != nil {
		m.Logf("read it: %v, %v", err, err2)
	}
}

// move changes the workspace, as Rancher's users do.
func (m *mover) move(to string) {
	m.Helper()
	m.patch(rancher.Clusters, "", m.id, fmt.Sprintf(`{"spec":{"fleetWorkspaceName":%q}}`, to))
}

// repository serves a folder for each name, with a ConfigMap of that name.
func (m *mover) repository(names ...string) {
	m.Helper()
	dir := m.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, name)
		m.must(os.MkdirAll(path, 0o755))
		m.must(os.WriteFile(filepath.Join(path, "fleet.yaml"), []byte("defaultNamespace: "+m.home+"\n"), 0o644))
		m.must(os.WriteFile(filepath.Join(path, "a.yaml"), []byte(harness.ConfigMap(name, "one")), 0o644))
	}
	m.must(m.git.Create(m.id))
	_, err := m.git.Publish(m.id, dir)
	m.must(err)
}

// repo makes a GitRepo of one folder, for the cluster alone.
func (m *mover) repo(namespace, name string, change func(*fleet.GitRepoSpec)) {
	m.Helper()
	r := &fleet.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.id + "-" + name},
		Spec: fleet.GitRepoSpec{
			Repo: m.git.URL(m.id), Branch: "main", Paths: []string{name},
			Targets: []fleet.GitTarget{{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"users": m.id}}}},
		},
	}
	change(&r.Spec)
	harness.Make(m.world, m.hub, r)
}

func unchanged(*fleet.GitRepoSpec) {}

// bundle is the name of the Bundle of a folder.
func (m *mover) bundle(name string) string {
	return naming.BundleName(m.id+"-"+name, name, "")
}

// runs waits until a folder is deployed, and returns its object.
func (m *mover) runs(name string) *corev1.ConfigMap {
	m.Helper()
	var cm *corev1.ConfigMap
	m.until(name+" runs", func() bool {
		var ok bool
		cm, ok = harness.Read[*corev1.ConfigMap](m.world, m.down, m.home, name)
		return ok
	})
	return cm
}

// ready waits until the deployment of a folder is Ready in a workspace.
func (m *mover) ready(namespace, name string) {
	m.Helper()
	m.until(namespace+" has "+name+" ready", func() bool {
		c := m.cluster(namespace, m.id)
		if c == nil || c.Status.Namespace == "" {
			return false
		}
		bd, ok := harness.Read[*fleet.BundleDeployment](m.world, m.hub, c.Status.Namespace, m.bundle(name))
		return ok && bd.Status.Ready && bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
	})
}

// moving is the message of the condition Moving of a Cluster, be it True or Unknown;
// empty: it has none.
func (m *mover) moving(namespace string) string {
	m.Helper()
	c := m.cluster(namespace, m.id)
	if c == nil {
		return ""
	}
	says := condition.Find(c.Status.Conditions, fleet.ConditionMoving)
	if says == nil || says.Status == corev1.ConditionFalse {
		return ""
	}
	return says.Message
}

// gone waits until nothing is left of a cluster in a workspace.
func (m *mover) gone(namespace, deployments string) {
	m.Helper()
	m.until("nothing is left in "+namespace, func() bool {
		_, space := harness.Read[*corev1.Namespace](m.world, m.hub, "", deployments)
		_, token := harness.Read[*fleet.ClusterRegistrationToken](m.world, m.hub, namespace, naming.ImportToken(m.id))
		requests, err := kube.StoreOf[*fleet.ClusterRegistration](m.hub.Admin).List(m.Context(), namespace, "")
		m.must(err)
		for _, r := range requests {
			if r.Status.ClusterName == m.id {
				return false
			}
		}
		return m.cluster(namespace, m.id) == nil && !space && !token
	})
}

// touched are the writes in the namespace of the workloads since a moment that are
// about one of them.
func (m *mover) touched(since time.Time, name string) []harness.Request {
	m.Helper()
	var out []harness.Request
	for _, r := range m.audit(m.down, since) {
		if r.Writes() && r.Namespace == m.home && strings.Contains(r.Name, name) {
			out = append(out, r)
		}
	}
	return out
}

// An imported cluster moves. What both workspaces deploy (A) is not touched; what the
// new one does not deploy is removed (B), but not before the time of grace is over,
// and stays where keepResources says so (C). The agent is connected all the time, and
// nothing is left of the old Cluster.
func imported(w *world) {
	m := w.imports("c-17abc", func(c *fleet.Cluster) {
		c.Annotations[workspace.AnnotationMoveGrace] = "1h"
		c.Spec.TemplateValues = &fleet.GenericMap{Data: map[string]any{"region": "north"}}
	})
	m.repository("both", "only", "kept")
	m.repo(fleet.NamespaceDefault, "both", unchanged)
	m.repo(fleet.NamespaceDefault, "only", unchanged)
	m.repo(fleet.NamespaceDefault, "kept", func(s *fleet.GitRepoSpec) { s.KeepResources = true })
	for _, name := range []string{"both", "only", "kept"} {
		m.ready(fleet.NamespaceDefault, name)
	}
	both, kept := m.runs("both"), m.runs("kept")
	old := m.cluster(fleet.NamespaceDefault, m.id)
	w.space("team-17")
	m.repo("team-17", "both", unchanged)
	m.forged("a-thieves")

	since := time.Now()
	m.move("team-17")
	m.until("both Clusters say that it moves", func() bool {
		return strings.Contains(m.moving(fleet.NamespaceDefault), "team-17") && strings.Contains(m.moving("team-17"), fleet.NamespaceDefault)
	})
	m.online("team-17", m.id)
	arrived := time.Now()
	m.ready("team-17", "both")
	if took := arrived.Sub(since); took > 2*time.Minute {
		w.Errorf("the agent took %s", took)
	}
	c := m.cluster("team-17", m.id)
	if c.Spec.ClientID == "" || c.Spec.ClientID != old.Spec.ClientID {
		w.Errorf("the clientID was %q and is %q", old.Spec.ClientID, c.Spec.ClientID)
	}
	if c.Labels["forged"] != "" {
		w.Error("a Cluster was believed whose agent is another one")
	}
	if c.Spec.AgentNamespace != "agent-"+m.id || c.Labels["users"] != m.id || c.Spec.TemplateValues == nil || c.Spec.TemplateValues.Data["region"] != "north" {
		w.Errorf("what users had set has not come along: %v %+v", c.Labels, c.Spec)
	}
	m.until("the old Cluster says that the time of grace goes on", func() bool { return strings.Contains(m.moving(fleet.NamespaceDefault), "1h0m0s after") })
	m.runs("only")

	over := time.Now()
	m.patch(rancher.FleetClusters, "team-17", m.id, `{"metadata":{"annotations":{"fleet.cattle.io/move-grace":"0s"}}}`)
	m.until("what the new workspace does not deploy is removed", func() bool {
		_, ok := harness.Read[*corev1.ConfigMap](w, m.down, m.home, "only")
		return !ok
	})
	w.said("team-17", m.id, "Withdrawing", m.bundle("only"))
	m.gone(fleet.NamespaceDefault, old.Status.Namespace)
	m.until("the move is over", func() bool { return m.moving("team-17") == "" })
	m.until("nothing is left to withdraw", func() bool {
		list, err := kube.StoreOf[*fleet.BundleDeployment](m.hub.Admin).List(m.Context(), c.Status.Namespace, "")
		m.must(err)
		return len(list) == 1 && list[0].Name == m.bundle("both")
	})

	if got := m.touched(since, "both"); len(got) > 0 {
		w.Errorf("what both workspaces deploy was touched:\n%s", harness.Lines(got))
	}
	if now := m.runs("both"); now.UID != both.UID || now.ResourceVersion != both.ResourceVersion {
		w.Error("what both workspaces deploy is another object")
	}
	if now := m.runs("kept"); now.UID != kept.UID {
		w.Error("what is to be kept is another object")
	}
	if ordered := m.order(since); ordered.Before(over) {
		w.Errorf("withdrawn at %s, while the time of grace went on until %s", ordered, over)
	}
	if m.there(rancher.ProvClusters, fleet.NamespaceDefault, m.id) {
		w.Error("the old half is still there")
	}
}

// forged lets members of another workspace make a Cluster that says it is this one, and
// delete it: it would be the first to have its place taken.
func (m *mover) forged(namespace string) {
	m.Helper()
	m.hub.Namespace(m, namespace)
	harness.Make(m.world, m.hub, &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: m.id, Labels: map[string]string{fleet.LabelManagementCluster: m.id, "forged": "yes"}},
		Spec:       fleet.ClusterSpec{ClientID: "forged", Paused: true},
	})
	m.until("it is a Cluster like any other", func() bool { return m.cluster(namespace, m.id).Status.Namespace != "" })
	m.must(kube.StoreOf[*fleet.Cluster](m.hub.Admin).Delete(m.Context(), kube.Key{Namespace: namespace, Name: m.id}, kube.Precondition{}))
}

// order checks by the audit log that the new Cluster comes before the old one goes,
// that an order came before anything was removed, and that Rancher's objects were
// left alone. It returns when that order was given.
func (m *mover) order(since time.Time) (ordered time.Time) {
	m.Helper()
	var made, released, removed time.Time
	for _, r := range m.audit(m.hub, since) {
		switch {
		case r.Resource == "clusters" && r.Group == fleet.Group && r.Verb == "create" && r.Namespace == "team-17" && r.Code < 300:
			made = r.At
		case r.Resource == "clusters" && r.Group == fleet.Group && r.Verb == "patch" && r.Subresource == "" && r.Namespace == fleet.NamespaceDefault &&
			r.Name == m.id && strings.HasPrefix(r.Agent, harness.ManagerUserAgent) && r.Code < 300:
			released = r.At // the last one takes the finalizer off
		case r.Resource == "bundledeployments" && r.Verb == "create" && r.Name == m.bundle("only") && r.Code < 300:
			ordered = r.At
		case r.Writes() && strings.HasPrefix(r.Agent, harness.ManagerUserAgent) && r.Group != fleet.Group && strings.HasSuffix(r.Group, ".cattle.io"):
			m.Errorf("an object of Rancher's was written: %s", r)
		}
	}
	for _, r := range m.touched(since, "only") {
		if r.Verb == "delete" && r.Resource == "configmaps" {
			removed = r.At
		}
	}
	for i, at := range []time.Time{made, ordered, removed, released} {
		if at.IsZero() {
			m.Errorf("step %d was not found", i)
		}
	}
	if !made.Before(ordered) || !ordered.Before(removed) || !ordered.Before(released) {
		m.Errorf("made %s, ordered %s, removed %s, released %s", made, ordered, removed, released)
	}
	return ordered
}

// A cluster moves, and moves back while the first move is not over: nothing is touched
// that its first workspace deploys, though it was not deployed by the other one. In
// the middle of both moves the manager is started again, and Rancher.
func twice(w *world) {
	m := w.imports("c-17two", func(c *fleet.Cluster) { c.Annotations[workspace.AnnotationMoveGrace] = "1h" })
	m.repository("app")
	m.repo(fleet.NamespaceDefault, "app", unchanged)
	m.ready(fleet.NamespaceDefault, "app")
	app := m.runs("app")
	first := m.cluster(fleet.NamespaceDefault, m.id)
	w.space("team-two")
	since := time.Now()
	m.move("team-two")
	m.online("team-two", m.id)
	m.managerProcess.Halt(w)
	m.rancher.Restart(w)
	m.managerProcess.Run(w)
	// Rancher would take the Secret of its first provisioning Cluster for that of the
	// next one, and not look again when it is collected.
	m.until("the first kubeconfig is collected", func() bool {
		_, there := harness.Read[*corev1.Secret](w, w.hub, fleet.NamespaceDefault, m.id+"-kubeconfig")
		return !there
	})
	m.move(fleet.NamespaceDefault)
	m.until("the first Cluster has gone", func() bool {
		c := m.cluster(fleet.NamespaceDefault, m.id)
		return c == nil || c.UID != first.UID
	})
	// Rancher gets no event when there is room for the next one: it looks when its own
	// cluster changes, as a connected one does all the time. It makes the next one of its
	// provisioning Cluster in the other workspace first, which goes with that.
	m.until("there is another Cluster in the first workspace", func() bool {
		m.patch(rancher.Clusters, "", m.id, fmt.Sprintf(`{"metadata":{"annotations":{"field.cattle.io/seen":%q}}}`, time.Now()))
		c := m.cluster(fleet.NamespaceDefault, m.id)
		return c != nil && c.UID != first.UID && c.DeletionTimestamp == nil && c.Spec.KubeConfigSecretNamespace == fleet.NamespaceDefault
	})
	m.online(fleet.NamespaceDefault, m.id)
	m.ready(fleet.NamespaceDefault, "app")
	c := m.cluster(fleet.NamespaceDefault, m.id)
	if c.Spec.ClientID != first.Spec.ClientID {
		w.Errorf("the clientID was %q and is %q", first.Spec.ClientID, c.Spec.ClientID)
	}
	if got := m.touched(since, "app"); len(got) > 0 || m.runs("app").UID != app.UID {
		w.Errorf("the workload was touched:\n%s", harness.Lines(got))
	}
}

// Agents reach the manager at Rancher's server-url, so a Rancher that is away cuts them
// off. What they have deployed stays as it is; when Rancher is back they deploy what the
// manager has written meanwhile, without registering again.
func cutOff(w *world) {
	m := w.imports("c-17cut", func(*fleet.Cluster) {})
	m.repository("app", "more")
	m.repo(fleet.NamespaceDefault, "app", unchanged)
	m.ready(fleet.NamespaceDefault, "app")
	app := m.runs("app")
	if got := harness.ManagerOf(w, w.down, "agent-"+m.id); got != w.rancher.URL() {
		w.Fatalf("the agent reaches its manager at %s, not through Rancher", got)
	}
	since := time.Now()
	w.rancher.Stop(w)
	m.repo(fleet.NamespaceDefault, "more", unchanged)
	deployments := m.cluster(fleet.NamespaceDefault, m.id).Status.Namespace
	m.until("the manager has written another deployment", func() bool {
		_, ok := harness.Read[*fleet.BundleDeployment](w, w.hub, deployments, m.bundle("more"))
		return ok
	})
	if _, there := harness.Read[*corev1.ConfigMap](w, w.down, m.home, "more"); there {
		w.Error("it was deployed while Rancher was away")
	}
	w.rancher.Start(w)
	m.runs("more")
	m.ready(fleet.NamespaceDefault, "more")
	if got := m.touched(since, "app"); len(got) > 0 || m.runs("app").UID != app.UID {
		w.Errorf("the workload was touched:\n%s", harness.Lines(got))
	}
	for _, r := range m.audit(w.hub, since) {
		if r.Resource == "clusterregistrations" && r.Verb == "create" {
			w.Errorf("an agent has registered again: %s", r)
		}
	}
}

// Who wants to keep everything says so: what the new workspace does not deploy stays
// as an orphan, and the old Cluster goes as soon as the agent has arrived.
func forever(w *world) {
	m := w.imports("c-17for", func(c *fleet.Cluster) { c.Annotations[workspace.AnnotationMoveGrace] = workspace.Never })
	m.repository("app")
	m.repo(fleet.NamespaceDefault, "app", unchanged)
	m.ready(fleet.NamespaceDefault, "app")
	app := m.runs("app")
	old := m.cluster(fleet.NamespaceDefault, m.id)
	w.space("team-for")
	since := time.Now()
	m.move("team-for")
	m.online("team-for", m.id)
	m.gone(fleet.NamespaceDefault, old.Status.Namespace)
	m.until("it is reported as an orphan", func() bool {
		o := m.cluster("team-for", m.id).Status.Agent.Orphans
		return o != nil && o.Count == 1 && o.Names[0] == m.bundle("app")
	})
	if got := m.touched(since, "app"); len(got) > 0 || m.runs("app").UID != app.UID {
		w.Errorf("the workload was touched:\n%s", harness.Lines(got))
	}
}
