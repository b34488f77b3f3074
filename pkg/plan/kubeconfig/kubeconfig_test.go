package kubeconfig

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// secret stands in every text of these tests, and in no error.
const secret = "s3cr3t-t0ken"

// text is a kubeconfig with the fields of a cluster and of a user.
func text(clusterFields, userFields string) string {
	return "apiVersion: v1\nkind: Config\ncurrent-context: c\n" +
		"clusters: [{name: k, cluster: {" + clusterFields + "}}]\n" +
		"contexts: [{name: c, context: {cluster: k, user: u, namespace: x}}]\n" +
		"users: [{name: u, user: {" + userFields + "}}]\n"
}

// pair is a certificate and its key, PEM.
func pair(t testing.TB) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "x"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func TestParse(t *testing.T) {
	cert, key := pair(t)
	_, other := pair(t)
	b64 := base64.StdEncoding.EncodeToString
	token := "token: " + secret
	cases := map[string]struct {
		why, text  string
		want       Access
		reason     string // of the error
		wantInText string // of the error
	}{
		"Token": {
			why: "the usual one", text: text("server: https://x:6443", token),
			want: Access{Server: "https://x:6443", Token: secret},
		},
		"JSON": {
			why:  "programs write JSON",
			text: `{"clusters":[{"name":"k","cluster":{"server":"https://x/k8s/clusters/c-1"}}],"users":[{"name":"u","user":{"token":"` + secret + `"}}],"contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],"current-context":"c"}`,
			want: Access{Server: "https://x/k8s/clusters/c-1", Token: secret},
		},
		"Everything": {
			why: "what is embedded is taken over",
			text: text("server: https://x, tls-server-name: other, proxy-url: 'http://p:3128', certificate-authority-data: "+b64(cert),
				"client-certificate-data: "+b64(cert)+", client-key-data: "+b64(key)+", as: a, as-uid: i, as-groups: [g], as-user-extra: {e: [f]}"),
			want: Access{
				Server: "https://x", ServerName: "other", Proxy: "http://p:3128", CA: cert, Cert: cert, Key: key,
				As: Impersonation{User: "a", UID: "i", Groups: []string{"g"}, Extra: map[string][]string{"e": {"f"}}},
			},
		},
		"Password":    {why: "old clusters have it", text: text("server: https://x", "username: u, password: "+secret), want: Access{Server: "https://x", Username: "u", Password: secret}},
		"Insecure":    {why: "the caller decides about it", text: text("server: https://x, insecure-skip-tls-verify: true", token), want: Access{Server: "https://x", Token: secret, Insecure: true}},
		"EmptyFiles":  {why: "an empty field names no file", text: text("server: https://x, certificate-authority: ''", token+", tokenFile: '', client-key: ''"), want: Access{Server: "https://x", Token: secret}},
		"NullExec":    {why: "null is nothing", text: text("server: https://x", token+", exec: null, auth-provider: ~"), want: Access{Server: "https://x", Token: secret}},
		"UnknownKeys": {why: "newer versions have more", text: text("server: https://x, new: {a: b}", token) + "extensions: [{name: e}]\n", want: Access{Server: "https://x", Token: secret}},

		"Exec":           {why: "would run a program of the Secret's author", text: text("server: https://x", token+", exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}"), reason: ReasonForbidden, wantInText: `user "u" names a program (exec)`},
		"EmptyExec":      {why: "client-go takes an empty one for one", text: text("server: https://x", token+", exec: {}"), reason: ReasonForbidden, wantInText: "exec"},
		"OddCase":        {why: "refused more rather than less", text: text("server: https://x", token+", Exec: {command: sh}"), reason: ReasonForbidden, wantInText: "exec"},
		"AuthProvider":   {why: "runs a program too", text: text("server: https://x", token+", auth-provider: {name: gcp}"), reason: ReasonForbidden, wantInText: "auth-provider"},
		"TokenFile":      {why: "would read a file of this machine", text: text("server: https://x", token+", tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token"), reason: ReasonForbidden, wantInText: "a file (tokenFile)"},
		"CertFile":       {why: "would read a file of this machine", text: text("server: https://x", token+", client-certificate: /etc/x"), reason: ReasonForbidden, wantInText: "client-certificate"},
		"KeyFile":        {why: "would read a file of this machine", text: text("server: https://x", token+", client-key: /etc/x"), reason: ReasonForbidden, wantInText: "client-key-data"},
		"CAFile":         {why: "would read a file of this machine", text: text("server: https://x, certificate-authority: /etc/passwd", token), reason: ReasonForbidden, wantInText: `cluster "k" names a file`},
		"TwoLists":       {why: "the last of two lists of users counts, and only that one", text: text("server: https://x", token) + "users: [{name: u, user: {" + token + "}}, {name: v, user: {exec: {command: sh}}}]\n", reason: ReasonForbidden},
		"OtherUsersExec": {why: "also outside of the current context", text: strings.Replace(text("server: https://x", token), "users: [", "users: [{name: v, user: {exec: {command: sh}}}, ", 1), reason: ReasonForbidden, wantInText: `user "v"`},

		"Empty":          {why: "a Secret that is being filled", text: " \n", reason: ReasonUnreadable, wantInText: "empty"},
		"Garbage":        {why: "the error must not quote what stands there", text: secret + ": [", reason: ReasonUnreadable, wantInText: "not YAML"},
		"JustAToken":     {why: "a common mistake", text: secret, reason: ReasonUnreadable},
		"NoContext":      {why: "nothing says which cluster", text: strings.Replace(text("server: https://x", token), "current-context: c", "", 1), reason: ReasonUnreadable, wantInText: "current-context"},
		"NoCluster":      {why: "nothing to connect to", text: strings.Replace(text("server: https://x", token), "cluster: k", "cluster: z", 1), reason: ReasonUnreadable, wantInText: `cluster "z"`},
		"TwoUsers":       {why: "which one?", text: strings.Replace(text("server: https://x", token), "users: [", "users: [{name: u, user: {token: t}}, ", 1), reason: ReasonUnreadable, wantInText: "2 times"},
		"TwoContexts":    {why: "which one?", text: strings.Replace(text("server: https://x", token), "contexts: [", "contexts: [{name: c, context: {cluster: k, user: u}}, ", 1), reason: ReasonUnreadable, wantInText: "twice"},
		"NoServer":       {why: "clientcmd would take localhost", text: text("server: ''", token), reason: ReasonUnreadable, wantInText: "server"},
		"FileServer":     {why: "not a scheme of an API server", text: text("server: 'file:///etc/passwd'", token), reason: ReasonUnreadable, wantInText: "server"},
		"UnixServer":     {why: "not a scheme of an API server", text: text("server: 'unix://h/run/x.sock'", token), reason: ReasonUnreadable, wantInText: "https://"},
		"UserInServer":   {why: "would stand in messages", text: text("server: 'https://u:"+secret+"@x'", token), reason: ReasonUnreadable, wantInText: "user name"},
		"OddProxy":       {why: "not a scheme of a proxy", text: text("server: https://x, proxy-url: 'ftp://p'", token), reason: ReasonUnreadable, wantInText: "proxy-url"},
		"NoPEM":          {why: "no server could be trusted", text: text("server: https://x, certificate-authority-data: "+b64([]byte("x")), token), reason: ReasonUnreadable, wantInText: "certificate-authority-data"},
		"CAAndInsecure":  {why: "client-go refuses it too", text: text("server: https://x, insecure-skip-tls-verify: true, certificate-authority-data: "+b64(cert), token), reason: ReasonUnreadable, wantInText: "remove one"},
		"HalfAPair":      {why: "does not work", text: text("server: https://x", "client-certificate-data: "+b64(cert)), reason: ReasonUnreadable, wantInText: "only one"},
		"StrangersInKey": {why: "does not work", text: text("server: https://x", "client-certificate-data: "+b64(cert)+", client-key-data: "+b64(other)), reason: ReasonUnreadable, wantInText: "belong together"},
		"NoCredential":   {why: "its requests would be anonymous", text: text("server: https://x", ""), reason: ReasonUnreadable, wantInText: "no credential"},
		"TwoLines":       {why: "would be a header of its own", text: text("server: https://x", `token: "`+secret+`\n"`), reason: ReasonUnreadable, wantInText: "more than one line"},
		"TooLong":        {why: "no kubeconfig is this long", text: text("server: https://x", token) + strings.Repeat("#\n", MaxBytes/2), reason: ReasonUnreadable, wantInText: "more than"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.text))
			if c.reason == "" {
				if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
					t.Errorf("%s: %v\n-want +got\n%s", c.why, err, diff)
				}
				return
			}
			if err == nil || reconcile.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.wantInText) || !reconcile.IsTerminal(err) {
				t.Fatalf("%s: want %s with %q, got %s: %v", c.why, c.reason, c.wantInText, reconcile.ReasonOf(err), err)
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error shows what it must not, or has several lines: %v", err)
			}
		})
	}
}

