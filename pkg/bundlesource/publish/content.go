package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A storage is a registry that resources are kept in, and its Secret's data.
type storage struct {
	oci.Storage
	data map[string][]byte
}

// storage returns the registry of an order's Secret; nil if resources are kept
// in the cluster.
func (p *Publisher) storage(ctx context.Context, o Order) (*storage, error) {
	if p.cfg.OCI == nil {
		return nil, nil
	}
	key := kube.Key{Namespace: o.Namespace, Name: o.OCISecret}
	if key.Name == "" {
		key.Name = fleet.SecretOCIStorage
	}
	secret, err := p.secrets.Get(ctx, key)
	switch {
	case kube.IsGone(err) && o.OCISecret == "":
		return nil, nil
	case kube.IsGone(err):
		return nil, reconcile.TerminalError(fleet.EventFailedValidatingSecret, fmt.Errorf("secret %q does not exist in namespace %s (ociRegistrySecret)", key.Name, key.Namespace))
	case err != nil:
		return nil, err
	}
	s, err := oci.StorageOf(string(secret.Type), secret.Data)
	if err != nil {
		return nil, reconcile.TerminalError(fleet.EventFailedValidatingSecret, fmt.Errorf("secret %q: %w", key.Name, err))
	}
	return &storage{Storage: s, data: secret.Data}, nil
}

// copies are the data of the Secrets that agents' credentials for artifacts are
// made of, by the artifact's id.
func (p *Publisher) copies(ctx context.Context, namespace string) (map[string]map[string][]byte, error) {
	list, err := p.secrets.List(ctx, namespace, fleet.LabelInternalSecret+"=true")
	if err != nil {
		return nil, err
	}
	found := map[string]map[string][]byte{}
	for _, s := range list {
		if s.Type == fleet.SecretTypeOCIStorage && s.DeletionTimestamp == nil {
			found[s.Name] = s.Data
		}
	}
	return found, nil
}

// putContent writes what a Bundle deploys where it does not hold it itself.
func (p *Publisher) putContent(ctx context.Context, j job, write gitrepo.Write) (*finding.Finding, error) {
	switch write.In {
	case gitrepo.Registry:
		if err := p.push(ctx, j, write); err != nil {
			return nil, err
		}
		return p.putAccess(ctx, j, write.New)
	case gitrepo.Apart:
		return p.putContents(ctx, write)
	}
	return nil, nil
}

// push puts the artifact into the registry, unless it is there.
func (p *Publisher) push(ctx context.Context, j job, write gitrepo.Write) error {
	if err := p.cfg.OCI.Push(ctx, j.storage.Write(), write.New.Spec.ContentsID, content.Encode(write.Content)); err != nil {
		return fmt.Errorf("store bundle %q: %w", write.New.Name, err)
	}
	return nil
}

// putAccess writes the Secret that leads to an artifact: a copy of the
// registry's, under the artifact's id. A Secret of that name that is not ours is
// not touched.
func (p *Publisher) putAccess(ctx context.Context, j job, b *fleet.Bundle) (*finding.Finding, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: b.Spec.ContentsID, Namespace: b.Namespace,
			Labels: map[string]string{fleet.LabelManaged: "true", fleet.LabelInternalSecret: "true"},
		},
		Type: fleet.SecretTypeOCIStorage,
		Data: j.storage.data,
	}
	_, err := p.secrets.Ensure(ctx, secret, func(have *corev1.Secret) error {
		if have.Type != secret.Type || have.Labels[fleet.LabelInternalSecret] != "true" {
			return errForeign
		}
		have.Labels, have.Data = secret.Labels, secret.Data
		return nil
	})
	switch {
	case kube.IsTerminating(err):
		return nil, terminatingError(secret.Namespace)
	case errors.Is(err, errForeign):
		return conflictFinding(b, fmt.Sprintf("secret %q exists and is not Fleet's; what leads to the bundle's resources cannot be kept", secret.Name)), nil
	}
	return nil, err
}

// putContents writes the Contents of a Bundle, the index last. Contents that exist
// already are marked as in use, so that no manager removes them until the Bundle names
// them.
func (p *Publisher) putContents(ctx context.Context, write gitrepo.Write) (*finding.Finding, error) {
	packed, err := content.Pack(write.Content)
	if errors.Is(err, content.ErrTooLarge) {
		return &finding.Finding{
			Path: write.New.Name, Severity: finding.Error, Rule: finding.RuleTooLarge,
			Message: fmt.Sprintf("its content cannot be kept: %v; the largest files are %s", err, content.Largest(write.Content)),
			Hint:    "leave files out with .fleetignore, split the directory, or keep bundles in an OCI registry",
		}, nil
	}
	if err != nil {
		return nil, err
	}
	if there, err := p.isComplete(ctx, packed.ID); there || err != nil {
		return nil, err
	}
	manager, err := p.cfg.ManagerID(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range packed.Contents() {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels[fleet.LabelManagerID] = manager
		if err := p.putPart(ctx, c); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// isComplete marks a content as in use, and reports whether it is there with all its parts:
// one may have been removed.
func (p *Publisher) isComplete(ctx context.Context, id string) (bool, error) {
	index, err := p.renewContent(ctx, id)
	if index == nil || err != nil {
		return false, err
	}
	n, err := content.Parts(index)
	if err != nil {
		return false, nil // it is written again
	}
	for i := range n {
		_, err := p.contents.Get(ctx, kube.Key{Name: content.PartName(id, i)})
		if kube.IsGone(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// putPart creates one Content, or makes the one of its name the same: a process
// that was stopped before the index was written may have packed otherwise.
func (p *Publisher) putPart(ctx context.Context, c *fleet.Content) error {
	_, err := p.contents.Ensure(ctx, c, func(have *fleet.Content) error {
		have.Labels, have.Content, have.SHA256Sum = c.Labels, c.Content, c.SHA256Sum
		have.Annotations = maps.Clone(c.Annotations)
		return markInUse(have)
	})
	return err
}

// renewContent marks a Content as in use. It returns nil if there is no Content.
func (p *Publisher) renewContent(ctx context.Context, name string) (*fleet.Content, error) {
	old, err := p.contents.Get(ctx, kube.Key{Name: name})
	if err == nil {
		old, err = p.contents.Mutate(ctx, old, markInUse)
	}
	return old, kube.IgnoreGone(err)
}

func markInUse(c *fleet.Content) error {
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, fleet.AnnotationContentRenewed, time.Now().UTC().Format(time.RFC3339Nano))
	return nil
}
