// Package takeover_test tests how two managers of the same API share a cluster,
// on an API server in memory and with real git repositories: each by its shard or its
// workspaces, and how objects are passed from one to the other and back with the
// program fleet. Agents are played by the test, by the rules of the wire. The API server
// notes who has written what.
package takeover_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/installation"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

// timeout is how long a state may take to appear.
const timeout = harness.Timeout

// world is an API server with clusters whose agents are played.
type world struct {
	*harness.Shell
	hub   harness.ControlPlane
	admin *kube.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	d := harness.OpenShell(t)
	w := &world{Shell: d, hub: harness.Memory(t, "hub")}
	w.admin = w.connect(harness.TestAgent, "test")
	harness.InstallCRDs(t, w.admin)
	w.namespace(fleet.NamespaceSystem)
	return w
}

// on is the same world for a part of the test.
func (w *world) on(t *testing.T) *world {
	return &world{Shell: w.On(t), hub: w.hub, admin: w.admin}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) connect(agent, manager string) *kube.Client {
	w.Helper()
	c, err := kube.Connect(kube.Config{REST: w.hub.REST(), UserAgent: agent, FieldManager: manager})
	w.must(err)
	return c
}

func (w *world) namespace(name string) {
	w.Helper()
	_, err := kube.StoreOf[*corev1.Namespace](w.admin).Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.must(err)
}

func (w *world) until(what string, done func() bool) {
	w.Helper()
	harness.Wait(w, timeout, what, done)
}

// manage runs a manager, with the process that reads repositories, until what it
// returns is called, or the end of the test. Its requests are known by its name.
func (w *world) manage(t *testing.T, name, system string, s scope.Scope) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client := func(field string) *kube.Client { return w.connect(name+"/test", field) }
	install, err := installation.Ensure(ctx, client(fleet.FieldManagerController), system)
	w.must(err)
	cfg := controllers.Default()
	cfg.Addresses = address.WithLoopback()
	cfg.Namespace, cfg.Identity, cfg.ManagerID, cfg.Scope, cfg.CheckinInterval = system, name, install.ID, s, time.Second
	cfg.Lease = controllers.LeaseTimes{Duration: time.Minute, Renew: 50 * time.Second, Retry: time.Second} // the holder does not lose it
	log := logrus.New()
	log.SetOutput(lines{t, name})
	entry := logrus.NewEntry(log)
	var both sync.WaitGroup
	for _, role := range []func() error{
		func() error { return controllers.Run(ctx, cfg, client(fleet.FieldManagerController), entry) },
		func() error {
			return controllers.RunGitJob(ctx, cfg, controllers.GitJob{Dir: t.TempDir(), UserAgent: name}, client(fleet.FieldManagerGitJob), entry)
		},
	} {
		both.Go(func() {
			if err := role(); err != nil {
				t.Errorf("manager %s ended: %v", name, err)
			}
		})
	}
	stop = sync.OnceFunc(func() { cancel(); both.Wait() })
	t.Cleanup(stop)
	return stop
}

type lines struct {
	t    *testing.T
	name string
}

func (l lines) Write(p []byte) (int, error) {
	l.t.Log(time.Now().Format("05.000"), l.name, strings.TrimSpace(string(p)))
	return len(p), nil
}

// join makes a Cluster in a workspace and plays its agent.
func (w *world) join(t *testing.T, workspace, name string) {
	t.Helper()
	ns := naming.ClusterNamespace(workspace, name)
	w.namespace(ns)
	w.enrol(t, workspace, name, ns, map[string]string{registration.AnnotationDeploymentNamespace: ns}, fleet.FieldManagerAgent)
}

// enrol makes a Cluster with a namespace for its deployments, and plays its agent, which
// writes under the name manager.
func (w *world) enrol(t *testing.T, workspace, name, ns string, annotations map[string]string, manager string) {
	t.Helper()
	clusters := kube.StoreOf[*fleet.Cluster](w.admin)
	c, err := clusters.Create(w.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: workspace, Name: name, Annotations: annotations}})
	w.must(err)
	changed := c.DeepCopy()
	changed.Status.Namespace = ns
	_, err = clusters.PatchStatus(w.Context(), c, changed)
	w.must(err)
	client := w.connect("agent/test", manager)
	a := &agent{key: kube.KeyOf(c), namespace: ns, clusters: kube.StoreOf[*fleet.Cluster](client), deployments: kube.StoreOf[*fleet.BundleDeployment](client)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); a.run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// joinOfReference makes a Cluster as the reference's manager leaves it: status.namespace,
