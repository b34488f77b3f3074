package deploy

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// The options of a deployment may name Secrets and ConfigMaps that go along into
// the namespace of its release (downstreamResources). The manager copies them
// beside the deployment, and raises a number in it when their data change: the
// agent then copies them again, and upgrades the release, whose values may come
// from them. They are no part of the release.

// copies puts downstream resources, Secrets and ConfigMaps, into the namespaces of
// releases, and deletes them.
type copies struct {
	helm    *helm.Client
	records records
}

// Reasons of copies that are not there, and of an upgrade for their sake.
const (
	reasonNoCopy     = "DownstreamResourceMissing"
	reasonBadCopy    = "InvalidDownstreamResource"
	reasonCopiesRead = "DownstreamResourcesChanged"
)

// readCopies reads the downstream resources of a deployment from the manager.
func readCopies(ctx context.Context, s *snapshot) ([]helm.Copy, error) {
	var out []helm.Copy
	for _, dr := range s.spec.Options.DownstreamResources {
		key := kube.Key{Namespace: s.session.Namespace, Name: dr.Name}
		var one helm.Copy
		var err error
		switch strings.ToLower(dr.Kind) {
		case helm.CopySecret:
			var secret *corev1.Secret
			if secret, err = s.session.Secrets.Get(ctx, key); err == nil {
				one = helm.Copy{Kind: helm.CopySecret, Name: dr.Name, Type: secret.Type, Data: secret.Data}
			}
		case helm.CopyConfigMap:
			var m *corev1.ConfigMap
			if m, err = s.session.ConfigMaps.Get(ctx, key); err == nil {
				one = helm.Copy{Kind: helm.CopyConfigMap, Name: dr.Name, Data: m.BinaryData, Text: m.Data}
			}
		default:
			return nil, reconcile.TerminalError(reasonBadCopy, fmt.Errorf("downstreamResources: %q is neither a Secret nor a ConfigMap", dr.Kind))
		}
		switch {
		case kube.IsGone(err):
			return nil, reconcile.RequeueError(reasonNoCopy, valuesDelay, fmt.Errorf("the manager has not copied %s %q yet (downstreamResources)", dr.Kind, dr.Name))
		case err != nil:
			return nil, managerUnreachable(fmt.Errorf("read %s %q (downstreamResources): %w", dr.Kind, dr.Name, err))
		case isOwnSecret(one.Type):
			return nil, reconcile.TerminalError(reasonBadCopy, fmt.Errorf("downstreamResources: Secret %q is Fleet's own (type %q)", dr.Name, one.Type))
		}
		out = append(out, one)
	}
	return out, nil
}

// isOwnSecret reports whether a Secret is of a type that Fleet itself stores.
func isOwnSecret(t corev1.SecretType) bool { return strings.HasPrefix(string(t), fleet.Group+"/") }

// newCopies reports whether the manager has newer downstream resources than those that
// the release was made with.
func newCopies(s *snapshot) bool {
	return s.bd != nil && len(s.spec.Options.DownstreamResources) > 0 &&
		s.bd.Spec.DownstreamResourcesGeneration != s.rec.Carried
}

// copyToRelease writes the copies into the namespace of the release. References to
// values in copied objects then mean the copies.
func (c *copies) copyToRelease(ctx context.Context, s *snapshot, d *helm.Deployment, list []helm.Copy) error {
	if len(list) == 0 {
		return nil
	}
	err := c.helm.PutCopies(ctx, *d, list)
	if reconcile.ReasonOf(err) == release.ReasonNotOwned {
		return &reportedRetry{err, refusedDelay}
	}
	if err == nil && d.Options.Helm != nil {
		h := *d.Options.Helm
		h.ValuesFrom = valuesFromCopies(h.ValuesFrom, s.spec.Options.DownstreamResources, d.ID.Namespace)
		d.Options.Helm = &h
	}
	return err
}

