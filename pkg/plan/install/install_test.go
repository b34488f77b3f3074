package install

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

func TestParseLifetime(t *testing.T) {
	day := 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "7d": Week, "1w": Week, "168h": Week, "2w3d": 17 * day, "1d12h": 36 * time.Hour, "1440m": day, "90s": 90 * time.Second,
		" 1w ": Week, "1w1h30m": Week + 90*time.Minute, "0d": 0,
	} {
		if got, err := ParseLifetime(text); err != nil || got != want {
			t.Errorf("%q: want %s, got %s, %v", text, want, got, err)
		}
	}
	for text, why := range map[string]string{
		"7": "no unit", "": "empty", "-1d": "cannot be read", "-1h": "sign", "+1h": "sign", "1d-1h": "sign", "week": "cannot be read", "3d1w": "cannot be read",
		"1.5d": "cannot be read", "10ms": "shorter", "99999999w": "too long", "99999999999999999999d": "too long", "2540401h": "too long",
	} {
		if got, err := ParseLifetime(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: want an error with %q, got %s, %v", text, why, got, err)
		}
	}
}

func TestImageValues(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	for image, want := range map[string]map[string]any{
		"fleet":                                {"repository": "fleet"},
		"example/fleet":                        {"repository": "example/fleet"},
		"example/fleet:v1":                     {"repository": "example/fleet", "tag": "v1"},
		"host:5000/fleet":                      {"repository": "host:5000/fleet"},
		"host:5000/fleet:v1":                   {"repository": "host:5000/fleet", "tag": "v1"},
		"[fd00::1]:5000/a/fleet:v1":            {"repository": "[fd00::1]:5000/a/fleet", "tag": "v1"},
		"Registry.Example.com/a__b/c--d.e:V_1": {"repository": "Registry.Example.com/a__b/c--d.e", "tag": "V_1"},
		"example/fleet@sha256:" + digest:       {"repository": "example/fleet@sha256", "tag": digest},
		"host:5000/fleet:v1@sha256:" + digest:  {"repository": "host:5000/fleet:v1@sha256", "tag": digest},
	} {
		got, err := ImageValues(image)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n-want +got\n%s", image, err, diff)
		}
	}
	for image, why := range map[string]string{
		"":                             "want [HOST[:PORT]/]NAME[:TAG]",
		"a b":                          "want [HOST[:PORT]/]NAME[:TAG]",
		"fleet:":                       "the tag",
		":v1":                          "want [HOST[:PORT]/]NAME[:TAG]",
		"foo:bar:baz":                  "want [HOST[:PORT]/]NAME[:TAG]",
		"foo:-v1":                      "the tag",
		"foo:b?r":                      "the tag",
		"foo:" + digest + digest + "0": "the tag",
		"example/Fleet:v1":             "in lower case",
		"example//fleet":               "want [HOST[:PORT]/]NAME[:TAG]",
		"host:port/fleet":              "want [HOST[:PORT]/]NAME[:TAG]",
		"https://host/fleet:v1":        "without https://",
		"oci://host/fleet":             "without oci://",
		"fleet@digest":                 "@sha256: and 64 hexadecimal digits",
		"fleet@sha256:ab":              "@sha256: and 64 hexadecimal digits",
	} {
		if got, err := ImageValues(image); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: want an error with %q, got %v, %v", image, why, got, err)
		}
	}
}

// authority is a certificate in PEM, and the key that it belongs to.
func authority(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
}

