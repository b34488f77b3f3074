package gitrepo

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource/publish"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A GitRepo that was deleted may have been made again under its name before the cache
// shows it: then the Bundles of that name are the new one's.
func TestRemoveSparesTheSuccessor(t *testing.T) {
	for name, c := range map[string]struct {
		live    types.UID // of the GitRepo on the API server; empty: there is none
		removes bool
	}{
		"Deleted":   {live: "old", removes: true},
		"MadeAgain": {live: "new"},
		"Gone":      {},
	} {
		t.Run(name, func(t *testing.T) {
			removed := false
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				const prefix = "/apis/fleet.cattle.io/v1alpha1/namespaces/ns/"
				var answer any
				code := http.StatusOK
				switch r.Method + " " + r.URL.Path {
				case "GET " + prefix + "bundles":
					answer = fleet.BundleList{Items: []fleet.Bundle{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "b"}}}}
				case "GET " + prefix + "gitrepos/r":
					answer = fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: c.live}}
					if c.live == "" {
						code, answer = http.StatusNotFound, metav1.Status{Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
					}
				case "DELETE " + prefix + "bundles/b":
					removed, answer = true, metav1.Status{Status: metav1.StatusSuccess}
				default:
					t.Errorf("unexpected %s %s", r.Method, r.URL)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(code)
				_ = json.NewEncoder(w).Encode(answer)
			}))
			t.Cleanup(server.Close)
			client, err := kube.Connect(kube.Config{REST: &rest.Config{Host: server.URL}, UserAgent: "test", FieldManager: "test"})
			if err != nil {
				t.Fatal(err)
			}
			log := logrus.New()
			log.SetOutput(io.Discard)
			w := &Worker{
				log: logrus.NewEntry(log), repos: kube.StoreOf[*fleet.GitRepo](client), bundles: kube.StoreOf[*fleet.Bundle](client),
				publisher: publish.New(publish.Config{Client: client}),
			}
			old := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "r", UID: "old", Finalizers: []string{fleet.FinalizerGitRepo}}}
			if _, err := w.remove(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			if removed != c.removes {
				t.Errorf("the Bundle was removed: %v, want %v", removed, c.removes)
			}
		})
	}
}