// valuesFromCopies returns the references to values. References to copied objects get
// the namespace of the release.
func valuesFromCopies(list []fleet.ValuesFrom, copies []fleet.DownstreamResource, namespace string) []fleet.ValuesFrom {
	named := map[string]bool{}
	for _, dr := range copies {
		named[strings.ToLower(dr.Kind)+"/"+dr.Name] = true
	}
	out := make([]fleet.ValuesFrom, len(list))
	for i, from := range list {
		if ref := from.SecretKeyRef; ref != nil && named[helm.CopySecret+"/"+ref.Name] {
			from.SecretKeyRef = ref.DeepCopy()
			from.SecretKeyRef.Namespace = namespace
		}
		if ref := from.ConfigMapKeyRef; ref != nil && named[helm.CopyConfigMap+"/"+ref.Name] {
			from.ConfigMapKeyRef = ref.DeepCopy()
			from.ConfigMapKeyRef.Namespace = namespace
		}
		out[i] = from
	}
	return out
}

// renewForCopies reports whether a release that is up to date must be upgraded because
// its copies have changed, and returns the action for that. It drops a permanent
// failure: the old copies may have caused it.
func renewForCopies(s *snapshot, a release.Action) (release.Action, bool) {
	if a.Verb != release.Keep || !newCopies(s) {
		return a, false
	}
	switch a.Reason {
	case release.ReasonUpToDate:
		return release.Action{Verb: release.Upgrade, Reason: reasonCopiesRead, Message: "the data of downstreamResources have changed"}, true
	case release.ReasonSettled:
		s.rec.Failed, s.wanted.Settled = nil, ""
		return release.Decide(s.observed, s.wanted), true
	}
	return a, false
}

// copiesOpen is what a record says of copies while some may be there that no bundle
// names any more. Otherwise the record holds the deployment id for which the copies
// were checked.
const copiesOpen = "?"

// deleteUnnamed deletes copies that the deployment does not name any more, after its
// new version was deployed.
func (c *copies) deleteUnnamed(ctx context.Context, s *snapshot) error {
	if s.rec.Copies == "" || s.rec.Copies == s.spec.DeploymentID {
		return nil
	}
	keep := map[helm.CopyRef]bool{}
	addRefs(keep, s.name, s.spec.Options)
	if err := c.deleteCopies(ctx, s, keep); err != nil {
		return err
	}
	if s.rec.Copies = ""; len(keep) > 0 {
		s.rec.Copies = s.spec.DeploymentID
	}
	return nil
}

// withdraw deletes the copies of a withdrawn deployment, unless its resources are kept.
func (c *copies) withdraw(ctx context.Context, s *snapshot) error {
	if s.rec.Copies == "" && len(s.spec.Options.DownstreamResources) == 0 || s.spec.Options.KeepResources {
		return nil
	}
	err := c.deleteCopies(ctx, s, nil)
	if s.wanted.Abandon {
		return nil
	}
	return err
}

// deleteCopies deletes the copies of a deployment except those in keep.
func (c *copies) deleteCopies(ctx context.Context, s *snapshot, keep map[helm.CopyRef]bool) error {
	others := c.copiesOfOthers(s.name)
	return c.helm.DropCopies(ctx, s.name, s.spec.Options.ServiceAccount,
		func(ref helm.CopyRef) bool { return keep[ref] }, func(ref helm.CopyRef) string { return others[ref] })
}

// addRefs adds the copies that the options of a deployment name to a set.
func addRefs(to map[helm.CopyRef]bool, name string, o fleet.BundleDeploymentOptions) {
	for _, dr := range o.DownstreamResources {
		to[helm.CopyRef{Kind: strings.ToLower(dr.Kind), Namespace: helm.IDOf(name, o).Namespace, Name: dr.Name}] = true
	}
}

// copiesOfOthers returns the copies that other deployments name, with the name of one.
func (c *copies) copiesOfOthers(but string) map[helm.CopyRef]string {
	out := map[helm.CopyRef]string{}
	for _, rec := range c.records.All() {
		if rec.Key.Name == but || rec.Ordered != "" {
			continue
		}
		refs := map[helm.CopyRef]bool{}
		addRefs(refs, rec.Key.Name, rec.Spec.Options)
		for ref := range refs {
			out[ref] = rec.Key.Name
		}
	}
	return out
}
