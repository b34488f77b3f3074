package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// Delays of things that the manager is expected to write soon.
const (
	contentDelay    = 2 * time.Second
	valuesDelay     = 2 * time.Second
	managerDelay    = 10 * time.Second
	dependencyDelay = 15 * time.Second
)

// Reasons of waiting for the manager.
const (
	reasonNoContent    = "ContentMissing"
	reasonValues       = "ValuesPending"
	reasonManagerAway  = "ManagerAway"
	reasonDependencies = "DependenciesNotReady"
)

// accept makes sure that all that is needed to deploy is there, verified and
// kept, before the first step of it is taken.
func (r *Reconciler) accept(ctx context.Context, s *snapshot) (helm.Deployment, error) {
	d := s.deployment()
	p, err := r.payload(ctx, s)
	if err != nil {
		return d, err
	}
	if d.Content, err = content.Unpack(s.contentID(), p.Content); err != nil {
		return d, fault.PermanentError(release.ReasonBadContent, fmt.Errorf("unpack the bundle: %w", err))
	}
	if d.Options, err = options.WithValues(s.spec.Options, p.Values); err != nil {
		return d, fault.PermanentError(release.ReasonBadValues, err)
	}
	return d, nil
}

// payload is what the deployment is made of: from the store if it was accepted
// before, else from the manager.
func (r *Reconciler) payload(ctx context.Context, s *snapshot) (store.Payload, error) {
	if s.known && s.rec.Spec.DeploymentID == s.spec.DeploymentID && s.rec.Spec.ValuesHash == s.spec.ValuesHash {
		p, kept, err := r.cfg.Store.Payload(ctx, s.rec.Key)
		if err == nil && kept && content.Check(s.contentID(), p.Content) == nil {
			return p, nil
		}
	}
	if s.session == nil || s.bd == nil {
		return store.Payload{}, fault.WaitError(reasonManagerAway, 0, errors.New("the manager is away"))
	}
	if err := supported(s.spec); err != nil {
		return store.Payload{}, err
	}
	if err := r.dependencies(s); err != nil {
		return store.Payload{}, err
	}
	p, err := r.fetch(ctx, s)
	if err != nil {
		return store.Payload{}, err
	}
	old := s.rec.Key
	s.updateRecord()
	s.rec.Failed = nil
	if err := r.cfg.Store.Accept(ctx, s.rec, p); err != nil {
		return store.Payload{}, err
	}
	s.rec, s.known = r.recordOf(s.name, s.mark)
	return p, r.dropOld(ctx, s, old)
}

// supported refuses what this agent cannot deploy yet.
func supported(spec fleet.BundleDeploymentSpec) error {
	what := ""
	switch {
	case spec.HelmChartOptions != nil:
		what = "charts that the agent downloads (HelmOp)"
	case len(spec.Options.DownstreamResources) > 0:
		what = "downstreamResources"
	case spec.Options.AllowedTargetNamespaceSelector != nil:
		what = "allowedTargetNamespaceSelector"
	default:
		return nil
	}
	return fault.PermanentError(release.ReasonNotImplemented, fmt.Errorf("not implemented yet: %s", what))
}

// contentID is the id of the files that are wanted.
func (s *snapshot) contentID() string {
	id, _, _ := strings.Cut(s.spec.DeploymentID, ":")
	return id
}

// fetch reads content and values from the manager and verifies both.
func (r *Reconciler) fetch(ctx context.Context, s *snapshot) (store.Payload, error) {
	var p store.Payload
	var err error
	id := s.contentID()
	if s.spec.OCIContents {
		p.Content, err = r.pull(ctx, s, id)
	} else {
		p.Content, err = download(ctx, s.session, id)
	}
	if err == nil {
		err = content.Check(id, p.Content)
	}
	if fault.ReasonOf(err) == content.ReasonDamaged {
		err = fault.WaitError(content.ReasonDamaged, managerDelay, fmt.Errorf("content %s: %w", short(id), err))
	}
	if err != nil {
		return p, err
	}
	if s.spec.ValuesHash == "" {
		return p, nil
	}
	secret, err := s.session.Secrets.Get(ctx, kube.KeyOf(s.bd))
	switch {
	case kube.IsGone(err):
		return p, fault.WaitError(reasonValues, valuesDelay, errors.New("the Secret with the values is not there yet"))
	case err != nil:
		return p, away(fmt.Errorf("read the Secret with the values: %w", err))
	}
	values, staged := secret.Data[fleet.KeyValues], secret.Data[fleet.KeyStagedValues]
	if options.DeploymentValuesHash(values, staged) != s.spec.ValuesHash {
		return p, fault.WaitError(reasonValues, valuesDelay, errors.New("the Secret holds the values of another version"))
	}
	p.Values = values
	return p, nil
}

// away makes a wait of an error by which the manager could not be asked.
func away(err error) error {
	if kube.IsAway(err) {
		return fault.WaitError(reasonManagerAway, managerDelay, err)
	}
	return err
}

func short(id string) string {
	if len(id) > 10 {
		return id[:10]
	}
	return id
}

// dependencies waits for the bundles that must be ready first. No match is a
// wait like any other: what is missing may come.
func (r *Reconciler) dependencies(s *snapshot) error {
	for _, ref := range s.spec.DependsOn {
		matches, err := r.matching(s, ref)
		if err != nil {
			return fault.PermanentError("InvalidDependency", err)
		}
		if len(matches) == 0 {
			return fault.WaitError(reasonDependencies, dependencyDelay, fmt.Errorf("depends on %s, which is not on this cluster", dependency(ref)))
		}
		for _, bd := range matches {
			if state := summary.State(bd, ""); !accepts(ref, state) {
				return fault.WaitError(reasonDependencies, dependencyDelay, fmt.Errorf("depends on %s, which is %s", bd.Name, state))
			}
		}
	}
	return nil
}

// matching are the deployments that a dependency names: by the name of a bundle
// in the same namespace, or by labels in any.
func (r *Reconciler) matching(s *snapshot, ref fleet.BundleRef) ([]*fleet.BundleDeployment, error) {
	selector := labels.Everything()
	if ref.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
			return nil, fmt.Errorf("dependsOn: %w", err)
		}
	}
	var out []*fleet.BundleDeployment
	for _, bd := range s.session.Deployments.List("") {
		sameName := ref.Name == "" || bd.Labels[fleet.LabelBundleName] == ref.Name &&
			bd.Labels[fleet.LabelBundleNamespace] == s.labels[fleet.LabelBundleNamespace]
		if sameName && bd.Name != s.name && selector.Matches(labels.Set(bd.Labels)) {
			out = append(out, bd)
		}
	}
	return out, nil
}

func accepts(ref fleet.BundleRef, state fleet.BundleState) bool {
	for _, ok := range ref.AcceptedStates {
		if ok == state {
			return true
		}
	}
	return len(ref.AcceptedStates) == 0 && state == fleet.Ready
}

func dependency(ref fleet.BundleRef) string {
	if ref.Name != "" {
		return "bundle " + ref.Name
	}
	return "bundles with labels " + metav1.FormatLabelSelector(ref.Selector)
}

// uid is that of the BundleDeployment.
func (s *snapshot) uid() types.UID {
	if s.bd != nil {
		return s.bd.UID
	}
	return s.rec.UID
}
