package returning

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent/checkin"
	"github.com/fleetworkspace/fleet/pkg/agent/managerclient"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// Names in the world of this measurement.
const (
	userAgent = "fleet-agent/bench"
	workspace = fleet.NamespaceDefault
	bundle    = "app"
	account   = "request"
	interval  = time.Minute // between two check-ins
	clients   = 16          // that prepare at once
	retry     = 10 * time.Second
)

// fleetOf is a fleet of agents.
type fleetOf struct {
	cluster  *cluster.Cluster
	tcpProxy *wire.TCPProxy
	admin    *kube.Client
	client   kubernetes.Interface
	agents   []*agent

	stop     context.CancelFunc
	running  sync.WaitGroup
	failures atomic.Int64 // of check-ins
	version  int
	wanted   atomic.Pointer[string] // deployment id
}

// An agent is the connection of one, and what it has to do.
type agent struct {
	fleet *fleetOf
	name  string
	up    *managerclient.Client
	wake  chan struct{}
	away  atomic.Bool

	mu   sync.Mutex
	done string // deployment id that was reported
	at   time.Time
}

func newFleet(ctx context.Context, c *cluster.Cluster, tcpProxy *wire.TCPProxy, n int) (*fleetOf, error) {
	admin, err := kube.Connect(kube.Config{REST: c.REST(), UserAgent: "bench", FieldManager: "bench"})
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(c.REST())
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	f := &fleetOf{cluster: c, tcpProxy: tcpProxy, admin: admin, client: client, stop: func() {}}
	if err := f.prepare(ctx, n); err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	if err := f.order(ctx); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	f.stop = stop
	for _, a := range f.agents {
		f.running.Go(func() { _ = a.up.Run(running, closed) })
		f.running.Go(func() { a.work(running) })
	}
	return f, nil
}

// closed is ready from the start.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (f *fleetOf) close() {
	f.stop()
	f.running.Wait()
}

// prepare makes kinds, clusters, accounts and agents.
func (f *fleetOf) prepare(ctx context.Context, n int) error {
	if err := harness.InstallKinds(ctx, f.admin); err != nil {
		return err
	}
	namespaces := kube.StoreOf[*corev1.Namespace](f.admin)
	if _, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workspace}}); err != nil {
		return err
	}
	_, err := kube.StoreOf[*rbacv1.ClusterRoleBinding](f.admin).Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "agents"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts"}},
	})
	if err != nil {
		return err
	}
	f.agents = make([]*agent, n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clients)
	for i := range f.agents {
		group.Go(func() (err error) {
			f.agents[i], err = f.newAgent(ctx, fmt.Sprintf("c%04d", i))
			return err
		})
	}
	return group.Wait()
}

func (f *fleetOf) newAgent(ctx context.Context, name string) (*agent, error) {
	meta := metav1.ObjectMeta{Namespace: name, Name: account}
	if _, err := kube.StoreOf[*corev1.Namespace](f.admin).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return nil, err
	}
	if _, err := kube.StoreOf[*corev1.ServiceAccount](f.admin).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}); err != nil {
		return nil, err
	}
	if _, err := kube.StoreOf[*fleet.Cluster](f.admin).Create(ctx, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: workspace, Name: name, Annotations: map[string]string{fleet.AnnotationManager: "m1/1/1"},
	}}); err != nil {
		return nil, err
	}
	day := int64(24 * 60 * 60)
	token, err := f.client.CoreV1().ServiceAccounts(name).CreateToken(ctx, account,
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make token: %w", err)
	}
	a := &agent{fleet: f, name: name, wake: make(chan struct{}, 1)}
	a.up, err = managerclient.New(managerclient.Config{
		REST:      kube.Access{URL: f.tcpProxy.URL(), CA: f.cluster.CA(), Token: token.Status.Token}.REST(),
		Namespace: name, UserAgent: userAgent,
		CheckIn: checkin.Config{
			Cluster: kube.Key{Namespace: workspace, Name: name}, Next: heartbeat.Every(interval, name),
			Namespace: fleet.NamespaceSystem, Version: "bench", Kubernetes: "bench", Instance: name,
			Orphans:  func() (fleet.AgentOrphans, bool) { return fleet.AgentOrphans{}, true },
			OnAnswer: a.answered, OnFailure: a.failed,
		},
	})
	if err == nil {
		a.up.Deployments.OnChange(func(_, changed *fleet.BundleDeployment) {
			if changed != nil {
				a.nudge()
			}
		})
	}
	return a, err
}

// order gives all agents another content, as a manager does.
func (f *fleetOf) order(ctx context.Context) error {
	f.version++
	m := content.Manifest{Resources: []fleet.BundleResource{{Name: "a.yaml", Content: harness.ConfigMap("a", fmt.Sprint(f.version))}}}
	c, err := content.New(m)
	if err != nil {
		return err
	}
	if _, err := kube.StoreOf[*fleet.Content](f.admin).Create(ctx, c); err != nil {
		return err
	}
	id := c.Name + ":bench"
	f.wanted.Store(&id)
	bds := kube.StoreOf[*fleet.BundleDeployment](f.admin)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(clients)
	for _, a := range f.agents {
		group.Go(func() error {
			bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: a.name, Name: bundle}}
			bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = id, id
			if f.version == 1 {
				_, err := bds.Create(ctx, bd)
				return err
			}
			old, err := bds.Get(ctx, kube.KeyOf(bd))
			if err != nil {
				return err
			}
			changed := old.DeepCopy()
			changed.Spec = bd.Spec
			_, err = bds.Patch(ctx, old, changed)
			return err
		})
	}
	return group.Wait()
}

var errTimeout = errors.New("not in time")

// current waits until all agents have reported what is wanted.
func (f *fleetOf) current(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for {
		left := 0
		for _, a := range f.agents {
			if a.reported() != *f.wanted.Load() {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d agents are not current", context.Cause(ctx), left)
		case <-t.C:
		}
	}
}

func (a *agent) reported() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done
}

func (a *agent) doneAt() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

func (a *agent) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *agent) answered(checkin.Answer) {
	if a.away.Swap(false) {
		a.nudge()
	}
}

func (a *agent) failed(error) {
	a.away.Store(true)
	a.fleet.failures.Add(1)
}

// work does what is wanted: it reads the content, and reports.
func (a *agent) work(ctx context.Context) {
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-again.C:
		}
		bd, ok := a.up.Deployments.Get(kube.Key{Namespace: a.name, Name: bundle})
		if !ok || bd.Spec.DeploymentID == a.reported() {
			continue
		}
		if err := a.deploy(ctx, bd); err != nil {
			again.Reset(retry) // as the deploy loop does
			continue
		}
		a.mu.Lock()
		a.done, a.at = bd.Spec.DeploymentID, time.Now()
		a.mu.Unlock()
	}
}

func (a *agent) deploy(ctx context.Context, bd *fleet.BundleDeployment) error {
	id := bd.Spec.DeploymentID
	if _, err := a.up.Contents.Get(ctx, kube.Key{Name: id[:len(id)-len(":bench")]}); err != nil {
		return err
	}
	changed := bd.DeepCopy()
	changed.Status = report.Status(bd, report.Found{
		ID: id, Release: "default/app:1", Objects: []report.Object{{Kind: "ConfigMap", APIVersion: "v1", Namespace: "default", Name: "a"}},
	}, time.Now())
	_, err := a.up.Statuses.PatchStatus(ctx, bd, changed)
	return err
}
