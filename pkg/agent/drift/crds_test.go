package drift

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// crdReader is a cluster with some CRDs; an error stands for one that cannot be
// read.
type crdReader map[string]error

func (r crdReader) Get(_ context.Context, gvk schema.GroupVersionKind, key kube.Key) (*unstructured.Unstructured, error) {
	err, there := r[key.Name]
	if !there || gvk != crdKind || key.Namespace != "" {
		return nil, kube.ErrGone
	}
	o := &unstructured.Unstructured{}
	o.SetCreationTimestamp(metav1.NewTime(time.Unix(7, 0)))
	return o, err
}

// The CRDs of crds folders are among the resources of a deployment as far as they
// are there; what becomes of them is no drift.
func TestCRDsOf(t *testing.T) {
	live := crdReader{"a.x": nil, "secret.x": reconcile.TerminalError(release.ReasonForbidden, errors.New("no")), "templated.x": nil}
	manifest := map[ref]*seen{{kind: crdKind, key: kube.Key{Name: "templated.x"}}: {}}
	got, err := crdsOf(t.Context(), live, []string{"a.x", "gone.x", "secret.x", "templated.x"}, manifest)
	want := []report.Object{
		{Kind: "CustomResourceDefinition", APIVersion: "apiextensions.k8s.io/v1", Name: "a.x", CreatedAt: metav1.NewTime(time.Unix(7, 0).UTC())},
		{Kind: "CustomResourceDefinition", APIVersion: "apiextensions.k8s.io/v1", Name: "secret.x"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("-want +got\n%s%v", diff, err)
	}
	if _, err := crdsOf(t.Context(), crdReader{"a.x": errors.New("connection refused")}, []string{"a.x"}, nil); err == nil {
		t.Error("an API server that is away says nothing of its CRDs")
	}
	v := view{crds: want, objects: map[ref]*seen{}}
	if diff := cmp.Diff(want, v.list()); diff != "" || len(modified(v.list())) > 0 {
		t.Errorf("-want +got\n%s", diff)
	}
}
