package agentmanagement

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Times of the token that an agent is installed with.
const (
	// lookSoon is when what was in doubt is looked at again.
	lookSoon = time.Second
	// lookAgain is when an import goes on that no event has woken up.
	lookAgain      = time.Minute
	importTokenTTL = 12 * time.Hour
	// tokenLeft is how long a token must still be good for, to be handed out.
	tokenLeft = time.Hour
)

// look is what the Secret of a Cluster says, and which version of it.
type look struct {
	version string
	offer   clusterimport.Offer
}

// facts gathers what is known of a Cluster. A Secret is read where it has
// changed since the last import, and no more often than it changes.
func (l *importLoop) facts(ctx context.Context, c *fleet.Cluster) (clusterimport.Facts, error) {
	f := clusterimport.Facts{Cluster: c, Record: clusterimport.RecordOf(c), Namespace: l.namespace(c)}
	_, f.Token = l.view.Tokens.Get(l.tokenKey(c))
	if f.Record != nil {
		f.Arrived = f.Record.Taken() || f.Record.Arrived(l.granted(c))
		if f.Record.Own != "" {
			f.Own = l.agents.Own(c)
		}
	}
	offer, err := l.offer(ctx, c, f.Record)
	f.Offer = offer
	return f, err
}

// namespace returns the namespace for the agent of a Cluster.
func (l *importLoop) namespace(c *fleet.Cluster) string {
	if c.Spec.AgentNamespace != "" {
		return c.Spec.AgentNamespace
	}
	return l.cfg.Namespace
}

// granted are the requests that were granted for a Cluster.
func (l *importLoop) granted(c *fleet.Cluster) []*fleet.ClusterRegistration {
	return l.view.Requests.ByIndex(cache.ByCluster, kube.KeyOf(c).String())
}

func (l *importLoop) tokenKey(c *fleet.Cluster) kube.Key {
	return kube.Key{Namespace: c.Namespace, Name: naming.ImportToken(c.Name)}
}

