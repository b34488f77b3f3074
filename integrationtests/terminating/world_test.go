// Package terminating runs what happens when a namespace or a kind of Fleet's is
// deleted: no workload is removed until a person approves it. The manager with the rights
// of its chart and the agent are real; the API server, which is also that of the agent's
// cluster, is in memory.
package terminating

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(harness.Parallel(m))
}

const (
	workspace = fleet.NamespaceDefault
	repo      = "shop"
)

// names are the Bundles of the tests; the last one has a volume claim.
var names = []string{"cart", "mail", "web", "db"}

// A world is a management cluster with a manager, which is also the cluster that the
// agent of the Site deploys to.
type world struct {
	testing.TB
	hub            *harness.Hub
	managerProcess *harness.ManagerProcess
	site           *harness.Site
	down           bool // the manager does not run
	tokens         int
}

// newWorld starts the manager and an agent on an API server in memory, with everything
// deployed. kinds brings Fleet's kinds and the manager's rights.
func newWorld(t *testing.T, kinds func(*harness.Hub)) *world {
	t.Helper()
	w := &world{TB: t, hub: harness.ConnectHub(t, harness.Memory(t, "management"))}
	kinds(w.hub)
	w.managerProcess = &harness.ManagerProcess{Hub: w.hub, Beside: beside(t.TempDir()), Settings: registration.Settings{
		APIServerURL: w.hub.Cluster.URL(), APIServerCA: w.hub.Cluster.CA(), AgentTLSMode: registration.TLSStrict,
		AgentCheckinInterval: time.Second, Reclaim: registration.ReclaimAllow, AgentsUnmanaged: true,
	}}
	w.start()
	t.Cleanup(w.stop)
	w.site = harness.NewUnregisteredSite(t, w.hub, w.hub, "c1", "agent-c1")
	w.fleet()
	w.site.Start()
	w.ready()
	return w
}

// fromFiles installs the kinds and the rights of the charts without Helm.
func fromFiles(t *testing.T) func(*harness.Hub) {
	return func(h *harness.Hub) {
		harness.InstallCRDs(t, h.Admin)
		h.Namespace(t, fleet.NamespaceSystem)
		h.Rights(t, map[string]any{"bootstrap": map[string]any{"enabled": false}})
	}
}

// beside are the controllers and the process that reads repositories.
func beside(dir string) func(context.Context, *kube.Client, string, *logrus.Entry) error {
	return func(ctx context.Context, c *kube.Client, managerID string, log *logrus.Entry) error {
		cfg := controllers.Default()
		cfg.Namespace, cfg.Identity, cfg.LeaderElect, cfg.ManagerID = fleet.NamespaceSystem, "test", false, managerID
		cfg.CheckinInterval, cfg.Workers = 10*time.Second, 4
		both, ctx := errgroup.WithContext(ctx)
		both.Go(func() error { return controllers.Run(ctx, cfg, c, log) })
		both.Go(func() error {
			return controllers.RunGitJob(ctx, cfg, controllers.GitJob{Dir: dir, UserAgent: "fleet-gitjob/test"}, c, log)
		})
		return both.Wait()
	}
}

// in is the same world for a part of the test.
func (w *world) in(t testing.TB) *world {
	part := *w
	part.TB, part.site = t, w.site.For(t)
	return &part
}

func (w *world) start() { w.managerProcess.Run(w); w.down = false }

func (w *world) stop() {
	if !w.down {
		w.managerProcess.Halt(w)
		w.down = true
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) until(what string, f func() bool) {
	w.Helper()
	harness.Wait(w, harness.Timeout, what, f)
}

// ensure makes an object, unless there is one of its name.
func ensure[P kube.Object](w *world, obj P) {
	w.Helper()
	w.until("made "+kube.KeyOf(obj).String(), func() bool {
		_, err := kube.StoreOf[P](w.hub.Admin).Create(w.Context(), obj)
		return err == nil || kube.IsExists(err)
	})
}

// fleet makes what a person makes: the workspace, a registration token for the agent,
// a GitRepo and its Bundles.
func (w *world) fleet() {
	w.Helper()
	w.workspace()
	w.token()
	w.repository()
	w.bundles()
}

func (w *world) workspace() {
	w.Helper()
	w.until("the workspace is there", func() bool {
		w.hub.Namespace(w, workspace)
		ns, ok := harness.Read[*corev1.Namespace](w, w.hub, "", workspace)
		return ok && ns.DeletionTimestamp == nil
	})
}

// token gives the agent what it registers with.
func (w *world) token() {
	w.Helper()
	w.tokens++
	name := "token-" + strings.Repeat("x", w.tokens)
	ensure(w, &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name}})
	w.until("the values of the token", func() bool {
		t, ok := harness.Read[*fleet.ClusterRegistrationToken](w, w.hub, workspace, name)
		if !ok || t.Status.SecretName == "" {
			return false
		}
		s, ok := harness.Read[*corev1.Secret](w, w.hub, workspace, t.Status.SecretName)
		if !ok {
			return false
		}
		b, err := registration.ReadTokenSecret(s)
		w.must(err)
		w.site.Give(b)
		return true
	})
}

