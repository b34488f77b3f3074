package bundlesource

import (
	"context"
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// Pull gets charts by themselves, without a tree that names them, and returns their
// files as those of one bundle, each chart in its Request's Dir.
//
// Errors: those of a Fetched, reconcile.Terminal or reconcile.RequeueAfter;
// reconcile.Terminal, InvalidChart, for what is no chart; that of ctx.
func (r *Reader) Pull(ctx context.Context, requests []chart.Request, access chart.Access) (content.Manifest, error) {
	s := r.newSession(ctx, access)
	defer s.close()
	who := &tenant{credentials: access.Default}
	var errands []download
	for _, one := range requests {
		errands = append(errands, download{request: one, tenant: who})
	}
	var m content.Manifest
	if err := s.fetchAll(ctx, errands); err != nil {
		return m, err
	}
	for _, e := range errands {
		got, closing := s.open(ctx, e, 0)
		if got.Err != nil {
			closing()
			return content.Manifest{}, got.Err
		}
		list, err := chart.Resources(e.request.Dir(), got.Files)
		closing()
		if err != nil {
			return content.Manifest{}, fmt.Errorf("read %q: %w", e.sourceName(), err)
		}
		m.Resources = append(m.Resources, list...)
	}
	return m, nil
}
