package agent

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// reasonCredentialKept is the reason of the event about a Secret fleet-agent that
// the agent has written again.
const reasonCredentialKept = "CredentialWrittenAgain"

// A credentialBackup remembers the Secret with the agent's credential, and creates it
// again when it is deleted: without the Secret the agent could not connect after a
// restart.
type credentialBackup struct {
	*base
	*kube.Cache[*corev1.Secret]
	gone chan struct{} // has a value after a deletion

	mu   sync.Mutex
	last *corev1.Secret // that held a credential; nil: there was none
}

func newCredentialBackup(b *base) *credentialBackup {
	s := &credentialBackup{
		Cache: kube.NewCache[*corev1.Secret](b.down.Loop("credential"), kube.Watch{
			Namespace: b.cfg.Namespace, Fields: "metadata.name=" + fleet.SecretAgent,
		}, nil),
		base: b, gone: make(chan struct{}, 1),
	}
	s.OnError(func(error) {}) // the cache tries again
	s.OnChange(func(_, changed *corev1.Secret) { s.observeSecret(changed) })
	return s
}

// observeSecret stores the content of the Secret; nil: the Secret was deleted.
func (c *credentialBackup) observeSecret(secret *corev1.Secret) {
	if secret == nil {
		select {
		case c.gone <- struct{}{}:
		default:
		}
		return
	}
	if len(secret.Data[registration.KeyKubeconfig]) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = secret
}

// deletedSecret returns the Secret to create; nil if the agent had no credential, or if
// the manager refuses the credential.
func (c *credentialBackup) deletedSecret() *corev1.Secret {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || c.contact.isRefused() {
		return nil
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.last.Namespace, Name: c.last.Name, Labels: c.last.Labels, Annotations: c.last.Annotations,
		},
		Type: c.last.Type, Data: c.last.Data,
	}
}

// rewriteDeleted creates the Secret after each deletion, until ctx ends. The delay
// grows if the Secret is deleted repeatedly.
func (c *credentialBackup) rewriteDeleted(ctx context.Context) error {
	var delays kube.Backoff
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.gone:
		}
		for reported := ""; ; {
			err := c.writeSecret(ctx)
			if err == nil {
				break
			}
			if text := err.Error(); text != reported {
				reported = text
				c.log.WithField("error", text).Warn("deleted credential not written again")
			}
			if delays.Wait(ctx) != nil {
				return nil
			}
		}
		if delays.Wait(ctx) != nil {
			return nil
		}
	}
}

// writeSecret creates the Secret if it does not exist.
func (c *credentialBackup) writeSecret(ctx context.Context) error {
	secret := c.deletedSecret()
	if secret == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, contactTime)
	defer cancel()
	_, err := kube.StoreOf[*corev1.Secret](c.down.Loop("credential")).Create(ctx, secret)
	if kube.IsExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	c.log.WithField("reason", reasonCredentialKept).Warn("the Secret with the credential was deleted and is written again")
	c.events.record(kube.Warning, reasonCredentialKept, "the Secret "+fleet.SecretAgent+" with the credential for the manager was deleted; the agent has written it again. "+
		"To let the agent leave its manager, delete the Cluster there or uninstall the agent")
	return nil
}