// repository is a GitRepo that cannot be read: the test makes its Bundles. It returns when
// the manager has said so: a manager that still sees the one before, which is being
// deleted, removes all Bundles with its label.
func (w *world) repository() {
	w.Helper()
	r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: repo, Finalizers: []string{fleet.FinalizerGitRepo}}}
	r.Spec.Repo = "http://127.0.0.1:1/none"
	ensure(w, r)
	w.until("the manager has seen the GitRepo", func() bool {
		r, ok := harness.Read[*fleet.GitRepo](w, w.hub, workspace, repo)
		return ok && r.DeletionTimestamp == nil && condition.IsFalse(r.Status.Conditions, fleet.ConditionGitPolling)
	})
}

const claim = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

func (w *world) bundles() {
	w.Helper()
	for _, name := range names {
		b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: name, Labels: map[string]string{fleet.LabelRepoName: repo}}}
		b.Spec.DefaultNamespace = w.site.Prefix + name
		b.Spec.Resources = []fleet.BundleResource{{Name: "a.yaml", Content: harness.ConfigMap(name, "data")}}
		if name == "db" {
			b.Spec.Resources = append(b.Spec.Resources, fleet.BundleResource{Name: "claim.yaml", Content: claim})
		}
		b.Spec.Targets = []fleet.BundleTarget{{Name: "all", ClusterSelector: &metav1.LabelSelector{}}}
		ensure(w, b)
	}
}

// ready waits until the manager has planned every Bundle and the agent has deployed it.
// A deployment that was kept looks deployed before the manager has seen the Bundle that
// takes it over. No volume is bound here, so that one of them is not Ready.
func (w *world) ready() {
	w.Helper()
	for _, name := range names {
		w.until(name+" is deployed", func() bool {
			b := w.bundle(name)
			if b == nil || b.DeletionTimestamp != nil || b.Status.ObservedGeneration != b.Generation || !slices.Contains(b.Finalizers, fleet.FinalizerBundle) {
				return false
			}
			list, err := kube.StoreOf[*fleet.BundleDeployment](w.hub.Admin).List(w.Context(), "", fleet.LabelBundleName+"="+name)
			if err != nil || len(list) != 1 {
				return false
			}
			bd := list[0]
			c, ok := harness.Read[*fleet.Cluster](w, w.hub, workspace, bd.Labels[fleet.LabelCluster])
			if !ok || c.Status.Namespace != bd.Namespace || c.Status.Agent.LastSeen.IsZero() || bd.CreationTimestamp.Before(&c.CreationTimestamp) {
				return false // it is that of the Cluster before
			}
			return bd.DeletionTimestamp == nil && bd.Spec.DeploymentID != "" && bd.Status.AppliedDeploymentID == bd.Spec.DeploymentID
		})
	}
}

// connected waits until the agent checks in, with a credential whose namespace is there:
// an API server may take one that is void for a few seconds.
func (w *world) connected() {
	w.Helper()
	w.until("the namespace of credentials is there", func() bool {
		ns, ok := harness.Read[*corev1.Namespace](w, w.hub, "", registration.System{Namespace: fleet.NamespaceSystem}.RegistrationNamespace())
		return ok && ns.DeletionTimestamp == nil
	})
	seen := func() (at time.Time) {
		list, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).List(w.Context(), workspace, "")
		w.must(err)
		for _, c := range list {
			if c.DeletionTimestamp == nil && c.Status.Agent.LastSeen.After(at) {
				at = c.Status.Agent.LastSeen.Time
			}
		}
		return at
	}
	before := seen()
	w.until("the agent checks in", func() bool { return seen().After(before) })
}

// bundle reads a Bundle; nil where there is none.
func (w *world) bundle(name string) *fleet.Bundle {
	w.Helper()
	b, ok := harness.Read[*fleet.Bundle](w, w.hub, workspace, name)
	if !ok {
		return nil
	}
	return b
}

// objects are the UIDs of all that the agent has deployed.
func (w *world) objects() map[string]string {
	w.Helper()
	out := map[string]string{}
	maps, err := kube.StoreOf[*corev1.ConfigMap](w.hub.Admin).List(w.Context(), "", "")
	w.must(err)
	claims, err := kube.StoreOf[*corev1.PersistentVolumeClaim](w.hub.Admin).List(w.Context(), "", "")
	w.must(err)
	for _, m := range maps {
		if strings.HasPrefix(m.Namespace, w.site.Prefix) && m.Name != "kube-root-ca.crt" {
			out["ConfigMap "+m.Namespace+"/"+m.Name] = string(m.UID)
		}
	}
	for _, c := range claims {
		if strings.HasPrefix(c.Namespace, w.site.Prefix) && c.DeletionTimestamp == nil {
			out["PersistentVolumeClaim "+c.Namespace+"/"+c.Name] = string(c.UID)
		}
	}
	return out
}