// offer returns what the agent of a Cluster is to get; nil where its Secret is gone for
// now, so that nothing new is known.
func (l *importLoop) offer(ctx context.Context, c *fleet.Cluster, r *clusterimport.Record) (*clusterimport.Offer, error) {
	settings := clusterimport.Offer{URL: l.cfg.Settings.APIServerURL, CA: l.cfg.Settings.APIServerCA, TLSMode: l.cfg.Settings.AgentTLSMode}
	s, there := l.secretOf(c)
	if r == nil || !there {
		return nil, nil // an import reads it anyhow
	}
	version := clusterimport.VersionOf(s)
	if r.Secret == version && !r.FromSecret {
		return &settings, nil
	}
	key := kube.KeyOf(c)
	l.mu.Lock()
	known := l.looked[key]
	l.mu.Unlock()
	if known.version != version {
		if _, err := l.mayRead(ctx, c); err != nil {
			return nil, transient(err) // an import says so
		}
		secret, err := l.secrets.Get(ctx, kube.KeyOf(s))
		if kube.IsGone(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		known = look{version: version, offer: clusterimport.OfferTo(settings, secret.Data)}
		l.mu.Lock()
		l.looked[key] = known
		l.mu.Unlock()
	}
	return &known.offer, nil
}

// transient is an error that says nothing about the Cluster; nil for one that does.
func transient(err error) error {
	if reconcile.IsTerminal(err) || reconcile.IsRequeue(err) {
		return nil
	}
	return err
}

// settle reports a Cluster whose agent has what it needs, and ends the token that
// it was installed with once its own credential is in use.
func (l *importLoop) settle(ctx context.Context, f clusterimport.Facts) (kube.Result, error) {
	if f.Record.Own != "" {
		handed, err := l.agents.Deployed(ctx, f.Cluster, f.Record.Own)
		if err != nil {
			return kube.Done, err
		}
		if handed {
			record := *f.Record
			record.Own = ""
			return kube.Done, l.note(ctx, f.Cluster, record) // the written Cluster wakes it up
		}
	}
	next, silent := kube.Done, error(nil)
	if f.Record.Own != "" {
		next.After = importRetry // what reports that it is handed over may have come too early
	}
	if f.Arrived && f.Token {
		next.After = importRetry
		if err := l.endToken(ctx, f); err != nil {
			return kube.Done, err
		}
	}
	if !f.Arrived {
		if left := f.Record.Since.Add(clusterimport.DefaultPace.Timeout).Sub(l.now()); left > 0 {
			next = next.Sooner(left)
		} else {
			silent = reconcile.RequeueError(clusterimport.ReasonSilent, 0, fmt.Errorf(
				"the agent was installed in namespace %q and told of %s, and has not registered: kubectl -n %s logs deployment/fleet-agent says why",
				f.Record.Namespace, f.Record.URL, f.Record.Namespace))
			l.turns.wake() // the others may have to wait because of it
		}
	}
	return next, l.report(ctx, f.Cluster, silent)
}

// endToken deletes the registration token of an agent that works with its own
// credential.
func (l *importLoop) endToken(ctx context.Context, f clusterimport.Facts) error {
	t, ok := l.view.Tokens.Get(l.tokenKey(f.Cluster))
	if !ok {
		return nil
	}
	for _, r := range l.granted(f.Cluster) {
		if r.Status.Granted && !r.CreationTimestamp.Before(&t.CreationTimestamp) && l.requests.Used(r) {
			return l.tokens.Delete(ctx, kube.KeyOf(t), kube.Exactly(t))
		}
	}
	return nil
}

// importCluster installs the agent of a Cluster, or brings its configuration up to
// date. limit is how long the cluster has to answer.
func (l *importLoop) importCluster(ctx context.Context, f clusterimport.Facts, limit time.Duration) error {
	c := f.Cluster
	secret, err := l.kubeconfig(ctx, c)
	if err != nil {
		return err
	}
	offer := clusterimport.OfferTo(clusterimport.Offer{
		URL: l.cfg.Settings.APIServerURL, CA: l.cfg.Settings.APIServerCA, TLSMode: l.cfg.Settings.AgentTLSMode,
	}, secret.Data)
	if offer.URL == "" {
		return reconcile.TerminalError(clusterimport.ReasonNoAddress, fmt.Errorf(
			"install the agent: nobody says where it reaches this manager: set chart value apiServerURL, or key %s of Secret %s", clusterimport.KeyAPIServerURL, kube.KeyOf(secret)))
	}
	agent, err := l.agents.Wanted(ctx, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importLimit)
	defer cancel()
	access, err := l.reach(ctx, secret, limit)
	if err != nil {
		return err
	}
	before, err := l.identify(ctx, c, access, agent.Namespace)
	if err != nil {
		return err
	}
	token, b, err := l.token(ctx, c)
	if err != nil {
		return err
	}
	b.APIServerURL, b.APIServerCA = offer.URL, offer.CA
	record := clusterimport.Record{
		Terms: offer.Terms(), FromSecret: offer.FromSecret, Since: token.CreationTimestamp.Time,
		Namespace: agent.Namespace, Generation: c.Spec.RedeployAgentGeneration, Secret: clusterimport.VersionOf(secret),
		WasOnline: online(c), AdoptFrom: adoptFrom(f, before, agent.Namespace), Own: l.agents.Own(c),
	}
	o := order{agent: agent, bootstrap: b, from: record.AdoptFrom, before: before}
	if record.UID, err = l.install(ctx, c, access, o); err != nil {
		return err
	}
	return l.note(ctx, c, record)
}

// reach finds out how the cluster of a kubeconfig is reached. limit is how long it
// has to answer.
func (l *importLoop) reach(ctx context.Context, secret *corev1.Secret, limit time.Duration) (kubeconfig.Access, error) {
	access, err := kubeconfig.Parse(secret.Data[clusterimport.KeyKubeconfig])
	if err != nil {
		return access, fmt.Errorf("key %s of Secret %s: %w", clusterimport.KeyKubeconfig, kube.KeyOf(secret), err)
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	return reach(ctx, access, l.cfg.Settings.AgentTLSMode, l.importPolicy())
}

// importPolicy says how API servers of imported clusters may be reached.
func (l *importLoop) importPolicy() kube.ImportPolicy {
	return kube.ImportPolicy{Addresses: l.cfg.Addresses, TLSOnly: l.cfg.Settings.AgentTLSMode == registration.TLSStrict, Via: l.via}
}

// An order is what an import makes.
type order struct {
	agent     registration.Agent
	bootstrap registration.Bootstrapping
	from      string         // namespace of the agent before; empty: there was none elsewhere
	before    *fleet.Cluster // whose agent it was; nil: of no other Cluster
}

// adoptFrom is the namespace of the agent that a Cluster, or the one whose place it
// takes, had before; empty: it had none in another one.
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

// install makes the agent through its kubeconfig, and returns the UID of the
// cluster. Errors are in the manager's own words.
func (l *importLoop) install(ctx context.Context, c *fleet.Cluster, access kubeconfig.Access, o order) (string, error) {
	d, err := l.dial(c, access, o.before)
	if err != nil {
		return "", err
	}
	pull, err := l.pullSecrets(ctx, c, o.agent, d.mark)
	if err != nil {
		return "", err
	}
	uid, err := d.identity(ctx)
	if err != nil {
		return "", plain(access.Server, err)
	}
	if err := l.ownCluster(uid, o.agent.Namespace); err != nil {
		return "", err
	}
	l.warnMutual(ctx, c, d)
	return uid, plain(access.Server, d.replace(ctx, o, pull))
}

// ownCluster refuses to install a second agent where the manager has its own.
func (l *importLoop) ownCluster(uid, in string) error {
	if uid != l.cfg.Installation.ClusterUID {
		return nil
	}
	local := l.cfg.Settings.Bootstrap
	if in == l.cfg.Namespace || local.Namespace != "" && in == local.AgentNamespace {
		return reconcile.TerminalError(clusterimport.ReasonOwnCluster, fmt.Errorf(
			"install the agent: the kubeconfig leads to the manager's own cluster, and namespace %q there is taken: set agentNamespace to another one", in))
	}
	return nil
}

// issued is the Cluster, "<namespace>/<name>", for whose agent an account was made;
// empty: it is no agent's.
func (l *importLoop) issued(ctx context.Context, a clusterimport.Account) (string, error) {
	account, err := l.accounts.Get(ctx, kube.Key{Namespace: a.Namespace, Name: a.Name})
	if err != nil || string(account.UID) != a.UID {
		return "", kube.IgnoreGone(err)
	}
	for _, key := range cache.RequestOf(account) {
		if r, ok := l.view.Requests.Get(kube.ParseKey(key)); ok && r.Status.Granted {
			return kube.Key{Namespace: r.Namespace, Name: r.Status.ClusterName}.String(), nil
		}
	}
	return "", nil
}

// mayRead reports whether the Secret that a Cluster names may be read; nil if it may.
// The proof is empty where none was needed for that.
func (l *importLoop) mayRead(ctx context.Context, c *fleet.Cluster) (clusterimport.Proof, error) {
	if clusterimport.MayRead(c, clusterimport.Proof{}) == nil {
		return clusterimport.Proof{}, nil
	}
	proof, err := l.rancher.Proof(ctx, c)
	if err != nil {
		return proof, err
	}
	return proof, clusterimport.MayRead(c, proof)
}

// kubeconfig reads the Secret that a Cluster names, if it may.
func (l *importLoop) kubeconfig(ctx context.Context, c *fleet.Cluster) (*corev1.Secret, error) {
	proof, err := l.mayRead(ctx, c)
	if err != nil {
		return nil, err
	}
	key := kube.Key{Namespace: clusterimport.NamespaceOfSecret(c), Name: c.Spec.KubeConfigSecret}
	s, err := l.secrets.Get(ctx, key)
	if kube.IsGone(err) {
		return nil, reconcile.TerminalError(clusterimport.ReasonSecretMissing, fmt.Errorf(
			"install the agent: Secret %s (kubeConfigSecret) is not there", key))
	}
	if err != nil {
		return nil, err
	}
	if clusterimport.MayUse(c, s, proof) == nil {
		return s, nil
	}
	if proof, err = l.rancher.Proof(ctx, c); err != nil {
		return nil, err
	}
	return s, clusterimport.MayUse(c, s, proof)
}

// token returns the registration token of an import, and what its Secret says. A token
// that an agent has registered with, or that ends soon, is replaced; until a new one is
// ready, the error is reconcile.RequeueAfter.
func (l *importLoop) token(ctx context.Context, c *fleet.Cluster) (*fleet.ClusterRegistrationToken, registration.Bootstrapping, error) {
	none := registration.Bootstrapping{}
	key := l.tokenKey(c)
	t, ok := l.view.Tokens.Get(key)
	if !ok {
		_, err := l.tokens.Create(ctx, &fleet.ClusterRegistrationToken{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, OwnerReferences: registration.OwnedByCluster(c)},
			Spec:       fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: importTokenTTL}},
		})
		if err != nil && !kube.IsExists(err) {
			return nil, none, err
		}
		return nil, none, l.underWay("the registration token is made")
	}
	if l.spent(c, t) {
		// A request of the same second may be older: the one that is made now would be taken to
		// be spent as well, and the next one.
		if age := l.now().Sub(t.CreationTimestamp.Time); age >= 0 && age < lookSoon {
			return nil, none, reconcile.RequeueError(fleet.ReasonProgressing, lookSoon, errors.New("install the agent: the registration token is replaced"))
		}
		if err := l.tokens.Delete(ctx, key, kube.Exactly(t)); err != nil {
			return nil, none, err
		}
		return nil, none, l.underWay("the registration token is replaced")
	}
	if _, ready := l.view.Values.Get(key); !ready {
		return nil, none, l.underWay("the registration token is made")
	}
	values, err := l.secrets.Get(ctx, key)
	if err != nil {
		return nil, none, err
	}
	for _, ref := range values.OwnerReferences {
		if ref.UID == t.UID {
			b, err := registration.ReadTokenSecret(values)
			return t, b, err
		}
	}
	return nil, none, l.underWay("the registration token is made") // those of the one before are going
}

// spent reports whether a token is of no use for another import.
func (l *importLoop) spent(c *fleet.Cluster, t *fleet.ClusterRegistrationToken) bool {
	own := false
	for _, ref := range t.OwnerReferences {
		own = own || ref.UID == c.UID
	}
	left := t.CreationTimestamp.Add(importTokenTTL).Sub(l.now())
	r := clusterimport.Record{Since: t.CreationTimestamp.Time}
	return t.DeletionTimestamp == nil && (!own || left < tokenLeft || r.Arrived(l.granted(c)))
}

// underWay says that an import goes on at the next event. Not every event wakes it up:
// those of a token that has the same name and belongs to another owner do not.
func (l *importLoop) underWay(what string) error {
	return reconcile.RequeueError(fleet.ReasonProgressing, lookAgain, fmt.Errorf("install the agent: %s", what))
}
