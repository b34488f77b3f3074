package register

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A credential that is broken is distinguished from one that was never there: only the
// first is reported as broken.
func TestRead(t *testing.T) {
	kubeconfig, err := kubeconfigOf(registration.Bootstrapping{APIServerURL: "https://manager"}, "agent-token")
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string][]byte{
		keyKubeconfig: kubeconfig, keyDeploymentNamespace: []byte("deployments"), keyClusterNamespace: []byte("workspace"), keyClusterName: []byte("c"),
	}
	without := func(keys ...string) map[string][]byte {
		out := map[string][]byte{"clientRandom": []byte("word")}
		for k, v := range whole {
			out[k] = v
		}
		for _, k := range keys {
			delete(out, k)
		}
		return out
	}
	damaged := without()
	damaged[keyKubeconfig] = []byte("{")
	for name, c := range map[string]struct {
		data map[string][]byte // nil: there is no Secret
		want error
	}{
		"Whole":                 {whole, nil},
		"NoSecret":              {nil, ErrNotRegistered},
		"WordOnly":              {without(keyKubeconfig, keyClusterName), ErrNotRegistered},
		"NoKubeconfig":          {without(keyKubeconfig), ErrBroken},
		"NoClusterName":         {without(keyClusterName), ErrBroken},
		"NoWorkspace":           {without(keyClusterNamespace), ErrBroken},
		"NoDeploymentNamespace": {without(keyDeploymentNamespace), ErrBroken},
		"DamagedKubeconfig":     {damaged, ErrBroken},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.New(t)
			makeNamespaces(s)
			cfg := configFor(s.Connect("agent"), "agent/v0")
			if c.data != nil {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: fleet.SecretAgent}, Data: c.data}
				if _, err := kube.StoreOf[*corev1.Secret](cfg.Down).Create(t.Context(), secret); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Read(t.Context(), cfg)
			if !errors.Is(err, c.want) {
				t.Errorf("want %v, got %v", c.want, err)
			}
			if err == nil && (got.URL() != "https://manager" || got.Origin.URL != "https://manager") {
				t.Errorf("an older agent noted no URL: that of the kubeconfig counts, got %+v", got)
			}
		})
	}
	s := kubetest.New(t)
	s.Broken(1, kubetest.Match{Verb: "get", Resource: "secrets"})
	if _, err := Read(t.Context(), configFor(s.Connect("agent"), "agent/v0")); err == nil || errors.Is(err, ErrNotRegistered) || errors.Is(err, ErrBroken) {
		t.Errorf("an own cluster that does not answer says nothing about the credential: %v", err)
	}
	if (Credential{}).URL() != "" {
		t.Error("no credential has no URL")
	}
}
