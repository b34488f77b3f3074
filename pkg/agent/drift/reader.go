package drift

import (
	"context"
	"fmt"

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

// ReaderOf returns a Reader with the rights of a service account. Users who can read a
// bundle see the state of the objects that it names, so its account must be able to
// read them. A missing account is a reconcile.Terminal error.
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
		return nil, reconcile.TerminalError(release.ReasonForbidden, fmt.Errorf("%s", helm.ErrorText(err)))
	}
	return obj, err
}

// reader returns a Reader with the rights of the deployment's account.
func (m *Monitor) reader(ctx context.Context, rel Release) (Reader, error) {
	if m.cfg.Reader == nil {
		return m.cfg.Live, nil
	}
	return m.cfg.Reader(ctx, rel.Spec.Options.ServiceAccount)
}
