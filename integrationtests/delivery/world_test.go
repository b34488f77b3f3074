// Package delivery tests how content reaches a cluster: charts that are not part
// of the bundle, Secrets and ConfigMaps that go along, and bundles that wait for
// each other. Manager, agents, Helm repositories and registries are real;
// manager and agents share one API server.
package delivery

import (
	"context"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// User-Agents of the manager's processes.
const (
	gitjobAgent = "fleet-gitjob/test"
	agentAgent  = "fleet-agent/"
)

// managerID is the installation that Sites belong to.
var managerID, _, _ = strings.Cut(harness.SiteManager, "/")

// run runs the manager on a Hub until the end of the test: the manager, and the
// process that reads foreign content.
func run(t *testing.T, hub *harness.Hub) {
	t.Helper()
	hub.Namespace(t, fleet.NamespaceSystem)
	_, err := kube.StoreOf[*corev1.ConfigMap](hub.Admin).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapInstallation, Labels: map[string]string{fleet.LabelManagerID: managerID},
	}})
	if err != nil {
		t.Fatal(err)
	}
	log := harness.Logger()
	cfg := controllers.Default()
	cfg.Addresses = address.WithLoopback()
	cfg.LeaderElect, cfg.ManagerID, cfg.CheckinInterval = false, managerID, time.Minute
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	role := func(name string, f func(context.Context, *kube.Client) error) {
		client, err := kube.Connect(kube.Config{REST: hub.Cluster.REST(), UserAgent: name + "/test", FieldManager: name})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			if err := f(ctx, client); err != nil && ctx.Err() == nil {
				t.Errorf("%s has ended: %v", name, err)
			}
		})
	}
	role("fleet-controller", func(ctx context.Context, c *kube.Client) error {
		return controllers.Run(ctx, cfg, c, logrus.NewEntry(log))
	})
	role("fleet-gitjob", func(ctx context.Context, c *kube.Client) error {
		return controllers.RunGitJob(ctx, cfg, controllers.GitJob{Dir: t.TempDir(), UserAgent: gitjobAgent}, c, logrus.NewEntry(log))
	})
	t.Cleanup(func() { stop(); group.Wait() })
}

// A place is a workspace with one cluster that has an agent, env=prod, and one
// that has none, env=dev.
type place struct {
	*harness.Site
	other string // namespace of the deployments of the cluster without agent
}

// at makes a place and starts its agent.
func at(t *testing.T, hub *harness.Hub, name string) *place {
	t.Helper()
	p := &place{Site: harness.NewSite(t, hub, hub, name), other: naming.Limit("other-"+name, 63)}
	p.Config.Metrics = agent.NewMetrics()
	hub.Namespace(t, p.other)
	_, err := kube.StoreOf[*fleet.Cluster](hub.Admin).Create(t.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Workspace, Name: "other", Annotations: map[string]string{fleet.AnnotationManager: harness.SiteManager},
	}})
	p.Must(err)
	p.settle(p.Name, p.Deployments, "prod")
	p.settle("other", p.other, "dev")
	p.Start()
	return p
}

// turns counts how often the agent has looked at any deployment.
func (p *place) turns() (n uint64) {
	p.Helper()
	families, err := p.Config.Metrics.Gatherer().Gather()
	p.Must(err)
	for _, f := range families {
		if f.GetName() == "fleet_reconcile_seconds" {
			for _, m := range f.GetMetric() {
				n += m.GetHistogram().GetSampleCount()
			}
		}
	}
	return n
}

// settle gives a cluster its label and its namespace.
func (p *place) settle(name, namespace, env string) {
	p.Helper()
	store := kube.StoreOf[*fleet.Cluster](p.Hub.Admin)
	p.Until("cluster "+name+" is set up", func() bool {
		c, err := store.Get(p.Context(), kube.Key{Namespace: p.Workspace, Name: name})
		p.Must(err)
		changed := c.DeepCopy()
		changed.Labels = map[string]string{"env": env}
		changed.Annotations[registration.AnnotationDeploymentNamespace] = namespace
		if changed, err = store.Patch(p.Context(), c, changed); err == nil {
			with := changed.DeepCopy()
			with.Status.Namespace = namespace
			_, err = store.PatchStatus(p.Context(), changed, with)
		}
		return err == nil
	})
}

// prod are the targets that mean the cluster with the agent.
func prod() []fleet.BundleTarget {
	return []fleet.BundleTarget{{Name: "prod", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}}
}

// bundle makes a Bundle for the cluster with the agent.
func (p *place) bundle(name string, change func(*fleet.BundleSpec)) {
	p.Helper()
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: p.Workspace, Name: name}}
	b.Spec.Targets, b.Spec.DefaultNamespace = prod(), p.Home(name)
	change(&b.Spec)
	_, err := kube.StoreOf[*fleet.Bundle](p.Hub.Admin).Create(p.Context(), b)
	p.Must(err)
}

