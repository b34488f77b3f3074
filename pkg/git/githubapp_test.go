package git

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// appKey is the key of the App in all tests.
var appKey = sync.OnceValue(func() *rsa.PrivateKey { return newAppKey(minAppKeyBits) })

func newAppKey(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
}

func pkcs1(key *rsa.PrivateKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
}

func pkcs8(key any) []byte {
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func appData(id, installation string, key []byte) map[string][]byte {
	return map[string][]byte{keyAppID: []byte(id), keyAppInstallation: []byte(installation), keyAppPrivateKey: key}
}

func TestCredentialsOfGitHubApp(t *testing.T) {
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := pkcs1(appKey())
	cases := map[string]struct {
		why  string
		data map[string][]byte
		want string // of the error; empty: none
	}{
		"PKCS1":          {why: "the file that GitHub makes", data: appData("12", "34", key)},
		"PKCS8":          {why: "what openssl makes of it", data: appData("12", "34", pkcs8(appKey()))},
		"LineBreaks":     {why: "kubectl --from-file keeps the line break", data: appData("12\n", " 34\n", append(key, '\n'))},
		"NoKeys":         {data: map[string][]byte{"token": []byte("x")}, want: `the secret is of type "Opaque"; want kubernetes.io/basic-auth or kubernetes.io/ssh-auth, or the keys of a GitHub App (github_app_id, github_app_installation_id, github_app_private_key)`},
		"OneKey":         {data: map[string][]byte{keyAppID: []byte("12")}, want: "the secret of a GitHub App has no github_app_installation_id, github_app_private_key"},
		"EmptyKey":       {data: appData("12", "34", nil), want: "the secret of a GitHub App has no github_app_private_key"},
		"Words":          {data: appData("my-app", "34", key), want: `key "github_app_id" of the secret is not a decimal number`},
		"Hexadecimal":    {data: appData("12", "0x34", key), want: `key "github_app_installation_id" of the secret is not a decimal number`},
		"Negative":       {data: appData("12", "-34", key), want: `key "github_app_installation_id" of the secret is not a decimal number`},
		"TooLargeNumber": {data: appData("12", strings.Repeat("9", 30), key), want: `key "github_app_installation_id" of the secret is not a decimal number`},
		"NotPEM":         {data: appData("12", "34", []byte("s3cret")), want: `key "github_app_private_key" of the secret is not a private key in PEM form: want the whole file that GitHub made, from BEGIN to END with both lines`},
		"OtherBlock":     {data: appData("12", "34", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), want: `key "github_app_private_key" of the secret is not an RSA private key without passphrase (PKCS#1 or PKCS#8)`},
		"NotRSA":         {data: appData("12", "34", pkcs8(elliptic)), want: `key "github_app_private_key" of the secret is not an RSA private key without passphrase (PKCS#1 or PKCS#8)`},
		"ShortKey":       {why: "GitHub makes no such key", data: appData("12", "34", pkcs1(newAppKey(1024))), want: `key "github_app_private_key" of the secret is an RSA key of fewer than 2048 bits`},
		"HugeText":       {why: "parsing it would take long", data: appData("12", "34", bytes.Repeat(key, 20)), want: `key "github_app_private_key" of the secret is not a private key in PEM form: want the whole file that GitHub made, from BEGIN to END with both lines`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := CredentialsOf("Opaque", c.data)
			if c.want != "" {
				if reconcile.ReasonOf(err) != ReasonInvalidCredentials || err.Error() != c.want {
					t.Fatalf("%v\nwant %s", err, c.want)
				}
				return
			}
			if err != nil || got.App == nil || got.App.ID != 12 || got.App.Installation != 34 {
				t.Fatal(c.why, got.App, err)
			}
		})
	}
}

// Keys of a GitHub App in a Secret of basic-auth change nothing about it.
func TestCredentialsOfTypeWins(t *testing.T) {
	data := appData("12", "34", pkcs1(appKey()))
	data["password"] = []byte("pw")
	got, err := CredentialsOf(secretBasicAuth, data)
	if err != nil || got.App != nil || got.Password != "pw" {
		t.Fatal(got, err)
	}
}

