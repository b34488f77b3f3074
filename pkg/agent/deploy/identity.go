package deploy

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A Reader reads live objects with the rights of some account. An object or a kind that
// is not there is as for Live; a right that is missing is reconcile.Terminal, because
// the reader can only report it.
type Reader interface {
	Get(ctx context.Context, gvk schema.GroupVersionKind, key kube.Key) (*unstructured.Unstructured, error)
}

// ReaderOf returns a Reader with the rights of deployments with this service account:
// users who can read a bundle see the objects that it names, so its account must be
// able to read them. An account that does not exist is reconcile.Terminal, too.
func ReaderOf(ctx context.Context, h *helm.Client, live *kube.Live, serviceAccount string) (Reader, error) {
	user, err := h.User(ctx, serviceAccount)
	if reconcile.IsRequeue(err) {
		return nil, reconcile.TerminalError(reconcile.ReasonOf(err), err)
	}
	if err != nil {
		return nil, err
	}
	as, err := live.As(user)
	if err != nil {
		return nil, err
	}
	return limitedReader{as}, nil
}

// limitedReader reads with rights that may be missing.
type limitedReader struct{ *kube.Reader }

func (r limitedReader) Get(ctx context.Context, gvk schema.GroupVersionKind, key kube.Key) (*unstructured.Unstructured, error) {
	obj, err := r.Reader.Get(ctx, gvk, key)
	if kube.IsForbidden(err) {
		return nil, reconcile.TerminalError(release.ReasonForbidden, fmt.Errorf("%s", helm.Words(err)))
	}
	return obj, err
}

// reader reads the live objects of a deployment, with the rights of its account.
func (r *Reconciler) reader(ctx context.Context, s *snapshot) (Reader, error) {
	if r.cfg.Reader == nil {
		return r.cfg.Live, nil
	}
	return r.cfg.Reader(ctx, s.spec.Options.ServiceAccount)
}

// withAccount notes the service account that a release was made with.
func withAccount(m map[string]string, id release.ID, account string) map[string]string {
	out := maps.Clone(m)
	if out == nil {
		out = map[string]string{}
	}
	out[id.String()] = account
	return out
}

// rights are what the release of a deployment is removed with: those of the
// deployment as it was accepted, which made it.
func (s *snapshot) rights() helm.Rights {
	if s.known {
		return helm.RightsOf(s.rec.Spec.Options)
	}
	return helm.RightsOf(s.spec.Options)
}
