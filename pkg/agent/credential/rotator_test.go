package credential

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// endedToken is a token of an account that has ended long ago.
func endedToken() string {
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"iat":1000,"exp":2000}`))
	return "header." + claims + ".signature"
}

// ended is a Keeper whose credential has ended, and may be renewed. The server is the
// manager and the agent's own cluster in one.
func ended(t *testing.T, s *kubetest.Server) *Rotator {
	t.Helper()
	client, token := s.Connect("test"), endedToken()
	for _, name := range []string{"agent", plan.RenewalAccount("agent")} {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if _, err := kube.StoreOf[*corev1.ServiceAccount](client).Create(t.Context(), account); err != nil {
			t.Fatal(err)
		}
	}
	file := clientcmdapi.NewConfig()
	// The server is https: client-go sends no credential to another one.
	file.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://kubetest"}
	file.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	file.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	file.CurrentContext = "x"
	kubeconfig, err := clientcmd.Write(*file)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fleet.SecretAgent},
		Data:       map[string][]byte{registration.KeyKubeconfig: kubeconfig},
	}
	if _, err := kube.StoreOf[*corev1.Secret](client).Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	offer := plan.Offer{
		Namespace: "default", Account: "agent", Renewal: plan.RenewalAccount("agent"),
		Life: plan.Life{TTL: time.Hour, Grace: plan.DefaultGrace},
	}
	kept, err := json.Marshal(record{Offer: offer.String(), Token: "renewal", For: digest(token)})
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	cfg := s.REST()
	cfg.BearerToken = token
	return New(Config{
		Down: client, Namespace: "default", REST: cfg, Record: kept, Cluster: kube.Key{Namespace: "workspace", Name: "c"},
		Log: logrus.NewEntry(log), Report: func(_, _, _ string) {},
	})
}

// A credential has ended for good where the manager refuses another one. Where admission
// denies the token, it is asked for again at the next check-in.
func TestRecoverRefused(t *testing.T) {
	tokens := kubetest.Match{Verb: "create", Resource: "serviceaccounts", Subresource: "token"}
	for name, c := range map[string]struct {
		why   string
		fault func(*kubetest.Server) *kubetest.Fault
		ended bool
		says  string
	}{
		"Denied":    {"a webhook is in the way", func(s *kubetest.Server) *kubetest.Fault { return s.Deny(kubetest.Always, tokens) }, false, kubetest.DeniedText},
		"Refused":   {"the token for renewal has ended", func(s *kubetest.Server) *kubetest.Fault { return s.Refuse(kubetest.Always, tokens) }, true, "Unauthorized"},
		"Forbidden": {"its rights were taken away", func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(kubetest.Always, tokens) }, true, "forbidden"},
		"Broken":    {"the manager is broken", func(s *kubetest.Server) *kubetest.Fault { return s.Broken(kubetest.Always, tokens) }, false, "etcdserver"},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.New(t)
			k := ended(t, s)
			fault := c.fault(s)
			if done, err := k.Recover(t.Context()); done || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%s: got %t, %v", c.why, done, err)
			}
			if k.Ended() != c.ended {
				t.Errorf("%s: has it ended for good: %t", c.why, k.Ended())
			}
			fault.Lift()
			if done, err := k.Recover(t.Context()); done == c.ended || err != nil {
				t.Errorf("%s: at the next check-in: %t, %v", c.why, done, err)
			}
		})
	}
}
