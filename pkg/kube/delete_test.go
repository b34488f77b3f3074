package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// A deletion carries what it was decided on: an object that took the place of the one
// that was meant stays.
func TestDeleteCarriesItsPrecondition(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		given  Precondition
		want   *metav1.Preconditions
		answer int
		fails  bool
	}{
		"UID":     {why: "one of the same name may have come in its place", given: Precondition{UID: "u"}, want: &metav1.Preconditions{UID: ptr(types.UID("u"))}, answer: 200},
		"Version": {why: "it may have changed since", given: Precondition{ResourceVersion: "7"}, want: &metav1.Preconditions{ResourceVersion: ptr("7")}, answer: 200},
		"Both": {
			why: "each counts", given: Precondition{UID: "u", ResourceVersion: "7"},
			want: &metav1.Preconditions{UID: ptr(types.UID("u")), ResourceVersion: ptr("7")}, answer: 200,
		},
		"None":     {why: "whatever has that name goes", answer: 200},
		"Gone":     {why: "it is gone already, which was wanted", given: Precondition{UID: "u"}, want: &metav1.Preconditions{UID: ptr(types.UID("u"))}, answer: 404},
		"Replaced": {why: "another object is there, and the caller has to know", given: Precondition{UID: "u"}, want: &metav1.Preconditions{UID: ptr(types.UID("u"))}, answer: 409, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			var sent metav1.DeleteOptions
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodDelete || r.URL.Path != "/api/v1/namespaces/a/configmaps/b" {
					t.Errorf("unexpected %s %s", r.Method, r.URL)
				}
				if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
					t.Error(err)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.answer)
				_ = json.NewEncoder(w).Encode(metav1.Status{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Code: int32(c.answer), Reason: reasons[c.answer],
				})
			}))
			t.Cleanup(server.Close)
			client, err := Connect(Config{REST: &rest.Config{Host: server.URL}, UserAgent: "test", FieldManager: "test"})
			if err != nil {
				t.Fatal(err)
			}
			err = StoreOf[*corev1.ConfigMap](client).Delete(t.Context(), Key{Namespace: "a", Name: "b"}, c.given)
			if (err != nil) != c.fails {
				t.Errorf("%s: %v", c.why, err)
			}
			if diff := cmp.Diff(c.want, sent.Preconditions); diff != "" {
				t.Errorf("%s\n-want +sent\n%s", c.why, diff)
			}
			if sent.PropagationPolicy == nil || *sent.PropagationPolicy != metav1.DeletePropagationBackground {
				t.Errorf("what the object owns has to go after it, got %v", sent.PropagationPolicy)
			}
		})
	}
}

var reasons = map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict}

func ptr[T any](v T) *T { return &v }
