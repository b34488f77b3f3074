package rights_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A member is a cluster with a real agent that has joined by a token.
type member struct {
	*harness.Site
	w *world
}

// join makes a cluster whose agent joins, and waits until it is in.
func (w *world) join(t testing.TB, name string, b registration.Bootstrapping) *member {
	t.Helper()
	m := w.foreign(t, name)
	m.Give(b)
	m.Start()
	m.in()
	return m
}

// foreign makes a cluster and starts nothing. Its agent has the rights of the
// chart in its cluster, which is the manager's too.
func (w *world) foreign(t testing.TB, name string) *member {
	t.Helper()
	m := &member{Site: harness.NewUnregisteredSite(t, w.hub, w.hub, name, "agent-"+name), w: w.in(t)}
	m.Config.CheckinInterval = time.Second
	m.Workspace = fleet.NamespaceDefault
	m.Configure(registration.AgentConfig{TLSMode: registration.TLSStrict, ClientID: name})
	m.Account()
	return m
}

// in waits until the agent has joined and has forgotten the token.
func (m *member) in() {
	m.Helper()
	m.Until("the agent is in", func() bool {
		s, ok := get[*corev1.Secret](m.w, m.Namespace, fleet.SecretAgent)
		if !ok || len(s.Data[registration.KeyKubeconfig]) == 0 {
			return false
		}
		m.Name, m.Deployments = string(s.Data["clusterName"]), string(s.Data["deploymentNamespace"])
		_, waits := get[*corev1.Secret](m.w, m.Namespace, fleet.SecretAgentBootstrap)
		return !waits && m.Contact()["reached"] == "true"
	})
}

// key is that of the Cluster.
func (m *member) key() kube.Key { return kube.Key{Namespace: m.Workspace, Name: m.Name} }

func (m *member) cluster() *fleet.Cluster {
	m.Helper()
	c, ok := get[*fleet.Cluster](m.w, m.Workspace, m.Name)
	if !ok {
		m.Fatalf("Cluster %s is gone", m.Name)
	}
	return c
}

// settled waits until the agent uses what it is offered, and the manager has taken
// the rest back: one account is left, beside the one that renews.
func (m *member) settled() {
	m.Helper()
	m.Until("the agent uses what it was offered", func() bool {
		c := m.cluster()
		offer := c.Annotations[fleet.AnnotationCredential]
		return offer != "" && c.Status.Agent.Credential == credential.Digest(offer) && c.Annotations[fleet.AnnotationRotate] == "" &&
			len(m.accounts()) == 1
	})
}

// accounts are the names of the accounts of the agent, without those that renew.
func (m *member) accounts() []string {
	m.Helper()
	var out []string
	for _, a := range list[*corev1.ServiceAccount](m.w, fleet.NamespaceRegistration, fleet.LabelCluster+"="+m.Name) {
		if a.Annotations[fleet.AnnotationRenews] == "" {
			out = append(out, a.Name)
		}
	}
	return out
}

// offer returns the credential that the manager offers to the agent.
func (m *member) offer() credential.Offer {
	m.Helper()
	o, err := credential.ParseOffer(m.cluster().Annotations[fleet.AnnotationCredential])
	m.Must(err)
	return o
}

// kept are the tokens that the agent keeps: the one it works with, and the one that
// renews that.
func (m *member) kept() (token, renewal string) {
	m.Helper()
	s, ok := get[*corev1.Secret](m.w, m.Namespace, fleet.SecretAgent)
	if !ok {
		m.Fatal("the agent keeps no credential")
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(s.Data[registration.KeyKubeconfig])
	m.Must(err)
	var record struct {
		Token string `json:"token"`
	}
	if data := s.Data["renewal"]; data != nil {
		m.Must(json.Unmarshal(data, &record))
	}
	return cfg.BearerToken, record.Token
}

// backdate makes the tokens that a stopped agent keeps older, as if it had been away
// for so long: signed by the key of the API server, with other times.
func (m *member) backdate(d time.Duration) {
	m.Helper()
	token, renewal := m.kept()
	token, renewal = m.w.older(token, d), m.w.older(renewal, d)
	change(m.w, kube.Key{Namespace: m.Namespace, Name: fleet.SecretAgent}, func(s *corev1.Secret) {
		cfg, err := clientcmd.Load(s.Data[registration.KeyKubeconfig])
		m.Must(err)
		for _, user := range cfg.AuthInfos {
			user.Token = token
		}
		s.Data[registration.KeyKubeconfig], err = clientcmd.Write(*cfg)
		m.Must(err)
		var record map[string]string
		m.Must(json.Unmarshal(s.Data["renewal"], &record))
		sum := sha256.Sum256([]byte(token))
		record["token"], record["for"] = renewal, hex.EncodeToString(sum[:8])
		s.Data["renewal"], err = json.Marshal(record)
		m.Must(err)
	})
}

// older is a token as it would be if it had been made earlier.
func (w *world) older(token string, d time.Duration) string {
	w.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		w.Fatalf("not a token with an end")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	w.must(err)
	var claims map[string]any
	w.must(json.Unmarshal(text, &claims))
	for _, name := range []string{"iat", "nbf", "exp"} {
		claims[name] = int64(claims[name].(float64)) - int64(d/time.Second)
	}
	body, err := json.Marshal(claims)
	w.must(err)
	signed := parts[0] + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, w.signingKey(), sum[:])
	w.must(err)
	signature := make([]byte, 64) // RFC 7518, 3.4
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// signingKey is the key that the sandbox's API server signs tokens with.
func (w *world) signingKey() *ecdsa.PrivateKey {
	w.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(w.hub.Cluster.Kubeconfig()), "signing.key"))
	w.must(err)
	block, _ := pem.Decode(text)
	if block == nil {
		w.Fatal("no key in signing.key")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	w.must(err)
	return key
}

// works reports whether the agent's rights hold for a token: it reads the deployments.
func (m *member) works(token string) error {
	m.Helper()
	_, err := kube.StoreOf[*fleet.BundleDeployment](m.w.as(token)).List(m.Context(), m.Deployments, "")
	return err
}

// void waits until a token works no more: API servers remember for seconds whose a
// token was, and hear of rights that are taken back a moment later.
func (m *member) void(what, token string) {
	m.Helper()
	m.Until(what+" works no more", func() bool {
		err := m.works(token)
		return kube.IsForbidden(err) || kube.IsUnauthorized(err)
	})
}

// condition is the reason of the condition Credential of the Cluster.
func (m *member) condition() (reason, message string) {
	m.Helper()
	for _, c := range m.cluster().Status.Conditions {
		if c.Type == fleet.ConditionCredential {
			return c.Reason, c.Message
		}
	}
	return "", ""
}
