package local

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// register gives the agent the data that it needs to register, one step at a time; the
// result of each step enqueues the loop.
func (l *Loop) register(ctx context.Context, c *fleet.Cluster, e registration.Endpoint) error {
	b := l.cfg.Settings.Bootstrap
	want := registration.LocalToken(b)
	observed := registration.LocalObserved{Granted: l.granted(l.caches.Requests.List(l.key.Namespace))}
	_, observed.Token = l.caches.Tokens.Get(kube.KeyOf(want))
	_, observed.Values = l.caches.Values.Get(kube.KeyOf(want))
	credential, err := l.secretData(ctx, l.credential, fleet.SecretAgent)
	if err != nil {
		return err
	}
	bootstrap, err := l.secretData(ctx, l.bootstrap, fleet.SecretAgentBootstrap)
	if err != nil {
		return err
	}
	// While it registers the agent keeps a word of its own in the Secret.
	observed.Credential = len(credential[registration.KeyKubeconfig]) > 0
	if observed.Bootstrap, err = l.bootstrapToken(ctx, bootstrap, want, observed.Values); err != nil {
		return err
	}
	step, reason := registration.NextLocalStep(observed, b)
	log := l.log.WithField("workspace", c.Namespace).WithField("cluster", c.Name).WithField("reason", reason)
	switch step {
	case registration.LocalDropCredential:
		return l.dropCredential(ctx, func() { log.Info("credential of the local agent deleted") })
	case registration.LocalMakeToken:
		want.OwnerReferences = registration.OwnedByCluster(c)
		_, err := l.tokens.Create(ctx, want)
		return err
	case registration.LocalWriteBootstrap:
		return l.writeBootstrap(ctx, want, e, func() { log.Info("local agent may register") })
	case registration.LocalNothing, registration.LocalAwaitToken:
	}
	return nil
}

// secretData reads one of the agent's Secrets, if the cache has it; else nil.
func (l *Loop) secretData(ctx context.Context, known *cache.MetaCache, name string) (map[string][]byte, error) {
	key := kube.Key{Namespace: l.cfg.Settings.Bootstrap.AgentNamespace, Name: name}
	if _, ok := known.Get(key); !ok {
		return nil, nil
	}
	s, err := l.secrets.Get(ctx, key)
	if err != nil {
		return nil, kube.IgnoreGone(err)
	}
	return s.Data, nil
}

// bootstrapToken returns the name of the registration token in the agent's Secret;
// empty if there is none, or an earlier token of the same name.
func (l *Loop) bootstrapToken(ctx context.Context, data map[string][]byte, t *fleet.ClusterRegistrationToken, values bool) (string, error) {
	holds := registration.ReadBootstrapping(data)
	if holds.TokenName != t.Name || !values {
		return holds.TokenName, nil
	}
	s, err := l.secrets.Get(ctx, kube.KeyOf(t))
	if err != nil {
		return "", err
	}
	now, err := registration.ReadTokenSecret(s)
	if err != nil || now.Token != holds.Token {
		return "", err
	}
	return holds.TokenName, nil
}

// granted reports whether one of the requests was granted for the Cluster.
func (l *Loop) granted(requests []*fleet.ClusterRegistration) bool {
	for _, r := range requests {
		if r.Status.Granted && r.Status.ClusterName == l.key.Name {
			return true
		}
	}
	return false
}

// dropCredential deletes the agent's credential, if the API server has no granted
// request either: the caches of both kinds may differ in time.
func (l *Loop) dropCredential(ctx context.Context, done func()) error {
	requests, err := l.requests.List(ctx, l.key.Namespace, "")
	if err != nil || l.granted(requests) {
		return err
	}
	done()
	return l.secrets.Delete(ctx,
		kube.Key{Namespace: l.cfg.Settings.Bootstrap.AgentNamespace, Name: fleet.SecretAgent}, kube.Precondition{})
}

// writeBootstrap writes the agent's bootstrap Secret, if the API server has no
// credential of the agent either: the caches of both may differ in time. The agent
// reaches the manager by the address that the manager itself uses.
func (l *Loop) writeBootstrap(ctx context.Context, t *fleet.ClusterRegistrationToken, e registration.Endpoint, done func()) error {
	agent := kube.Key{Namespace: l.cfg.Settings.Bootstrap.AgentNamespace, Name: fleet.SecretAgent}
	if has, err := l.secrets.Get(ctx, agent); kube.IgnoreGone(err) != nil || err == nil && len(has.Data[registration.KeyKubeconfig]) > 0 {
		return err
	}
	values, err := l.secrets.Get(ctx, kube.KeyOf(t))
	if err != nil {
		return err
	}
	done()
	b, err := registration.ReadTokenSecret(values)
	if err != nil {
		return err
	}
	b.APIServerURL, b.APIServerCA = e.URL, e.CA
	return ensure.Secret(ctx, l.secrets, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.cfg.Settings.Bootstrap.AgentNamespace, Name: fleet.SecretAgentBootstrap,
			Labels: map[string]string{fleet.LabelManagerID: l.cfg.System.ManagerID},
		},
		Data: b.Data(),
	})
}