func TestUpstream(t *testing.T) {
	cert, key := authority(t)
	const here = "https://fleet.example.com:6443"
	for name, c := range map[string]struct {
		why   string
		reach UpstreamFlags
		want  Upstream
		err   string
	}{
		"Kubeconfig":     {why: "address and authority are the kubeconfig's", reach: UpstreamFlags{URL: here + "/", CA: cert}, want: Upstream{URL: here, CA: cert}},
		"Path":           {why: "an API server behind a proxy has a path", reach: UpstreamFlags{URL: here + "/clusters/x"}, want: Upstream{URL: here + "/clusters/x"}},
		"Localhost":      {why: "an agent would ask its own machine", reach: UpstreamFlags{URL: "https://localhost:6443", CA: cert}, err: "--server-url"},
		"SubLocalhost":   {why: "every name below localhost is the machine", reach: UpstreamFlags{URL: "https://kube.LOCALHOST.:6443"}, err: "--server-url"},
		"Loopback":       {why: "all of 127.0.0.0/8 is the machine", reach: UpstreamFlags{URL: "https://127.8.0.1:6443"}, err: "--server-url"},
		"Loopback6":      {why: "so is ::1", reach: UpstreamFlags{URL: "https://[::1]:6443"}, err: "--server-url"},
		"Mapped":         {why: "and the same written as IPv6", reach: UpstreamFlags{URL: "https://[::ffff:127.0.0.1]:6443"}, err: "--server-url"},
		"Unspecified":    {why: "an address of listeners is none to go to", reach: UpstreamFlags{URL: "https://0.0.0.0:6443"}, err: "--server-url"},
		"NotLoopback":    {why: "a name that only begins like it", reach: UpstreamFlags{URL: "https://localhost.example.com"}, want: Upstream{URL: "https://localhost.example.com"}},
		"Asked":          {why: "who names an address means it", reach: UpstreamFlags{URL: "https://127.0.0.1:1", CA: cert, ServerURL: here}, want: Upstream{URL: here, CA: cert}},
		"AskedLoopback":  {why: "also a loopback address: a port may be forwarded there", reach: UpstreamFlags{URL: here, ServerURL: "https://127.0.0.1:9"}, want: Upstream{URL: "https://127.0.0.1:9"}},
		"PlainHTTP":      {why: "agents send their token", reach: UpstreamFlags{URL: here, ServerURL: "http://fleet.example.com"}, err: "https://"},
		"PlainHTTPConf":  {why: "the same where the kubeconfig says so", reach: UpstreamFlags{URL: "http://fleet.example.com:8080"}, err: "https://"},
		"Password":       {why: "a URL with a password would be printed", reach: UpstreamFlags{URL: here, ServerURL: "https://a:b@fleet.example.com"}, err: "nothing else"},
		"File":           {why: "another authority", reach: UpstreamFlags{URL: here, CA: []byte("x"), CAFile: cert}, want: Upstream{URL: here, CA: cert}},
		"FileWithKey":    {why: "a private key would be given to everybody", reach: UpstreamFlags{URL: here, CAFile: append(cert[:len(cert):len(cert)], key...)}, err: "private key"},
		"FileEmpty":      {why: "a file without certificates trusts no server", reach: UpstreamFlags{URL: here, CAFile: []byte("hello")}, err: "no certificate"},
		"NoCA":           {why: "the system's authorities", reach: UpstreamFlags{URL: here, CA: cert, NoCA: true}, want: Upstream{URL: here}},
		"NoCAAndFile":    {why: "both at once say nothing", reach: UpstreamFlags{URL: here, NoCA: true, CAFile: cert}, err: "--no-ca"},
		"Insecure":       {why: "an agent never skips the check", reach: UpstreamFlags{URL: here, Insecure: true}, err: "--ca-file"},
		"InsecureNoCA":   {why: "but may trust its system", reach: UpstreamFlags{URL: here, Insecure: true, NoCA: true}, want: Upstream{URL: here}},
		"InsecureNamed":  {why: "or a named authority", reach: UpstreamFlags{URL: here, Insecure: true, CAFile: cert}, want: Upstream{URL: here, CA: cert}},
		"NothingToReach": {why: "a kubeconfig without a server", reach: UpstreamFlags{}, err: "--server-url"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.reach.Upstream()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: want an error with %q, got %v, %v", c.why, c.err, got, err)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n-want +got\n%s", c.why, err, diff)
			}
		})
	}
}

func TestDoubt(t *testing.T) {
	for url, doubtful := range map[string]bool{
		"https://rancher.example.com/k8s/clusters/local": true, "https://kubernetes.default.svc": true,
		"https://kubernetes.default.svc.cluster.local:443": true, "https://fleet.example.com": false, "https://10.0.0.1:6443": false,
	} {
		if got := (Upstream{URL: url}).Warning(); (got != "") != doubtful {
			t.Errorf("%s: %q", url, got)
		}
	}
}

