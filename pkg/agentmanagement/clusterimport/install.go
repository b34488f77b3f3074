package clusterimport

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/downstream"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// importCluster installs the agent of a Cluster, or updates its configuration. limit is
// how long the cluster has to answer.
func (l *Loop) importCluster(ctx context.Context, f clusterimport.Facts, limit time.Duration) error {
	c := f.Cluster
	secret, err := l.kubeconfigs.read(ctx, c)
	if err != nil {
		return err
	}
	offer := clusterimport.OfferTo(l.kubeconfigs.settingsOffer(), secret.Data)
	if offer.URL == "" {
		return reconcile.TerminalError(clusterimport.ReasonNoAddress, fmt.Errorf(
			"install the agent: nobody says where it reaches this manager: set chart value apiServerURL, or key %s of Secret %s", clusterimport.KeyAPIServerURL, kube.KeyOf(secret)))
	}
	agent, err := l.cfg.Agents.DesiredAgent(ctx, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importLimit)
	defer cancel()
	access, err := l.findAccess(ctx, secret, limit)
	if err != nil {
		return err
	}
	before, err := l.identify(ctx, c, access, agent.Namespace)
	if err != nil {
		return err
	}
	token, b, err := l.tokens.get(ctx, c)
	if err != nil {
		return err
	}
	b.APIServerURL, b.APIServerCA = offer.URL, offer.CA
	record := clusterimport.Record{
		Terms: offer.Terms(), FromSecret: offer.FromSecret, Since: token.CreationTimestamp.Time,
		Namespace: agent.Namespace, Generation: c.Spec.RedeployAgentGeneration, Secret: clusterimport.VersionOf(secret),
		WasOnline: online(c), AdoptFrom: adoptFrom(f, before, agent.Namespace), Own: l.cfg.Agents.DesiredDigest(c),
	}
	o := downstream.Order{Agent: agent, Bootstrap: b, From: record.AdoptFrom}
	if record.UID, err = l.install(ctx, c, access, before, o); err != nil {
		return err
	}
	return l.reporter.writeRecord(ctx, c, record)
}

// findAccess returns how the cluster of a kubeconfig is reached. limit is how long it
// has to answer.
func (l *Loop) findAccess(ctx context.Context, secret *corev1.Secret, limit time.Duration) (kubeconfig.Access, error) {
	access, err := kubeconfig.Parse(secret.Data[clusterimport.KeyKubeconfig])
	if err != nil {
		return access, fmt.Errorf("key %s of Secret %s: %w", clusterimport.KeyKubeconfig, kube.KeyOf(secret), err)
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	return downstream.Reach(ctx, access, l.cfg.Settings.AgentTLSMode, l.importPolicy())
}

// importPolicy returns how the manager may reach API servers of imported clusters.
func (l *Loop) importPolicy() kube.ImportPolicy {
	return kube.ImportPolicy{Addresses: l.cfg.Addresses, TLSOnly: l.cfg.Settings.AgentTLSMode == registration.TLSStrict, Via: l.cfg.Via}
}

// adoptFrom returns the namespace of the former agent of a Cluster, or of the Cluster
// that it replaces; empty if there is none in another namespace.
func adoptFrom(f clusterimport.Facts, before *fleet.Cluster, to string) string {
	from := f.Cluster.Status.Agent.Namespace
	switch {
	case f.Record != nil:
		from = f.Record.Namespace
		if from == to {
			from = f.Record.AdoptFrom
		}
	case from == "" && before != nil:
		from = before.Status.Agent.Namespace
	}
	if from == to {
		return ""
	}
	return from
}

// install installs the agent, and returns the UID of the cluster. Errors do not contain
// texts of the downstream API server.
func (l *Loop) install(ctx context.Context, c *fleet.Cluster, access kubeconfig.Access, before *fleet.Cluster, o downstream.Order) (string, error) {
	d, err := l.dial(c, access, before)
	if err != nil {
		return "", err
	}
	pull, err := l.pullSecrets(ctx, c, o.Agent, d.Mark)
	if err != nil {
		return "", err
	}
	uid, err := d.Identity(ctx)
	if err != nil {
		return "", downstream.Plain(access.Server, err)
	}
	if err := l.refuseOwnCluster(uid, o.Agent.Namespace); err != nil {
		return "", err
	}
	l.warnMutual(ctx, c, d)
	return uid, downstream.Plain(access.Server, d.Replace(ctx, o, pull))
}

// refuseOwnCluster returns an error for a second agent in the manager's own cluster.
func (l *Loop) refuseOwnCluster(uid, namespace string) error {
	if uid != l.cfg.Installation.ClusterUID {
		return nil
	}
	local := l.cfg.Settings.Bootstrap
	if namespace == l.cfg.System.Namespace || local.Namespace != "" && namespace == local.AgentNamespace {
		return reconcile.TerminalError(clusterimport.ReasonOwnCluster, fmt.Errorf(
			"install the agent: the kubeconfig leads to the manager's own cluster, and namespace %q there is taken: set agentNamespace to another one", namespace))
	}
	return nil
}

// accountOwner returns the Cluster, "<namespace>/<name>", for whose agent an account
// was made; empty if it is no agent's.
func (l *Loop) accountOwner(ctx context.Context, a clusterimport.Account) (string, error) {
	account, err := l.accounts.Get(ctx, kube.Key{Namespace: a.Namespace, Name: a.Name})
	if err != nil || string(account.UID) != a.UID {
		return "", kube.IgnoreGone(err)
	}
	for _, key := range cache.RequestOf(account) {
		if r, ok := l.caches.Requests.Get(kube.ParseKey(key)); ok && r.Status.Granted {
			return kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName}.String(), nil
		}
	}
	return "", nil
}

// pullSecrets returns copies of the manager's image pull secrets, for the agent of a
// Cluster that names none.
func (l *Loop) pullSecrets(ctx context.Context, c *fleet.Cluster, a registration.Agent, m clusterimport.Mark) ([]*corev1.Secret, error) {
	if c.Spec.AgentPullSecrets != nil {
		return nil, nil
	}
	var out []*corev1.Secret
	for _, name := range a.ImagePullSecrets {
		from, err := l.kubeconfigs.secrets.Get(ctx, kube.Key{Namespace: l.cfg.System.Namespace, Name: name})
		if err != nil {
			return nil, fmt.Errorf("image pull secret of the agent: %w", err)
		}
		out = append(out, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: a.Namespace, Name: name, Labels: m.Labels(), Annotations: m.Annotations()},
			Type:       from.Type, Data: maps.Clone(from.Data),
		})
	}
	return out, nil
}