// unharmed checks that no object was removed or created again since before.
func (w *world) unharmed(before map[string]string) {
	w.Helper()
	if diff := cmp.Diff(before, w.objects()); diff != "" {
		w.Fatalf("objects with their UIDs: -before +after\n%s", diff)
	}
}

// deleteNamespace and deleteKind do what a person does by mistake.
func (w *world) deleteNamespace(name string) {
	w.Helper()
	w.must(kube.StoreOf[*corev1.Namespace](w.hub.Admin).Delete(w.Context(), kube.Key{Name: name}, kube.Precondition{}))
}

// loseNamespace deletes a namespace of which nothing waits for a person, and waits until
// all that was in it is gone.
func (w *world) loseNamespace(name string) {
	w.Helper()
	before, ok := harness.Read[*corev1.Namespace](w, w.hub, "", name)
	if !ok {
		w.Fatalf("there is no namespace %s", name)
	}
	w.deleteNamespace(name)
	w.until("namespace "+name+" is gone", func() bool {
		ns, ok := harness.Read[*corev1.Namespace](w, w.hub, "", name)
		return !ok || ns.UID != before.UID
	})
}

// clusterNamespace is where the agent's deployments are.
func (w *world) clusterNamespace() string {
	w.Helper()
	list, err := kube.StoreOf[*fleet.Cluster](w.hub.Admin).List(w.Context(), workspace, "")
	w.must(err)
	if len(list) != 1 {
		w.Fatalf("%d Clusters", len(list))
	}
	return list[0].Status.Namespace
}

func (w *world) deleteKinds(plurals ...string) {
	w.Helper()
	for _, plural := range plurals {
		w.must(kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](w.hub.Admin).Delete(w.Context(), kube.Key{Name: plural + "." + fleet.Group}, kube.Precondition{}))
	}
}

// kindsAgain installs the kinds that are missing until none is being deleted. It does not
// wait with the first for the removal of the last: a manager that starts does nothing while
// a kind is missing, and the API server removes a kind only after the manager has given up
// its objects.
func (w *world) kindsAgain() {
	w.Helper()
	w.until("every kind is there again", func() bool {
		going := w.kindsGoing()
		w.must(harness.InstallMissingKinds(w.Context(), w.hub.Admin))
		return !going
	})
}

// kindsGoing reports whether a kind is being deleted.
func (w *world) kindsGoing() bool {
	w.Helper()
	list, err := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](w.hub.Admin).List(w.Context(), "", "")
	w.must(err)
	return slices.ContainsFunc(list, func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.DeletionTimestamp != nil })
}

// hash waits until every Bundle is held, and returns the hash of the list.
func (w *world) hash() string {
	w.Helper()
	hash := ""
	w.until("all Bundles are held", func() bool {
		ns, ok := harness.Read[*corev1.Namespace](w, w.hub, "", workspace)
		if !ok {
			return false
		}
		text := ns.Annotations[fleet.AnnotationDeletionHeld]
		hash, _, _ = withdrawal.ReadText(text)
		if !strings.Contains(text, "PersistentVolumeClaim "+w.site.Prefix+"db/data on ") {
			return false
		}
		for _, name := range names {
			b := w.bundle(name)
			if b == nil || !strings.Contains(text, "bundle "+name+"\n") {
				return false
			}
			c := condition.Find(b.Status.Conditions, fleet.ConditionDeletionHeld)
			if c == nil || !strings.Contains(c.Message, hash) {
				return false
			}
		}
		return true
	})
	return hash
}

// say is a person's word about the workspace.
func (w *world) say(word string) {
	w.Helper()
	harness.Revise(w, w.hub.Admin, kube.Key{Name: workspace}, func(ns *corev1.Namespace) {
		if ns.Annotations == nil {
			ns.Annotations = map[string]string{}
		}
		ns.Annotations[fleet.AnnotationApproveDeletion] = word
	})
}

// decided waits until the manager has taken the list and the approval off the workspace:
// an approval that stays would count for the next deletion.
func (w *world) decided() {
	w.Helper()
	w.until("the workspace has no approval left", func() bool {
		ns, ok := harness.Read[*corev1.Namespace](w, w.hub, "", workspace)
		return ok && ns.Annotations[fleet.AnnotationDeletionHeld]+ns.Annotations[fleet.AnnotationApproveDeletion] == ""
	})
}

// gone waits until the Bundles have gone.
func (w *world) gone() {
	w.Helper()
	w.until("the Bundles are gone", func() bool {
		for _, name := range names {
			if w.bundle(name) != nil {
				return false
			}
		}
		return true
	})
}
