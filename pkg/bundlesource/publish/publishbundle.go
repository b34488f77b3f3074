package publish

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// errForeign says that an object of the name is not Fleet's.
var errForeign = errors.New("it is not Fleet's")

// publishBundle writes one Bundle after all that it leads to. A Bundle that is refused is
// a finding, so that others go on.
func (p *Publisher) publishBundle(ctx context.Context, j job, write gitrepo.Write) (*finding.Finding, error) {
	if write.Secret {
		if f, err := p.putValues(ctx, j.order, write); f != nil || err != nil {
			return f, err
		}
	}
	if f, err := p.putContent(ctx, j, write); f != nil || err != nil {
		return f, err
	}
	if f, err := p.putBundle(ctx, write); f != nil || err != nil {
		return f, err
	}
	if write.In == gitrepo.Registry {
		// Another process may have deleted the artifact for another Bundle, just before
		// it could see this one. Then the artifact is pushed again.
		if err := p.push(ctx, j, write); err != nil {
			return nil, err
		}
	}
	if write.Values == nil && write.Old != nil && write.Old.Spec.ValuesHash != "" {
		return nil, p.dropValues(ctx, kube.KeyOf(write.New))
	}
	return nil, nil
}

func (p *Publisher) putBundle(ctx context.Context, write gitrepo.Write) (*finding.Finding, error) {
	b := write.New
	err := p.store(ctx, write)
	switch {
	case kube.IsExists(err):
		return conflictFinding(b, fmt.Sprintf("bundle %q exists and belongs to somebody else; it is not overwritten", b.Name)), nil
	case kube.IsInvalid(err):
		return &finding.Finding{Path: b.Name, Severity: finding.Error, Rule: finding.RuleValue, Message: err.Error()}, nil
	case kube.IsTerminating(err):
		return nil, terminatingError(b.Namespace)
	}
	return nil, err
}

func terminatingError(namespace string) error {
	return reconcile.RequeueError(fleet.ReasonProgressing, 0, fmt.Errorf("namespace %q is being deleted", namespace))
}

// store creates or changes a Bundle.
func (p *Publisher) store(ctx context.Context, write gitrepo.Write) error {
	if write.Old == nil {
		_, err := p.bundles.Create(ctx, write.New)
		return err
	}
	old := write.Old
	_, err := p.bundles.Mutate(ctx, old, func(b *fleet.Bundle) error {
		if b.ResourceVersion != old.ResourceVersion && (b.DeletionTimestamp != nil || b.Labels[fleet.LabelRepoName] != old.Labels[fleet.LabelRepoName]) {
			return reconcile.RequeueError(fleet.ReasonProgressing, 0, fmt.Errorf("bundle %q was changed by somebody else meanwhile", old.Name))
		}
		*b = *gitrepo.UpdateBundle(b, write.New)
		return nil
	})
	return err
}

func conflictFinding(b *fleet.Bundle, message string) *finding.Finding {
	return &finding.Finding{Path: b.Name, Severity: finding.Error, Rule: finding.RuleConflict, Message: message}
}

// putValues writes the Secret of a Bundle's values. A Secret of that name that
// is not ours is not touched.
func (p *Publisher) putValues(ctx context.Context, o Order, write gitrepo.Write) (*finding.Finding, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: write.New.Name, Namespace: write.New.Namespace,
			Labels: map[string]string{fleet.LabelManaged: "true", fleet.LabelRepoName: o.Owner},
		},
		Type: fleet.SecretTypeBundleValues,
		Data: write.Values,
	}
	_, err := p.secrets.Ensure(ctx, secret, func(have *corev1.Secret) error {
		if have.Type != secret.Type {
			return errForeign
		}
		have.Labels, have.Data = secret.Labels, secret.Data
		return nil
	})
	switch {
	case kube.IsTerminating(err):
		return nil, terminatingError(secret.Namespace)
	case kube.IsInvalid(err):
		return refusedValuesFinding(secret.Name), nil
	case errors.Is(err, errForeign):
		return conflictFinding(write.New, fmt.Sprintf("secret %q exists and is not Fleet's; the bundle's values cannot be kept", secret.Name)), nil
	}
	return nil, err
}

// refusedValuesFinding is said of values that a Secret refuses. The API server's own text
// might repeat them.
func refusedValuesFinding(name string) *finding.Finding {
	return &finding.Finding{
		Path: name, Severity: finding.Error, Rule: finding.RuleValue,
		Message: "its values cannot be kept in a Secret: they may have 1 MiB in all",
	}
}

// dropValues removes the Secret of a Bundle that has no values any more.
func (p *Publisher) dropValues(ctx context.Context, key kube.Key) error {
	old, err := p.secrets.Get(ctx, key)
	if kube.IsGone(err) {
		return nil
	}
	if err != nil || old.Type != fleet.SecretTypeBundleValues {
		return err
	}
	return p.secrets.Delete(ctx, key, kube.Precondition{UID: old.UID, ResourceVersion: old.ResourceVersion})
}
