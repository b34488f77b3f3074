package deploy

import (
	"context"
	"errors"
	"fmt"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// reasonNoCredential is the reason of waiting for what it takes to read from a
// registry.
const reasonNoCredential = "OCISecretMissing"

// Registry is what the loop needs of registries; *oci.Client has it.
type Registry interface {
	Pull(ctx context.Context, r oci.Registry, id string) ([]byte, error)
}

// download reads a content from the manager, packed and not verified. It reads a
// content in parts part by part. The error for a missing part is a wait: the manager
// may be about to write the parts, or to ask for another content.
func download(ctx context.Context, s *Session, id string) ([]byte, error) {
	index, err := getContent(ctx, s, id)
	if err != nil {
		return nil, err
	}
	n, err := content.Parts(index)
	if err != nil || n == 0 {
		return index.Content, err
	}
	var packed []byte
	for i := range n {
		part, err := getContent(ctx, s, content.PartName(id, i))
		if err != nil {
			return nil, fmt.Errorf("part %d of %d: %w", i+1, n, err)
		}
		if packed, err = content.AppendPart(packed, index, i, part); err != nil {
			return nil, err
		}
	}
	return packed, nil
}

func getContent(ctx context.Context, s *Session, name string) (*fleet.Content, error) {
	c, err := s.Contents.Get(ctx, kube.Key{Name: name})
	switch {
	case kube.IsGone(err):
		return nil, reconcile.RequeueError(reasonNoContent, contentDelay, fmt.Errorf("the manager does not have content %s (any more)", shortID(name)))
	case err != nil:
		return nil, managerUnreachable(fmt.Errorf("read content %s: %w", shortID(name), err))
	}
	return c, nil
}

// pull reads a packed content from the registry that the Secret of its name locates. No
// error of a registry is permanent: a user may repair the registry or the Secret, and
// no watch shows that to the agent.
func (pl *payloads) pull(ctx context.Context, s *snapshot, id string) ([]byte, error) {
	secret, err := s.session.Secrets.Get(ctx, kube.Key{Namespace: s.session.Namespace, Name: id})
	switch {
	case kube.IsGone(err):
		return nil, reconcile.RequeueError(reasonNoCredential, valuesDelay, errors.New("the Secret that says in which registry the files are is not there yet"))
	case err != nil:
		return nil, managerUnreachable(fmt.Errorf("read the Secret of the registry: %w", err))
	}
	storage, err := oci.StorageOf(string(secret.Type), secret.Data)
	if err != nil {
		return nil, reconcile.RequeueError(reconcile.ReasonOf(err), managerDelay, err)
	}
	raw, err := pl.registry.Pull(ctx, storage.Read(), id)
	if reconcile.IsTerminal(err) {
		return nil, reconcile.RequeueError(reconcile.ReasonOf(err), managerDelay, err)
	}
	if err != nil {
		return nil, err
	}
	return content.Compress(raw), nil
}