func TestComplete(t *testing.T) {
	o := func(kind, namespace, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	got := Complete([]*unstructured.Unstructured{
		o("CustomResourceDefinition", "", "x"), o("Role", "kube-system", "r"), o("Secret", "b", "s"), o("Secret", "default", "s"),
		o("Namespace", "", "c"), o("Secret", "c", "s"), o("Secret", "a", "s"), o("Secret", "a", "t"),
	})
	var order []string
	for _, u := range got {
		order = append(order, u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName())
	}
	want := []string{
		"Namespace /a", "Namespace /b", "CustomResourceDefinition /x", "Role kube-system/r", "Secret b/s", "Secret default/s",
		"Namespace /c", "Secret c/s", "Secret a/s", "Secret a/t",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("namespaces that are missing come first, the rest stays\n%s", diff)
	}
}

func TestAgentValues(t *testing.T) {
	token := map[string]any{
		"apiServerURL": "", "apiServerCA": "", "token": "t", "tokenName": "n", "clusterNamespace": "w", "systemRegistrationNamespace": "r",
		"agentCheckinInterval": "5m0s", "internal": map[string]any{"managedReleaseName": "x"},
	}
	up := Upstream{URL: "https://m", CA: []byte("PEM")}
	for name, c := range map[string]struct {
		why   string
		agent Agent
		want  map[string]any // beside those of every case
		err   string
	}{
		"Plain": {why: "nothing is known of the manager: the chart's defaults count", agent: Agent{}, want: map[string]any{}},
		"Manager": {
			why: "the new agent is the one that the manager would install",
			agent: Agent{
				ClientID: "id", Labels: map[string]string{"a": "b"},
				Settings: registration.Settings{
					AgentImage: "x/agent:v2", AgentImagePullPolicy: "Always", AgentTLSMode: registration.TLSStrict,
					SystemDefaultRegistry: "reg", ImagePullSecrets: []string{"p"},
				},
			},
			want: map[string]any{
				"image": map[string]any{"repository": "x/agent", "tag": "v2", "imagePullPolicy": "Always"}, "agentTLSMode": "strict", "clientID": "id",
				"labels": map[string]any{"a": "b"},
				"global": map[string]any{"cattle": map[string]any{"systemDefaultRegistry": "reg", "imagePullSecrets": []any{map[string]any{"name": "p"}}}},
			},
		},
		"RegistryInImage": {
			why: "the registry is not put before twice", agent: Agent{Settings: registration.Settings{AgentImage: "reg/agent:v2", SystemDefaultRegistry: "reg"}},
			want: map[string]any{"image": map[string]any{"repository": "reg/agent", "tag": "v2"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.agent.Token, c.agent.Upstream, c.agent.Namespace = token, up, "sys"
			want := map[string]any{
				"apiServerURL": "https://m", "apiServerCA": "PEM", "token": "t", "tokenName": "n", "clusterNamespace": "w",
				"systemRegistrationNamespace": "r", "agentCheckinInterval": "5m0s",
				"internal": map[string]any{"managedReleaseName": "x", "systemNamespace": "sys"},
			}
			for k, v := range c.want {
				want[k] = v
			}
			got, err := c.agent.Values()
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v\n-want +got\n%s", c.why, err, diff)
			}
		})
	}
	if token["apiServerURL"] != "" || len(token["internal"].(map[string]any)) != 1 {
		t.Errorf("the token's values were changed: %v", token)
	}
	if _, err := (Agent{Settings: registration.Settings{AgentTLSMode: registration.TLSStrict}}).Values(); err == nil {
		t.Error("an agent that trusts only the configured authority needs one")
	}
}

func TestLabelsConfig(t *testing.T) {
	cm, err := LabelsConfig("sys", map[string]string{"env": "prod", "example.com/yes": "true"})
	if err != nil {
		t.Fatal(err)
	}
	if cm.Name != fleet.ConfigMapAgentLabels || cm.Namespace != "sys" || cm.Data[fleet.KeyLabels] != "env: prod\nexample.com/yes: \"true\"\n" {
		t.Errorf("want the labels as YAML that stays text, got %s/%s %q", cm.Namespace, cm.Name, cm.Data)
	}
	for _, labels := range []map[string]string{
		nil, {"fleet.cattle.io/cluster": "x"}, {"management.cattle.io/cluster-display-name": "x"}, {"a b": "c"}, {"a": "b c"}, {fleet.LabelGroup: "x"},
	} {
		if cm, err := LabelsConfig("sys", labels); err == nil {
			t.Errorf("%v: want an error, got %v", labels, cm.Data)
		}
	}
}