// change changes a Bundle.
func (p *place) change(name string, f func(*fleet.BundleSpec)) {
	p.Helper()
	harness.Edit(p.TB, p.Hub, p.Workspace, name, func(b *fleet.Bundle) { f(&b.Spec) })
}

// secret makes a Secret in the workspace.
func (p *place) secret(name string, data map[string]string) {
	p.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Workspace, Name: name}, StringData: data}
	_, err := kube.StoreOf[*corev1.Secret](p.Hub.Admin).Create(p.Context(), s)
	p.Must(err)
}

// ready waits until the deployment of a bundle is Ready.
func (p *place) ready(name string) *fleet.BundleDeployment {
	p.Helper()
	p.appears(name)
	return p.State(name, fleet.Ready)
}

// appears waits until there is a deployment.
func (p *place) appears(name string) {
	p.Helper()
	p.Until("there is a deployment "+name, func() bool {
		_, ok := look[*fleet.BundleDeployment](p, p.Deployments, name)
		return ok
	})
}

// says waits until a Bundle is not Ready and says so with a text.
func (p *place) says(name, text string) {
	p.Helper()
	var last string
	ok := func() bool {
		b, there := look[*fleet.Bundle](p, p.Workspace, name)
		if !there {
			return false
		}
		last = ""
		if c := condition.Find(b.Status.Conditions, fleet.ConditionReady); c != nil {
			last = c.Message
		}
		return strings.Contains(last, text)
	}
	for deadline := time.Now().Add(harness.Timeout); !ok(); {
		if time.Now().After(deadline) {
			p.Fatalf("Bundle %s does not say %q, but %q", name, text, last)
		}
		time.Sleep(20 * time.Millisecond) // how often the test looks
	}
}

// look reads an object; false if there is none.
func look[P kube.Object](p *place, namespace, name string) (P, bool) {
	p.Helper()
	o, err := kube.StoreOf[P](p.Hub.Admin).Get(p.Context(), kube.Key{Namespace: namespace, Name: name})
	if err != nil && !kube.IsGone(err) {
		p.Fatal(err)
	}
	return o, err == nil
}

// data are those of a ConfigMap, nil if there is none.
func (p *place) data(namespace, name string) map[string]string {
	p.Helper()
	m, ok := look[*corev1.ConfigMap](p, namespace, name)
	if !ok {
		return nil
	}
	return m.Data
}

// eventually waits until a ConfigMap holds data; nil: until it is gone.
func (p *place) eventually(namespace, name string, want map[string]string) {
	p.Helper()
	var got map[string]string
	for deadline := time.Now().Add(harness.Timeout); ; {
		if got = p.data(namespace, name); maps.Equal(want, got) && (want == nil) == (got == nil) {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("ConfigMap %s/%s\n%s", namespace, name, cmp.Diff(want, got))
		}
		time.Sleep(20 * time.Millisecond) // how often the test looks
	}
}

// holds are the names of a kind in a namespace that begin with a prefix.
func holds[P kube.Object](p *place, namespace, prefix string) []string {
	p.Helper()
	list, err := kube.StoreOf[P](p.Hub.Admin).List(p.Context(), namespace, "")
	p.Must(err)
	var out []string
	for _, o := range list {
		if strings.HasPrefix(o.GetName(), prefix) {
			out = append(out, o.GetName())
		}
	}
	slices.Sort(out)
	return out
}

// A line is a way to an address that can be cut: its connections are refused
// then.
type line struct {
	t    testing.TB
	to   string
	addr string
	port int

	mu    sync.Mutex
	door  net.Listener
	conns map[net.Conn]bool
}

// lineTo opens a line to host:port.
func lineTo(t testing.TB, to string) *line {
	t.Helper()
	number, held, err := port.Hold(port.Loopback, 0) // no other process can take the port while the line is cut
	if err != nil {
		t.Fatal(err)
	}
	l := &line{t: t, to: to, port: number, addr: net.JoinHostPort(port.Loopback, strconv.Itoa(number)), conns: map[net.Conn]bool{}}
	l.mend()
	t.Cleanup(func() { l.cut(); _ = held.Close() })
	return l
}

func (l *line) mend() {
	l.t.Helper()
	door, err := port.Listen(port.Loopback, l.port)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.door = door
	l.mu.Unlock()
	go func() {
		for {
			in, err := door.Accept()
			if err != nil {
				return
			}
			go l.join(in)
		}
	}()
}

func (l *line) join(in net.Conn) {
	out, err := net.Dial("tcp", l.to)
	if err != nil {
		_ = in.Close()
		return
	}
	l.mu.Lock()
	l.conns[in], l.conns[out] = true, true
	l.mu.Unlock()
	end := func(a, b net.Conn) {
		_, _ = io.Copy(a, b)
		_ = a.Close()
		_ = b.Close()
		l.mu.Lock()
		delete(l.conns, a)
		l.mu.Unlock()
	}
	go end(in, out)
	end(out, in)
}

// cut ends all connections and refuses new ones.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.door.Close()
	for c := range l.conns {
		_ = c.Close()
	}
	clear(l.conns)
}
