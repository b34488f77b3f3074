package integrationtests

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// flaky is a link that loses some requests before they arrive.
type flaky struct {
	http.RoundTripper
	lose func(*http.Request) bool
}

func (f flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.lose(r) {
		return nil, errors.New("the line is dead")
	}
	return f.RoundTripper.RoundTrip(r)
}

// What a bundle does not have any more goes, also where the request that removes
// it gets lost: Helm goes on then as if nothing had been.
func helmLostRemoval(t *testing.T, w helmWorld) {
	for name, method := range map[string]string{"lost-delete": http.MethodDelete, "lost-read": http.MethodGet} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			must(t, w.Install(ctx, bundle(name, "id1", "a.yaml", cm("a", "one"), "b.yaml", cm("b", "one"))))
			var dead atomic.Bool
			cfg := rest.CopyConfig(w.rest)
			cfg.Wrap(func(rt http.RoundTripper) http.RoundTripper {
				seen := 0
				return flaky{RoundTripper: rt, lose: func(r *http.Request) bool {
					if r.Method != method || !strings.HasSuffix(r.URL.Path, "/configmaps/b") {
						return false
					}
					seen++
					return dead.Load() && (method == http.MethodDelete || seen > 1) // the first look is ours
				}}
			})
			far, err := helm.Connect(helm.Config{REST: cfg, AgentNamespace: "fleet"})
			must(t, err)

			dead.Store(true)
			after := bundle(name, "id2", "a.yaml", cm("a", "two"))
			if err := far.Upgrade(ctx, after); err == nil || !strings.Contains(err.Error(), "remove ConfigMap "+name+"/b") {
				t.Errorf("want that b could not be removed, got %v", err)
			}
			o := w.observe(t, release.ID{Namespace: name, Name: name})
			if o.GoodID == "id2" || w.data(t, name, "b") != "one" {
				t.Errorf("want no good revision while b is there, got %+v", o)
			}

			dead.Store(false)
			must(t, far.Upgrade(ctx, after))
			if o := w.observe(t, release.ID{Namespace: name, Name: name}); o.GoodID != "id2" || w.data(t, name, "b") != "" {
				t.Errorf("want b removed, got %+v", o)
			}
		})
	}
}
