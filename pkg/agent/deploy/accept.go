package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Delays of things that the manager is expected to write soon.
const (
	contentDelay = 2 * time.Second
	valuesDelay  = 2 * time.Second
	managerDelay = 10 * time.Second
)

// Reasons of waiting for the manager.
const (
	reasonNoContent   = "ContentMissing"
	reasonValues      = "ValuesPending"
	reasonManagerAway = "ManagerAway"
)

// accept makes sure that all that is needed to deploy is there, verified and kept,
// before the first step of it is taken. A deployment that depends on others waits for
// them when its own payload is complete.
func (l *releases) accept(ctx context.Context, s *snapshot) (helm.Deployment, error) {
	d := l.deployment(s)
	p, err := l.payloads.get(ctx, s)
	if err != nil {
		return d, err
	}
	if d.Content, err = content.Unpack(p.id, p.content); err != nil {
		return d, reconcile.TerminalError(release.ReasonBadContent, fmt.Errorf("unpack the bundle: %w", err))
	}
	if d.Options, err = options.WithValues(s.spec.Options, p.values); err != nil {
		return d, reconcile.TerminalError(release.ReasonBadValues, err)
	}
	if err := l.dependencies.wait(s); err != nil {
		return d, err
	}
	return d, l.copies.put(ctx, s, &d, p.copies)
}

// payloads get what deployments are made of, from the store or from where the manager
// says that it is.
type payloads struct {
	records  records
	registry Registry
	charts   Charts
}

// get returns what a deployment is made of: from the store if it was accepted
// before, else from the manager.
func (l *payloads) get(ctx context.Context, s *snapshot) (versionPayload, error) {
	if p, ok := l.kept(ctx, s); ok {
		return p, nil
	}
	if s.session == nil || s.bd == nil {
		return versionPayload{}, reconcile.RequeueError(reasonManagerAway, 0, errors.New("the manager is away"))
	}
	p, err := l.fetch(ctx, s)
	if err != nil {
		return p, err
	}
	payload, err := p.pack(s.contentID())
	if err != nil {
		return p, err
	}
	old := s.rec.Key
	s.updateRecord()
	s.rec.Failed = nil
	if len(p.copies) > 0 {
		s.rec.Copies = copiesOpen
	}
	if err := l.records.Accept(ctx, s.rec, payload); err != nil {
		return p, err
	}
	s.rec, s.known = l.records.of(s.name, s.mark)
	return p, l.records.dropOld(ctx, s, old)
}

// kept returns what was accepted, if the BundleDeployment still asks for exactly that.
func (l *payloads) kept(ctx context.Context, s *snapshot) (versionPayload, bool) {
	had := s.rec.Spec
	if !s.known || had.DeploymentID != s.spec.DeploymentID || had.ValuesHash != s.spec.ValuesHash ||
		had.DownstreamResourcesGeneration != s.spec.DownstreamResourcesGeneration {
		return versionPayload{}, false
	}
	payload, there, err := l.records.Payload(ctx, s.rec.Key)
	if err != nil || !there {
		return versionPayload{}, false
	}
	p, err := unpack(s.contentID(), payload)
	return p, err == nil
}

// contentID returns the id of the desired files; empty for a chart that has no id.
func (s *snapshot) contentID() string {
	id, _, _ := strings.Cut(s.spec.DeploymentID, ":")
	return id
}

// fetch gets content, values and copies, and verifies them.
func (l *payloads) fetch(ctx context.Context, s *snapshot) (versionPayload, error) {
	p, err := l.files(ctx, s)
	if err != nil {
		return p, err
	}
	if p.copies, err = readCopies(ctx, s); err != nil {
		return p, err
	}
	p.values, err = values(ctx, s)
	return p, err
}

// files gets the content, from wherever it is.
func (l *payloads) files(ctx context.Context, s *snapshot) (p versionPayload, err error) {
	p.id = s.contentID()
	switch {
	case p.id == "" && s.spec.HelmChartOptions != nil:
		return l.chart(ctx, s)
	case s.spec.OCIContents:
		p.content, err = l.pull(ctx, s, p.id)
	default:
		p.content, err = download(ctx, s.session, p.id)
	}
	if err == nil {
		err = content.Check(p.id, p.content)
	}
	if reconcile.ReasonOf(err) == content.ReasonDamaged {
		err = reconcile.RequeueError(content.ReasonDamaged, managerDelay, fmt.Errorf("content %s: %w", short(p.id), err))
	}
	return p, err
}

// values reads the Helm values that belong to the deployment.
func values(ctx context.Context, s *snapshot) ([]byte, error) {
	if s.spec.ValuesHash == "" {
		return nil, nil
	}
	secret, err := s.session.Secrets.Get(ctx, kube.KeyOf(s.bd))
	switch {
	case kube.IsGone(err):
		return nil, reconcile.RequeueError(reasonValues, valuesDelay, errors.New("the Secret with the values is not there yet"))
	case err != nil:
		return nil, away(fmt.Errorf("read the Secret with the values: %w", err))
	}
	values, staged := secret.Data[fleet.KeyValues], secret.Data[fleet.KeyStagedValues]
	if options.DeploymentValuesHash(values, staged) != s.spec.ValuesHash {
		return nil, reconcile.RequeueError(reasonValues, valuesDelay, errors.New("the Secret holds the values of another version"))
	}
	return values, nil
}

// away makes a wait of an error by which the manager could not be asked.
func away(err error) error {
	if kube.IsAway(err) {
		return reconcile.RequeueError(reasonManagerAway, managerDelay, err)
	}
	return err
}

func short(id string) string {
	if len(id) > 10 {
		return id[:10]
	}
	return id
}

// uid is that of the BundleDeployment.
func (s *snapshot) uid() types.UID {
	if s.bd != nil {
		return s.bd.UID
	}
	return s.rec.UID
}
