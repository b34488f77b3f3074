package deploy

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// A deployment that waits for the objects of another one is tried again when a try of that
// one ends, however it ends: the other one may only have reserved the objects.
func TestEndOfATryEnqueuesWaiting(t *testing.T) {
	y := release.ID{Namespace: "shop", Name: "y"}
	object := helm.SharedObject{Owner: y, Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "shop", Name: "a"}
	for name, err := range map[string]error{
		"Deployed": nil,
		"Refused":  reconcile.RequeueError(release.ReasonSharedObject, time.Second, errors.New("belongs to x")),
		"Failed":   errors.New("the API server is away"),
	} {
		t.Run(name, func(t *testing.T) {
			var enqueued []string
			sh := newSharing(time.Now, func(name string) { enqueued = append(enqueued, name) })
			sh.awaitedObjects("z").objects = []helm.SharedObject{object}
			sh.awaitedObjects("other").objects = []helm.SharedObject{{Owner: release.ID{Namespace: "shop", Name: "x"}}}
			s := &snapshot{name: "y", hasRecord: true, conflicts: &conflicts{}}
			s.rec.Release = y
			sh.setAwaited(s, err)
			slices.Sort(enqueued)
			if diff := cmp.Diff([]string{"z"}, enqueued); diff != "" {
				t.Errorf("enqueued: -want +got\n%s", diff)
			}
		})
	}
}
