package rights_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// smuggle sends a patch of the status of the Cluster, with more in it than the
// status, in all the ways in which the API server takes patches.
func (m *member) smuggle(token, merge string) map[string]error {
	m.Helper()
	clusters := kube.StoreOf[*fleet.Cluster](m.w.as(token))
	send := func(kind types.PatchType, body string) error {
		_, err := clusters.PatchRaw(m.Context(), m.key(), kind, []byte(body), "status")
		return err
	}
	whole := fmt.Sprintf(`{"apiVersion":"fleet.cattle.io/v1alpha1","kind":"Cluster",%s`, strings.TrimPrefix(merge, "{"))
	return map[string]error{
		"merge": send(types.MergePatchType, merge),
		"json": send(types.JSONPatchType, `[{"op":"add","path":"/metadata/labels","value":{"env":"prod"}},`+
			`{"op":"replace","path":"/spec/clientID","value":"other"},{"op":"add","path":"/status/agent/version","value":"v9"}]`),
		"apply": send(types.ApplyPatchType, whole),
	}
}

// patches tries what an agent could smuggle in with its status: labels decide which
// bundles a cluster gets, annotations where they are written.
func patches(w *world, t testing.TB, b registration.Bootstrapping) {
	m := w.join(t, "patch", b)
	m.Stop()
	token, _ := m.kept()
	before := m.cluster()
	body := `{"metadata":{"labels":{"env":"prod","fleet.cattle.io/x":"y"},"annotations":{"fleet.cattle.io/deployment-namespace":"kube-system","fleet.cattle.io/rotate-credential":"x"},` +
		`"finalizers":[],"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]},"spec":{"clientID":"other","paused":true},"status":{"agent":{"version":"v9"}}}`
	for name, done := range m.smuggle(token, body) {
		m.Must(done)
		after := m.cluster()
		if after.Status.Agent.Version != "v9" {
			t.Errorf("%s: the patch did nothing at all", name)
		}
		after.Status, after.ResourceVersion, after.ManagedFields = before.Status, before.ResourceVersion, before.ManagedFields
		if got, want := fmt.Sprintf("%+v", after), fmt.Sprintf("%+v", before); got != want {
			t.Errorf("%s changed more than the status\nwas %s\nis  %s", name, want, got)
		}
	}
}
