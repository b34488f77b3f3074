package deploy

import (
	"context"
	"errors"
	"fmt"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Charts is what the loop needs to get charts that no bundle holds; *pull.Puller
// has it.
type Charts interface {
	Chart(ctx context.Context, r chart.Request, c chart.Credentials) (content.Manifest, error)
}

// Reasons of a chart that is not there.
const (
	reasonChartUnreachable = "ChartUnreachable"
	reasonNoChartSecret    = "CredentialsMissing"
)

// chartDelay is the longest time between two attempts to get a chart: a registry that
// is back should not wait for long, and no watch reports its return.
const chartDelay = time.Minute

// A reportedRetry is an error that the status reports as a failure and that is tried
// again: a user has to act, and no watch shows the agent when that has happened.
type reportedRetry struct {
	error
	within time.Duration // after which it is tried again at the latest; 0: not without a change
}

func (r *reportedRetry) Unwrap() error { return r.error }

// chart gets the files of a deployment that names a chart. No error of the chart's
// source is permanent: a user may repair the source, or the Secret.
func (pl *payloads) chart(ctx context.Context, s *snapshot) (versionPayload, error) {
	request := chart.RequestOf(s.spec.Options.Helm)
	c, err := s.chartCredentials(ctx)
	if err != nil {
		return versionPayload{}, err
	}
	m, err := pl.charts.Chart(ctx, request, c)
	switch {
	case err == nil:
		raw := content.Encode(m)
		return versionPayload{id: content.IDOf(content.Digest(raw)), content: content.Compress(raw)}, nil
	case ctx.Err() != nil:
		return versionPayload{}, err
	}
	reason, hint := reconcile.ReasonOf(err), ""
	var wait *reconcile.RequeueAfter
	if errors.As(err, &wait) {
		reason, hint = reasonChartUnreachable, `; if the manager reaches it, "pull: manager" helps`
	}
	err = fmt.Errorf("this cluster cannot pull chart %q: %w%s", chartName(request), err, hint)
	return versionPayload{}, &reportedRetry{reconcile.RequeueError(reason, chartDelay, err), chartDelay}
}

func chartName(r chart.Request) string {
	if r.Chart != "" {
		return chart.Redact(r.Chart)
	}
	return chart.Redact(r.Repo)
}

// chartCredentials returns the credentials in the Secret that the manager has copied
// beside the deployment, and those in its options.
func (s *snapshot) chartCredentials(ctx context.Context) (chart.Credentials, error) {
	o := *s.spec.HelmChartOptions
	var data map[string][]byte
	if o.SecretName != "" {
		secret, err := s.session.Secrets.Get(ctx, kube.Key{Namespace: s.session.Namespace, Name: o.SecretName})
		switch {
		case kube.IsGone(err):
			return chart.Credentials{}, reconcile.RequeueError(reasonNoChartSecret, valuesDelay, fmt.Errorf(
				"the manager has not copied Secret %q yet, which holds the credentials for the chart", o.SecretName))
		case err != nil:
			return chart.Credentials{}, managerUnreachable(fmt.Errorf("read the Secret with the credentials for the chart: %w", err))
		case isOwnSecret(secret.Type) && secret.Type != fleet.SecretTypeHelmOpsAccess:
			return chart.Credentials{}, &reportedRetry{reconcile.RequeueError(chart.ReasonInvalidCredentials, chartDelay, fmt.Errorf(
				"read the credentials for the chart: Secret %q holds something else (type %q)", o.SecretName, secret.Type)), chartDelay}
		}
		data = secret.Data
	}
	c, err := chart.HelmOpCredentials(data, o)
	if err != nil {
		return c, &reportedRetry{reconcile.RequeueError(reconcile.ReasonOf(err), chartDelay, fmt.Errorf("credentials for the chart, Secret %q: %w", o.SecretName, err)), chartDelay}
	}
	return c, nil
}
