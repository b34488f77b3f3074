package publish

import (
	"context"
	"errors"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Content writes what a Bundle deploys apart from the Bundle, which is about to name
// it, and returns its id. Contents that exist already are marked as in use.
//
// Errors: reconcile.Terminal, TooLarge, for more than can be kept; others may pass.
func (p *Publisher) Content(ctx context.Context, bundle string, m content.Manifest) (id string, err error) {
	b := &fleet.Bundle{}
	b.Name = bundle
	f, err := p.putContents(ctx, gitrepo.Write{New: b, Content: m, In: gitrepo.Apart})
	switch {
	case err != nil:
		return "", err
	case f != nil:
		return "", reconcile.TerminalError("TooLarge", errors.New(f.Message))
	}
	return content.ID(m), nil
}
