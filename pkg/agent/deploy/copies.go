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

// copies brings them to where the releases are, and removes them.
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

// readCopies reads what goes along with the deployment.
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
			return nil, away(fmt.Errorf("read %s %q (downstreamResources): %w", dr.Kind, dr.Name, err))
		case isOwnSecret(one.Type):
			return nil, reconcile.TerminalError(reasonBadCopy, fmt.Errorf("downstreamResources: Secret %q is Fleet's own (type %q)", dr.Name, one.Type))
		}
		out = append(out, one)
	}
	return out, nil
}

// isOwnSecret reports whether a Secret is one of those that Fleet itself keeps.
func isOwnSecret(t corev1.SecretType) bool { return strings.HasPrefix(string(t), fleet.Group+"/") }

// newCopies reports whether the manager has newer copies than those that the
// release was made with.
func newCopies(s *snapshot) bool {
	return s.bd != nil && len(s.spec.Options.DownstreamResources) > 0 &&
		s.bd.Spec.DownstreamResourcesGeneration != s.rec.Carried
}

// put brings the copies to where the release is, and lets values come from
// them: what names one of them means the one beside the release.
func (c *copies) put(ctx context.Context, s *snapshot, d *helm.Deployment, list []helm.Copy) error {
	if len(list) == 0 {
		return nil
	}
	err := c.helm.PutCopies(ctx, *d, list)
	if reconcile.ReasonOf(err) == release.ReasonNotOwned {
		return &setback{err, refusedDelay}
	}
	if err == nil && d.Options.Helm != nil {
		h := *d.Options.Helm
		h.ValuesFrom = fromCopies(h.ValuesFrom, s.spec.Options.DownstreamResources, d.ID.Namespace)
		d.Options.Helm = &h
	}
	return err
}

// fromCopies is where values come from, with the namespace of those that are
// copies.
func fromCopies(list []fleet.ValuesFrom, copies []fleet.DownstreamResource, namespace string) []fleet.ValuesFrom {
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

// renew reports whether a release that is as it should be has to be upgraded because of
// its copies, with the action that does it. A permanent failure is forgotten: the
// copies may have been the reason.
func renew(s *snapshot, a release.Action) (release.Action, bool) {
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

// tidy removes copies that the deployment, which runs now, does not name
// any more.
func (c *copies) tidy(ctx context.Context, s *snapshot) error {
	if s.rec.Copies == "" || s.rec.Copies == s.spec.DeploymentID {
		return nil
	}
	keep := map[helm.CopyRef]bool{}
	addRefs(keep, s.name, s.spec.Options)
	if err := c.drop(ctx, s, keep); err != nil {
		return err
	}
	if s.rec.Copies = ""; len(keep) > 0 {
		s.rec.Copies = s.spec.DeploymentID
	}
	return nil
}

// withdraw removes the copies of a deployment that is withdrawn, unless its
// resources are to stay.
func (c *copies) withdraw(ctx context.Context, s *snapshot) error {
	if s.rec.Copies == "" && len(s.spec.Options.DownstreamResources) == 0 || s.spec.Options.KeepResources {
		return nil
	}
	err := c.drop(ctx, s, nil)
	if s.wanted.Abandon {
		return nil
	}
	return err
}

func (c *copies) drop(ctx context.Context, s *snapshot, keep map[helm.CopyRef]bool) error {
	others := c.others(s.name)
	return c.helm.DropCopies(ctx, s.name, s.spec.Options.ServiceAccount,
		func(ref helm.CopyRef) bool { return keep[ref] }, func(ref helm.CopyRef) string { return others[ref] })
}

func addRefs(to map[helm.CopyRef]bool, name string, o fleet.BundleDeploymentOptions) {
	for _, dr := range o.DownstreamResources {
		to[helm.CopyRef{Kind: strings.ToLower(dr.Kind), Namespace: helm.IDOf(name, o).Namespace, Name: dr.Name}] = true
	}
}

// others are the copies that other deployments name, and who.
func (c *copies) others(but string) map[helm.CopyRef]string {
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