// and a namespace whose label and annotations name the Cluster. It plays the reference's
// agent, which writes the status of a deployment except its display, under the name that it
// has for everything. See docs/reference-behaviour.md.
func (w *world) joinOfReference(t *testing.T, workspace, name string) {
	t.Helper()
	ns := naming.ClusterNamespace(workspace, name)
	_, err := kube.StoreOf[*corev1.Namespace](w.admin).Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: ns, Labels: map[string]string{fleet.LabelManaged: registration.True},
		Annotations: map[string]string{fleet.AnnotationCluster: name, fleet.AnnotationClusterNamespace: workspace},
	}})
	w.must(err)
	w.enrol(t, workspace, name, ns, nil, fleet.FieldManagerRelease)
}

// An agent plays the agent of one cluster.
type agent struct {
	key         kube.Key
	namespace   string
	clusters    *kube.Store[*fleet.Cluster]
	deployments *kube.Store[*fleet.BundleDeployment]
}

func (a *agent) run(ctx context.Context) {
	beat, tick := time.Time{}, time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(beat) >= time.Second {
			beat = time.Now()
			body := fmt.Sprintf(`{"status":{"agent":{"lastSeen":%q,"namespace":"cattle-fleet-system"}}}`, beat.UTC().Format(time.RFC3339))
			_, _ = a.clusters.PatchRaw(ctx, a.key, "application/merge-patch+json", []byte(body), "status")
		}
		list, err := a.deployments.List(ctx, a.namespace, "")
		if err != nil {
			continue
		}
		for _, bd := range list {
			a.work(ctx, bd)
		}
	}
}

// work is one look of the agent at one deployment.
func (a *agent) work(ctx context.Context, bd *fleet.BundleDeployment) {
	changed := bd.DeepCopy()
	st := &changed.Status
	switch order := bd.Annotations[fleet.AnnotationWithdrawn]; {
	case order != "":
		st.AppliedDeploymentID, st.Release, st.Ready = "", "", false
		st.Conditions = condition.Set(st.Conditions, fleet.Condition{Type: fleet.ConditionWithdrawn, Status: "True",
			Reason: fleet.ReasonUninstalled, Message: order}, time.Now())
	case bd.Spec.DeploymentID == "" || bd.Spec.DeploymentID == st.AppliedDeploymentID:
		return
	default:
		st.AppliedDeploymentID, st.Ready, st.NonModified = bd.Spec.DeploymentID, true, true
		st.Conditions = condition.Set(st.Conditions, fleet.Condition{Type: fleet.ConditionDeployed, Status: "True"}, time.Now())
	}
	_, _ = a.deployments.PatchStatus(ctx, bd, changed)
}

// A repository is a git repository and the GitRepo that follows it.
type repository struct {
	*gittest.Repo
	workspace, name string
}

// repo serves a repository with one ConfigMap, and follows it. Its label app is
// its name; an empty shard is the default manager's.
func (w *world) repo(t *testing.T, workspace, name, shard string) *repository {
	t.Helper()
	r := &repository{Repo: gittest.NewRepo(t), workspace: workspace, name: name}
	r.Commit("first", map[string]string{"cm.yaml": manifest(name, "1")})
	server := gittest.ServeHTTP(t, filepath.Dir(r.Dir))
	labels := map[string]string{"app": name}
	if shard != "" {
		labels[fleet.LabelShardRef] = shard
	}
	_, err := kube.StoreOf[*fleet.GitRepo](w.admin).Create(w.Context(), &fleet.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name, Labels: labels},
		Spec: fleet.GitRepoSpec{
			Repo: server.URL + "/" + filepath.Base(r.Dir), Branch: "main", PollingInterval: &metav1.Duration{Duration: time.Second},
			Targets: []fleet.GitTarget{{ClusterSelector: &metav1.LabelSelector{}}},
		},
	})
	w.must(err)
	return r
}

func manifest(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {value: %q}\n", name, value)
}

