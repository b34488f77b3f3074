package local

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// secretsOf answers with Secrets, by their paths, and notes what is made.
type secretsOf struct {
	have map[string]*corev1.Secret
	made []string
}

func (s *secretsOf) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	one, ok := s.have[r.URL.Path]
	switch {
	case r.Method == http.MethodPost:
		s.made = append(s.made, r.URL.Path)
		one = &corev1.Secret{}
		_ = json.NewDecoder(r.Body).Decode(one)
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
		})
		return
	}
	one.TypeMeta = metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}
	_ = json.NewEncoder(w).Encode(one)
}

// The local agent that has just registered has its credential, and has removed what it
// registered with: the manager, whose caches may know of the second alone, does not let
// it register again.
func TestRegisteredAgentStaysSo(t *testing.T) {
	credential := func(data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "agent", Name: fleet.SecretAgent}, Data: data}
	}
	for name, c := range map[string]struct {
		why  string
		has  *corev1.Secret
		made int
	}{
		"None":       {"it has to register", nil, 1},
		"Word":       {"it has begun to", credential(map[string][]byte{"clientRandom": []byte("w")}), 1},
		"Credential": {"it has registered", credential(map[string][]byte{registration.KeyKubeconfig: []byte("k")}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			api := &secretsOf{have: map[string]*corev1.Secret{"/api/v1/namespaces/local/secrets/token": {
				ObjectMeta: metav1.ObjectMeta{Namespace: "local", Name: "token"}, Data: map[string][]byte{fleet.KeyValues: []byte("token: t\n")},
			}}}
			if c.has != nil {
				api.have["/api/v1/namespaces/agent/secrets/"+fleet.SecretAgent] = c.has
			}
			server := httptest.NewServer(api)
			defer server.Close()
			client, err := kube.Connect(kube.Config{REST: &rest.Config{Host: server.URL}})
			if err != nil {
				t.Fatal(err)
			}
			l := &Loop{stores: stores{secrets: kube.StoreOf[*corev1.Secret](client)}}
			l.cfg.Settings.Bootstrap.AgentNamespace = "agent"
			said := 0
			token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "local", Name: "token"}}
			if err := l.writeBootstrap(t.Context(), token, registration.Endpoint{}, func() { said++ }); err != nil {
				t.Fatal(err)
			}
			if len(api.made) != c.made || said != c.made {
				t.Errorf("%s: made %v, said %d times", c.why, api.made, said)
			}
		})
	}
}
