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

// accept gets everything that a deployment needs, verifies it and stores it before the
// first step. If the deployment depends on others, it then waits for them.
func (r *releases) accept(ctx context.Context, s *snapshot) (helm.Deployment, error) {
	d := r.helmDeployment(s)
	p, err := r.payloads.get(ctx, s)
	if err != nil {
		return d, err
	}
	if d.Content, err = content.Unpack(p.id, p.content); err != nil {
		return d, reconcile.TerminalError(release.ReasonBadContent, fmt.Errorf("unpack the bundle: %w", err))
	}
	if d.Options, err = options.WithValues(s.spec.Options, p.values); err != nil {
		return d, reconcile.TerminalError(release.ReasonBadValues, err)
	}
	if err := r.dependencies.waitForDependencies(s); err != nil {
		return d, err
	}
	return d, r.copies.copyToRelease(ctx, s, &d, p.copies)
}

// payloads get what deployments are made of, from the store or from where the manager
// says that it is.
type payloads struct {
	records  records
	registry Registry
	charts   Charts
}

// get returns the payload of a deployment: from the store if it was accepted before,
// else from the manager.
func (pl *payloads) get(ctx context.Context, s *snapshot) (versionPayload, error) {
	if p, ok := pl.accepted(ctx, s); ok {
		return p, nil
	}
	if s.session == nil || s.bd == nil {
		return versionPayload{}, reconcile.RequeueError(reasonManagerAway, 0, errors.New("the manager is away"))
	}
	p, err := pl.fetchVersion(ctx, s)
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
	if err := pl.records.Accept(ctx, s.rec, payload); err != nil {
		return p, err
	}
	s.rec, s.hasRecord = pl.records.recordOf(s.name, s.mark)
	return p, pl.records.dropOld(ctx, s, old)
}

// accepted returns the stored payload, if the BundleDeployment still asks for exactly
// that.
func (pl *payloads) accepted(ctx context.Context, s *snapshot) (versionPayload, bool) {
	had := s.rec.Spec
	if !s.hasRecord || had.DeploymentID != s.spec.DeploymentID || had.ValuesHash != s.spec.ValuesHash ||
		had.DownstreamResourcesGeneration != s.spec.DownstreamResourcesGeneration {
		return versionPayload{}, false
	}
	payload, there, err := pl.records.Payload(ctx, s.rec.Key)
	if err != nil || !there {
		return versionPayload{}, false
	}
	p, err := unpack(s.contentID(), payload)
	return p, err == nil
}

// contentID returns the id of the desired content; empty for a chart without id.
func (s *snapshot) contentID() string {
	id, _, _ := strings.Cut(s.spec.DeploymentID, ":")
	return id
}

// fetchVersion gets content, values and copies of a version from the manager, and
// verifies them.
func (pl *payloads) fetchVersion(ctx context.Context, s *snapshot) (versionPayload, error) {
	p, err := pl.fetchFiles(ctx, s)
	if err != nil {
		return p, err
	}
	if p.copies, err = readCopies(ctx, s); err != nil {
		return p, err
	}
	p.values, err = values(ctx, s)
	return p, err
}

// fetchFiles gets the content from a Content, a registry or the source of a chart.
func (pl *payloads) fetchFiles(ctx context.Context, s *snapshot) (p versionPayload, err error) {
	p.id = s.contentID()
	switch {
	case p.id == "" && s.spec.HelmChartOptions != nil:
		return pl.chart(ctx, s)
	case s.spec.OCIContents:
		p.content, err = pl.pull(ctx, s, p.id)
	default:
		p.content, err = download(ctx, s.session, p.id)
	}
	if err == nil {
		err = content.Check(p.id, p.content)
	}
	if reconcile.ReasonOf(err) == content.ReasonDamaged {
		err = reconcile.RequeueError(content.ReasonDamaged, managerDelay, fmt.Errorf("content %s: %w", shortID(p.id), err))
	}
	return p, err
}

// values reads the Helm values of the deployment from its Secret.
func values(ctx context.Context, s *snapshot) ([]byte, error) {
	if s.spec.ValuesHash == "" {
		return nil, nil
	}
	secret, err := s.session.Secrets.Get(ctx, kube.KeyOf(s.bd))
	switch {
	case kube.IsGone(err):
		return nil, reconcile.RequeueError(reasonValues, valuesDelay, errors.New("the Secret with the values is not there yet"))
	case err != nil:
		return nil, managerUnreachable(fmt.Errorf("read the Secret with the values: %w", err))
	}
	values, staged := secret.Data[fleet.KeyValues], secret.Data[fleet.KeyStagedValues]
	if options.DeploymentValuesHash(values, staged) != s.spec.ValuesHash {
		return nil, reconcile.RequeueError(reasonValues, valuesDelay, errors.New("the Secret holds the values of another version"))
	}
	return values, nil
}

// managerUnreachable turns the error of a request to an unreachable manager into a
// wait.
func managerUnreachable(err error) error {
	if kube.IsAway(err) {
		return reconcile.RequeueError(reasonManagerAway, managerDelay, err)
	}
	return err
}

// shortID returns the beginning of an id, for messages.
func shortID(id string) string {
	if len(id) > 10 {
		return id[:10]
	}
	return id
}

// uid returns the UID of the BundleDeployment; empty if there is none.
func (s *snapshot) uid() types.UID {
	if s.bd != nil {
		return s.bd.UID
	}
	return s.rec.UID
}
