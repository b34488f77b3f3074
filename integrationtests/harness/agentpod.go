package harness

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// lookAtAgents is how often it is looked whether an agent has to run.
const lookAtAgents = 100 * time.Millisecond

// AgentOf runs the agent of a namespace whenever there is a Deployment for it, as
// a kubelet does: with the account that was made for it, and nothing else, until the
// end of t. It stands in for pods, which run nothing here.
func AgentOf(t testing.TB, h *Hub, namespace string) {
	t.Helper()
	p := agentPod{t, h, namespace}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if p.wanted(ctx) {
				p.run(ctx)
			}
			_ = kube.Sleep(ctx, lookAtAgents)
		}
	}()
	t.Cleanup(func() { stop(); <-done })
}

// An agentPod is where an agent runs while there is a Deployment for it.
type agentPod struct {
	testing.TB
	hub       *Hub
	namespace string
}

func (p agentPod) wanted(ctx context.Context) bool {
	d, err := kube.StoreOf[*appsv1.Deployment](p.hub.Admin).Get(ctx, kube.Key{Namespace: p.namespace, Name: "fleet-agent"})
	if err != nil {
		return ctx.Err() == nil && !kube.IsGone(err) // who cannot ask ends nothing
	}
	return d.DeletionTimestamp == nil && *d.Spec.Replicas > 0
}

// run runs the agent until its Deployment is gone.
func (p agentPod) run(ctx context.Context) {
	if _, ok := p.hub.Cluster.(*memory); ok {
		defer p.appear(ctx)()
		if !p.wanted(ctx) {
			return // the manager may have looked for pods before
		}
	}
	token, err := p.hub.Client.CoreV1().ServiceAccounts(p.namespace).CreateToken(ctx, "fleet-agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return // its account is going, as soon its Deployment will be
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	own := p.hub.bearer(token.Status.Token)
	cfg := agent.Default()
	cfg.Namespace, cfg.CheckinInterval, cfg.Version = p.namespace, time.Second, "v0.1.0-test"
	if p.namespace != fleet.NamespaceSystem {
		cfg.Scope = p.namespace
	}
	log := Logger()
	if os.Getenv(logsEnv) != "all" { // there may be many agents
		log.SetOutput(io.Discard)
	}
	go func() {
		for p.wanted(ctx) {
			_ = kube.Sleep(ctx, lookAtAgents)
		}
		stop()
	}()
	if err := agent.Run(ctx, cfg, own, logrus.NewEntry(log).WithField("site", p.namespace)); err != nil && ctx.Err() == nil {
		p.Errorf("the agent in %s ended with %v", p.namespace, err)
	}
}

// appear makes the Pod of the agent, as no controller does on an API server in memory, and
// returns what deletes it: a manager that removes an agent waits until its pods are gone.
func (p agentPod) appear(ctx context.Context) (disappear func()) {
	pods := kube.StoreOf[*corev1.Pod](p.hub.Admin)
	made, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "fleet-agent-", Namespace: p.namespace, Labels: map[string]string{"app": "fleet-agent"},
	}})
	if err != nil {
		return func() {} // the namespace is being deleted
	}
	return func() { _ = pods.Delete(context.WithoutCancel(ctx), kube.KeyOf(made), kube.Precondition{}) }
}

// ManagerOf is the address at which the agent in a namespace reaches its manager;
// empty while it registers.
func ManagerOf(t testing.TB, h *Hub, namespace string) string {
	t.Helper()
	s, ok := Read[*corev1.Secret](t, h, namespace, fleet.SecretAgent)
	if !ok {
		return ""
	}
	cfg, err := kube.ParseKubeconfig(s.Data[registration.KeyKubeconfig])
	if err != nil {
		return ""
	}
	return cfg.Host
}
