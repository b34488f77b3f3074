package register

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A Bootstrap is what an agent is given to register with.
type Bootstrap struct {
	registration.Bootstrapping
}

// Same reports whether two have the same content.
func (b Bootstrap) Same(o Bootstrap) bool {
	return b.Origin() == o.Origin() && b.TokenName == o.TokenName && b.RegistrationNamespace == o.RegistrationNamespace
}

// A BootstrapWatcher watches the agent's bootstrap Secret: to make the agent register,
// a user puts a token there, at any time.
type BootstrapWatcher struct {
	*kube.Cache[*corev1.Secret]
	key     kube.Key
	changed chan struct{}

	mu   sync.Mutex
	came time.Time // when the present token was put there; zero: before the agent looked
}

// settling is the delay before a token is used: Helm writes Secrets before ConfigMaps,
// and a ConfigMap holds what the agent reports about itself.
const settling = 2 * time.Second

// NewBootstrapWatcher makes a watcher of the bootstrap Secret in the agent's namespace.
// It watches while it runs.
func NewBootstrapWatcher(down *kube.Client, namespace string) *BootstrapWatcher {
	l := &BootstrapWatcher{
		Cache: kube.NewCache[*corev1.Secret](down, kube.Watch{
			Namespace: namespace, Fields: "metadata.name=" + fleet.SecretAgentBootstrap,
		}, nil),
		key: kube.Key{Namespace: namespace, Name: fleet.SecretAgentBootstrap}, changed: make(chan struct{}, 1),
	}
	l.OnError(func(error) {}) // the cache tries again
	l.OnChange(func(old, changed *corev1.Secret) {
		if changed != nil && l.HasSynced() && (old == nil || !bootstrapOf(old).Same(bootstrapOf(changed))) {
			l.mu.Lock()
			l.came = time.Now()
			l.mu.Unlock()
		}
		l.signalChange()
	})
	return l
}

// bootstrapOf returns the registration data in a bootstrap Secret.
func bootstrapOf(s *corev1.Secret) Bootstrap {
	return Bootstrap{registration.ReadBootstrapping(s.Data)}
}

// Settle waits until other writes to the bootstrap Secret at the same moment have
// arrived. It returns the error of ctx if that ends before.
func (b *BootstrapWatcher) Settle(ctx context.Context) error {
	for {
		b.mu.Lock()
		left := settling - time.Since(b.came)
		b.mu.Unlock()
		if left <= 0 {
			return ctx.Err()
		}
		if err := kube.Sleep(ctx, left); err != nil {
			return err
		}
	}
}

func (b *BootstrapWatcher) signalChange() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// Changed returns a channel that has a value after each change. Only one goroutine may
// read it.
func (b *BootstrapWatcher) Changed() <-chan struct{} { return b.changed }

// Look returns the present content of the bootstrap Secret; false: there is none, or it
// is not known yet.
func (b *BootstrapWatcher) Look() (Bootstrap, bool) {
	s, ok := b.Get(b.key)
	if !ok {
		return Bootstrap{}, false
	}
	return bootstrapOf(s), true
}

// Forget deletes a bootstrap Secret, whose token a registered agent does not need. It
// keeps a Secret with other content. It reports whether it has deleted one.
func Forget(ctx context.Context, down *kube.Client, namespace string, b Bootstrap) (bool, error) {
	secrets := kube.StoreOf[*corev1.Secret](down)
	key := kube.Key{Namespace: namespace, Name: fleet.SecretAgentBootstrap}
	for {
		s, err := secrets.Get(ctx, key)
		switch {
		case kube.IsGone(err):
			return false, nil
		case err != nil:
			return false, err
		case !b.Same(bootstrapOf(s)):
			return false, nil
		}
		err = secrets.Delete(ctx, key, kube.Precondition{UID: s.UID, ResourceVersion: s.ResourceVersion})
		if !kube.IsConflict(err) {
			return err == nil, err
		}
	}
}
