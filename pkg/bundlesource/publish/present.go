package publish

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
)

// readPresent reads what the cluster holds: the Bundles of the order and their values, and
// the owners of the names that the order needs.
func (p *Publisher) readPresent(ctx context.Context, o Order, set bundle.Set, s *storage) (gitrepo.Present, error) {
	selector := fleet.LabelRepoName + "=" + o.Owner
	found := gitrepo.Present{Others: map[string]string{}, Secrets: map[string]map[string][]byte{}}
	var err error
	if found.Own, err = p.bundles.List(ctx, o.Namespace, selector); err != nil {
		return found, err
	}
	secrets, err := p.secrets.List(ctx, o.Namespace, selector)
	if err != nil {
		return found, err
	}
	for _, s := range secrets {
		if s.Type == fleet.SecretTypeBundleValues {
			found.Secrets[s.Name] = s.Data
		}
	}
	if s != nil {
		found.Registry = s.data
		if found.Access, err = p.copies(ctx, o.Namespace); err != nil {
			return found, err
		}
	}
	err = p.findOwners(ctx, o, set, &found)
	return found, err
}

// findOwners finds the owners of the names that the order needs and does not own.
func (p *Publisher) findOwners(ctx context.Context, o Order, set bundle.Set, found *gitrepo.Present) error {
	own := map[string]bool{}
	for _, b := range found.Own {
		own[b.Name] = true
	}
	var names []string
	for _, r := range set.Results {
		if r.Name != "" && !own[r.Name] {
			names = append(names, r.Name)
		}
	}
	list, err := p.cfg.Bundles(ctx, o.Namespace, names)
	if err != nil {
		return err
	}
	for _, b := range list {
		switch {
		case own[b.GetName()]: // the list may be behind
		case !o.Adopt || !isUnowned(b):
			found.Others[b.GetName()] = ownerOf(b)
		default:
			if err := p.readOrphan(ctx, kube.KeyOf(b), found); err != nil {
				return err
			}
		}
	}
	return nil
}

// readOrphan adds a Bundle without an owner to found.Adopted, and the Secret with its
// values to found.Secrets. A Bundle that is gone is no error.
func (p *Publisher) readOrphan(ctx context.Context, key kube.Key, found *gitrepo.Present) error {
	b, err := p.bundles.Get(ctx, key)
	if kube.IsGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	found.Adopted = append(found.Adopted, b)
	if b.Spec.ValuesHash == "" {
		return nil
	}
	secret, err := p.secrets.Get(ctx, key)
	switch {
	case kube.IsGone(err):
		return nil
	case err != nil:
		return err
	case secret.Type == fleet.SecretTypeBundleValues:
		found.Secrets[key.Name] = secret.Data
	}
	return nil
}

// getBundles asks for each Bundle by its name.
func (p *Publisher) getBundles(ctx context.Context, namespace string, names []string) ([]metav1.Object, error) {
	var (
		mu   sync.Mutex
		list []metav1.Object
	)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.cfg.Writers)
	for _, name := range names {
		group.Go(func() error {
			b, err := p.bundles.Get(ctx, kube.Key{Namespace: namespace, Name: name})
			if kube.IsGone(err) {
				return nil
			}
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			list = append(list, b)
			return nil
		})
	}
	return list, group.Wait()
}

// isUnowned reports whether a Bundle belongs to no source.
func isUnowned(b metav1.Object) bool {
	labels := b.GetLabels()
	return labels[fleet.LabelRepoName] == "" && labels[fleet.LabelHelmOpName] == ""
}

// ownerOf says in words whose a Bundle is.
func ownerOf(b metav1.Object) string {
	labels := b.GetLabels()
	switch {
	case labels[fleet.LabelRepoName] != "":
		return fmt.Sprintf("GitRepo %q", labels[fleet.LabelRepoName])
	case labels[fleet.LabelHelmOpName] != "":
		return fmt.Sprintf("HelmOp %q", labels[fleet.LabelHelmOpName])
	}
	return "no GitRepo"
}