func TestAppEndpoint(t *testing.T) {
	cases := map[string]string{
		"https://github.com/o/r":            "https://api.github.com/app/installations/34/access_tokens",
		"https://GitHub.com:443/o/r.git":    "https://api.github.com:443/app/installations/34/access_tokens",
		"https://www.github.com/o/r":        "https://api.github.com/app/installations/34/access_tokens",
		"https://api.github.com/o/r":        "https://api.github.com/app/installations/34/access_tokens",
		"https://octo.ghe.com/o/r":          "https://api.octo.ghe.com/app/installations/34/access_tokens",
		"https://git.corp.example/o/r":      "https://git.corp.example/api/v3/app/installations/34/access_tokens",
		"https://git.corp.example:8443/o/r": "https://git.corp.example:8443/api/v3/app/installations/34/access_tokens",
		"https://[2001:db8::1]:8443/o/r":    "https://[2001:db8::1]:8443/api/v3/app/installations/34/access_tokens",
		"https://notgithub.com/o/r":         "https://notgithub.com/api/v3/app/installations/34/access_tokens",
		"https://evil-ghe.com/o/r":          "https://evil-ghe.com/api/v3/app/installations/34/access_tokens",
	}
	app := App{ID: 12, Installation: 34}
	for repo, want := range cases {
		ep, err := parseURL(repo)
		if err != nil {
			t.Fatal(err)
		}
		api, err := app.appEndpoint(ep)
		if err != nil || api.baseURL().String() != want {
			t.Errorf("%s: %s, %v, want %s", repo, api.baseURL(), err, want)
		}
	}
	for _, repo := range []string{"http://github.com/o/r", "git@github.com:o/r"} {
		ep, err := parseURL(repo)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := app.appEndpoint(ep); reconcile.ReasonOf(err) != ReasonInvalidCredentials {
			t.Errorf("%s: %v; a token must not be requested or sent in the clear", repo, err)
		}
	}
}

// checkJWT verifies a token of an App as GitHub does, and returns its claims.
func checkJWT(t testing.TB, token string, key *rsa.PublicKey, now time.Time) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%d parts", len(parts))
	}
	decode := func(s string) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, digest[:], decode(parts[2])); err != nil {
		t.Fatal(err)
	}
	var head struct{ Alg, Typ string }
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	if err := json.Unmarshal(decode(parts[0]), &head); err != nil || head.Alg != "RS256" || head.Typ != "JWT" {
		t.Fatal(head, err)
	}
	if err := json.Unmarshal(decode(parts[1]), &claims); err != nil || claims.Iss != strconv.Itoa(12) {
		t.Fatal(claims, err)
	}
	if claims.Iat > now.Unix() || claims.Exp <= now.Unix() || claims.Exp > now.Add(10*time.Minute).Unix() || claims.Exp-claims.Iat > 600 {
		t.Fatalf("from %d to %d at %d", claims.Iat, claims.Exp, now.Unix())
	}
}

func TestAppJWT(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, key := range [][]byte{pkcs1(appKey()), pkcs8(appKey())} {
		token, err := App{ID: 12, Installation: 34, PrivateKey: key}.jwt(now)
		if err != nil {
			t.Fatal(err)
		}
		checkJWT(t, token, &appKey().PublicKey, now)
	}
}

// No data of a Secret makes the parser panic, and no error holds a part of it.
func FuzzParseApp(f *testing.F) {
	f.Add([]byte("12"), []byte("34"), pkcs1(appKey()))
	f.Add([]byte("12"), []byte("34"), pkcs8(appKey()))
	f.Add([]byte("-1"), []byte("9999999999999999999"), []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, id, installation, key []byte) {
		app, err := parseApp(appData(string(id), string(installation), key))
		if err != nil {
			if reconcile.ReasonOf(err) != ReasonInvalidCredentials || (len(key) > 40 && strings.Contains(err.Error(), string(key))) {
				t.Fatal(err)
			}
			return
		}
		if app.ID <= 0 || app.Installation <= 0 {
			t.Fatal(app.ID, app.Installation)
		}
		if _, err := app.jwt(time.Now()); err != nil {
			t.Fatal(err)
		}
	})
}
