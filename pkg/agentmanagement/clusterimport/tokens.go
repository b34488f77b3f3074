package clusterimport

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
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Times of imports that wait.
const (
	// lookSoon is when what was in doubt is looked at again.
	lookSoon = time.Second
	// lookAgain is when an import goes on that no event has woken up.
	lookAgain = time.Minute
)

// Times of the token that an agent is installed with.
const (
	importTokenTTL = 12 * time.Hour
	// tokenLeft is how long a token must still be good for, to be handed out.
	tokenLeft = time.Hour
)

// tokens makes the registration tokens that agents are installed with, and ends them.
type tokens struct {
	now     func() time.Time
	used    func(*fleet.ClusterRegistration) bool // whether the token that a request was granted is in use
	caches  *cache.Shared
	tokens  *kube.Store[*fleet.ClusterRegistrationToken]
	secrets *kube.Store[*corev1.Secret]
}

// key returns the key of the registration token of a Cluster.
func (tk *tokens) key(c *fleet.Cluster) kube.Key {
	return kube.Key{Namespace: c.Namespace, Name: naming.ImportToken(c.Name)}
}

// get returns the registration token of an import, and the content of its Secret. It
// replaces a token that an agent has used, or that expires soon. Until a new one is
// ready, the error is a reconcile.RequeueAfter.
func (tk *tokens) get(ctx context.Context, c *fleet.Cluster) (*fleet.ClusterRegistrationToken, registration.Bootstrapping, error) {
	none := registration.Bootstrapping{}
	key := tk.key(c)
	t, ok := tk.caches.Tokens.Get(key)
	if !ok {
		_, err := tk.tokens.Create(ctx, &fleet.ClusterRegistrationToken{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, OwnerReferences: registration.OwnedByCluster(c)},
			Spec:       fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: importTokenTTL}},
		})
		if err != nil && !kube.IsExists(err) {
			return nil, none, err
		}
		return nil, none, inProgress("the registration token is made")
	}
	if tk.isUsedUp(c, t) {
		// A request of the same second may be older: the one that is made now would be taken to
		// be spent as well, and the next one.
		if age := tk.now().Sub(t.CreationTimestamp.Time); age >= 0 && age < lookSoon {
			return nil, none, reconcile.RequeueError(fleet.ReasonProgressing, lookSoon, errors.New("install the agent: the registration token is replaced"))
		}
		if err := tk.tokens.Delete(ctx, key, kube.Exactly(t)); err != nil {
			return nil, none, err
		}
		return nil, none, inProgress("the registration token is replaced")
	}
	if _, ready := tk.caches.Values.Get(key); !ready {
		return nil, none, inProgress("the registration token is made")
	}
	values, err := tk.secrets.Get(ctx, key)
	if err != nil {
		return nil, none, err
	}
	for _, ref := range values.OwnerReferences {
		if ref.UID == t.UID {
			b, err := registration.ReadTokenSecret(values)
			return t, b, err
		}
	}
	return nil, none, inProgress("the registration token is made") // the objects of the previous token are being deleted
}

// isUsedUp reports whether a token cannot be used for another import.
func (tk *tokens) isUsedUp(c *fleet.Cluster, t *fleet.ClusterRegistrationToken) bool {
	own := false
	for _, ref := range t.OwnerReferences {
		own = own || ref.UID == c.UID
	}
	left := t.CreationTimestamp.Add(importTokenTTL).Sub(tk.now())
	r := clusterimport.Record{Since: t.CreationTimestamp.Time}
	return t.DeletionTimestamp == nil && (!own || left < tokenLeft || r.AgentRegistered(grantedRequests(tk.caches, c)))
}

// deleteToken deletes the registration token of an agent that uses its own credential.
func (tk *tokens) deleteToken(ctx context.Context, f clusterimport.Facts) error {
	t, ok := tk.caches.Tokens.Get(tk.key(f.Cluster))
	if !ok {
		return nil
	}
	for _, r := range grantedRequests(tk.caches, f.Cluster) {
		if r.Status.Granted && !r.CreationTimestamp.Before(&t.CreationTimestamp) && tk.used(r) {
			return tk.tokens.Delete(ctx, kube.KeyOf(t), kube.Exactly(t))
		}
	}
	return nil
}

// inProgress returns the error of an import that continues at the next event. It
// requeues the Cluster too, because events of a token with another owner do not enqueue
// it.
func inProgress(what string) error {
	return reconcile.RequeueError(fleet.ReasonProgressing, lookAgain, fmt.Errorf("install the agent: %s", what))
}