// lone makes a Bundle that is from no repository, or changes it.
func (w *world) lone(workspace, name, value string) {
	w.Helper()
	harness.CreateOrPatch(w, w.admin, &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name, Labels: map[string]string{"app": name}},
		Spec:       fleet.BundleSpec{Targets: []fleet.BundleTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}},
	}, func(b *fleet.Bundle) {
		b.Spec.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: manifest(name, value)}}
	})
}

// deployments are those of a workspace's Bundles whose name is the name of what
// they are from, or begins with it.
func (w *world) deployments(workspace, from string) []*fleet.BundleDeployment {
	w.Helper()
	list, err := kube.StoreOf[*fleet.BundleDeployment](w.admin).List(w.Context(), "", fleet.LabelBundleNamespace+"="+workspace)
	w.must(err)
	return slices.DeleteFunc(list, func(bd *fleet.BundleDeployment) bool { return !of(from, bd.Name) })
}

// of reports whether a Bundle, or a deployment, is from a repository or Bundle of a
// name.
func of(from, name string) bool { return name == from || strings.HasPrefix(name, from+"-") }

// ids returns the deployment IDs of a repository's Bundles on all clusters,
// sorted.
func (w *world) ids(workspace, from string) []string {
	w.Helper()
	var out []string
	for _, bd := range w.deployments(workspace, from) {
		if bd.Status.AppliedDeploymentID != bd.Spec.DeploymentID {
			out = append(out, "on its way")
			continue
		}
		out = append(out, bd.Labels[fleet.LabelCluster]+" "+bd.Spec.DeploymentID)
	}
	slices.Sort(out)
	return out
}

// runs waits until something runs on so many clusters, and in another version
// than were, and returns the versions.
func (w *world) runs(workspace, from string, clusters int, were []string) []string {
	w.Helper()
	var now []string
	w.until(from+" runs", func() bool {
		now = w.ids(workspace, from)
		return len(now) == clusters && !slices.Contains(now, "on its way") && !slices.Equal(now, were)
	})
	return now
}

// shards are the labels of everything that is from something: "" is none.
func (w *world) shards(workspace, from string) []string {
	w.Helper()
	seen := map[string]bool{}
	see := func(kind string, o metav1.Object) {
		shard, ok := o.GetLabels()[fleet.LabelShardRef]
		if !ok {
			shard = "none"
		}
		seen[kind+" "+shard] = true
	}
	bundles, err := kube.StoreOf[*fleet.Bundle](w.admin).List(w.Context(), workspace, "")
	w.must(err)
	for _, b := range bundles {
		if of(from, b.Name) {
			see("bundle", b)
		}
	}
	if r, err := kube.StoreOf[*fleet.GitRepo](w.admin).Get(w.Context(), kube.Key{Namespace: workspace, Name: from}); err == nil {
		see("repo", r)
	}
	for _, bd := range w.deployments(workspace, from) {
		see("deployment", bd)
	}
	var out []string
	for s := range seen {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// writers are the managers that have written objects that keep accepts since a
// moment, by name, sorted; those of the test and the agents are left out.
func (w *world) writers(since time.Time, keep func(harness.Request) bool) []string {
	w.Helper()
	seen := map[string]bool{}
	for _, r := range w.writes(since) {
		name, _, _ := strings.Cut(r.Agent, "/")
		if keep(r) && name != "agent" && name != "test" && name != "fleet" && name != "kubectl" {
			seen[name] = true
		}
	}
	var out []string
	for name := range seen {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// writes are the requests that have changed something of Fleet's since a moment.
func (w *world) writes(since time.Time) []harness.Request {
	w.Helper()
	all, err := harness.RequestsOf(w.hub, since)
	w.must(err)
	return slices.DeleteFunc(all, func(r harness.Request) bool {
		return !r.Writes() || r.Code >= 300 || r.Group != fleet.Group
	})
}

// about reports whether a request is about a repository or Bundle, or what is made
// of it.
func about(from string) func(harness.Request) bool {
	return func(r harness.Request) bool {
		return of(from, r.Name) && slices.Contains([]string{"gitrepos", "bundles", "bundledeployments"}, r.Resource)
	}
}

// reference is the path of a manager of another implementation.
func reference(t *testing.T) string {
	t.Helper()
	path := os.Getenv("REFERENCE_CONTROLLER")
	if path == "" {
		t.Skip("REFERENCE_CONTROLLER is not set: the path of another implementation's manager")
	}
	return path
}