// A kubeconfig in a Secret is foreign input: reading it does not panic, lets no
// program and no file through, and an error quotes no credential.
func FuzzParse(f *testing.F) {
	cert, key := pair(f)
	b64 := base64.StdEncoding.EncodeToString
	f.Add(text("server: https://x", "token: "+secret))
	f.Add(text("server: https://x, certificate-authority-data: "+b64(cert), "client-certificate-data: "+b64(cert)+", client-key-data: "+b64(key)))
	f.Add(text("server: https://x", "exec: {command: sh}, token: "+secret))
	f.Add(text("server: https://x, certificate-authority: /etc/passwd", "tokenFile: /x, token: "+secret))
	f.Add("a: &a [*a]")
	f.Add("users: [{user: {token: *x}}]")
	f.Fuzz(func(t *testing.T, in string) {
		a, err := Parse([]byte(in))
		if err != nil {
			var p *reconcile.Terminal
			if !errors.As(err, &p) || strings.ContainsAny(err.Error(), "\n\r") || len(err.Error()) > 600 {
				t.Errorf("error %q", err)
			}
			return
		}
		// Whatever is accepted must say so in its own fields, and nothing else.
		if a.Server == "" || a.Token == "" && a.Username == "" && len(a.Cert) == 0 {
			t.Errorf("accepted without a server or a credential: %+v", a)
		}
		var raw map[string]any
		asJSON, err := json.Marshal(a)
		if err != nil || json.Unmarshal(asJSON, &raw) != nil {
			t.Error(err)
		}
	})
}
