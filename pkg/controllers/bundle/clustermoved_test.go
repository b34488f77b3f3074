package bundle

import (
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// What was withdrawn after a move is reported though another client has changed the Cluster
// at the same time.
func TestMovedReportsAfterConflict(t *testing.T) {
	s := kubetest.New(t)
	clusters := kube.StoreOf[*fleet.Cluster](s.Connect("test"))
	old, err := clusters.Create(t.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "c", Annotations: map[string]string{workspace.AnnotationWithdrawIn: "other/c"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Conflict(1, kubetest.Match{Verb: "patch", Resource: "clusters"})
	log, hook := logtest.NewNullLogger()
	e := &moveController{clusters: clusters, base: &base{log: logrus.NewEntry(log), table: fleetstate.New("", time.Minute, time.Now)}}
	if err := e.movedAway(t.Context(), old, kube.Key{Namespace: "other", Name: "c"}, departed{names: []string{"app"}}); err != nil {
		t.Fatal(err)
	}
	if last := hook.LastEntry(); last == nil || !strings.Contains(last.Data["reason"].(string), "withdraws it: app") {
		t.Errorf("got %v", last)
	}
	if live, err := clusters.Get(t.Context(), kube.KeyOf(old)); err != nil || live.Annotations[workspace.AnnotationWithdrawnIn] != "other/c" {
		t.Errorf("got %v, %v", live, err)
	}
}
