package bundle

import (
	"context"
	"errors"
	"fmt"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Charts of Bundles with "pull: manager" are pulled by the process that reads
// foreign content. It is asked by an annotation on the Bundle, and answers with
// the name of the content that it has made, or with what went wrong.

// reasonChartPending is the reason of a Bundle whose chart is not pulled yet.
const reasonChartPending = deployment.ReasonChartPending

// pulled reports whether the content that a Bundle names is that of its charts as
// they are named now.
func pulled(b *fleet.Bundle) bool {
	return b.Annotations[fleet.AnnotationContent] != "" &&
		b.Annotations[fleet.AnnotationPulled] == chart.KeyOf(deployment.Charts(&b.Spec))
}

// unpulled is a wait for the charts of a Bundle, with what keeps them.
func unpulled(b *fleet.Bundle) error {
	charts := deployment.Charts(&b.Spec)
	if len(charts) == 0 {
		return reconcile.TerminalError(deployment.ReasonNoChart, errors.New("helmOpOptions is set, and neither helm.repo nor helm.chart says which chart"))
	}
	if why, ok := strings.CutPrefix(b.Annotations[fleet.AnnotationPullFailed], chart.KeyOf(charts)+" "); ok {
		return reconcile.RequeueError(reasonChartPending, 0, fmt.Errorf("the manager cannot pull the chart (pull: manager): %s", why))
	}
	return reconcile.RequeueError(reasonChartPending, 0, errors.New("waits for the chart, which the manager pulls (pull: manager)"))
}

// pullOf joins the results of pulling charts.
func pullOf(b *fleet.Bundle) string {
	return b.Annotations[fleet.AnnotationPulled] + " " + b.Annotations[fleet.AnnotationPullFailed]
}

// askForChart asks for the charts of a Bundle that the manager is to pull, and
// takes that back where it is not.
func (e *bundleController) askForChart(ctx context.Context, b *fleet.Bundle) error {
	want := ""
	if deployment.PulledByManager(&b.Spec) {
		if charts := deployment.Charts(&b.Spec); len(charts) > 0 {
			want = chart.KeyOf(charts)
		}
	}
	if b.Annotations[fleet.AnnotationPull] == want {
		return nil
	}
	changed := b.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	delete(changed.Annotations, fleet.AnnotationPullFailed) // it is about another one
	if changed.Annotations[fleet.AnnotationPull] = want; want == "" {
		for _, a := range []string{fleet.AnnotationPull, fleet.AnnotationPulled, fleet.AnnotationContent} {
			delete(changed.Annotations, a)
		}
	}
	got, err := e.bundles.Patch(ctx, b, changed)
	if err != nil {
		return fmt.Errorf("ask for the chart: %w", err)
	}
	e.observe(got)
	return nil
}
