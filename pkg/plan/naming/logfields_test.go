package naming

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestLogFields(t *testing.T) {
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "app"}}
	want := map[string]any{"workspace": "ws", "gitrepo": "app"}
	if diff := cmp.Diff(want, LogFields("gitrepo", repo)); diff != "" {
		t.Errorf("without a user:\n%s", diff)
	}
	repo.Labels = map[string]string{"fleet.cattle.io/created-by-user-id": "u-4711"}
	want["userID"] = "u-4711"
	if diff := cmp.Diff(want, LogFields("gitrepo", repo)); diff != "" {
		t.Errorf("with a user:\n%s", diff)
	}
}
