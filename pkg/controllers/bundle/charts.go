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

// chartsPulled reports whether the content that a Bundle names was made from the charts
// that the Bundle names now.
func chartsPulled(b *fleet.Bundle) bool {
	return b.Annotations[fleet.AnnotationContent] != "" &&
		b.Annotations[fleet.AnnotationPulled] == chart.KeyOf(deployment.Charts(&b.Spec))
}

// chartsPending returns the error of a Bundle whose charts the manager has not pulled
// yet: a wait, with the error of the last pull, if there is one.
func chartsPending(b *fleet.Bundle) error {
	charts := deployment.Charts(&b.Spec)
	if len(charts) == 0 {
		return reconcile.TerminalError(deployment.ReasonNoChart, errors.New("helmOpOptions is set, and neither helm.repo nor helm.chart says which chart"))
	}
	if why, ok := strings.CutPrefix(b.Annotations[fleet.AnnotationPullFailed], chart.KeyOf(charts)+" "); ok {
		return reconcile.RequeueError(reasonChartPending, 0, fmt.Errorf("the manager cannot pull the chart (pull: manager): %s", why))
	}
	return reconcile.RequeueError(reasonChartPending, 0, errors.New("waits for the chart, which the manager pulls (pull: manager)"))
}

// pullResult returns the annotations with the results of pulling charts as one text.
func pullResult(b *fleet.Bundle) string {
	return b.Annotations[fleet.AnnotationPulled] + " " + b.Annotations[fleet.AnnotationPullFailed]
}

// requestCharts asks the gitjob process, by an annotation on the Bundle, to pull the
// charts of a Bundle with "pull: manager". For all other Bundles it removes the
// request.
func (bc *bundleController) requestCharts(ctx context.Context, b *fleet.Bundle) error {
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
	got, err := bc.bundles.Patch(ctx, b, changed)
	if err != nil {
		return fmt.Errorf("ask for the chart: %w", err)
	}
	bc.observe(got)
	return nil
}
