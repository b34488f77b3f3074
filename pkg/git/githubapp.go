package git

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// An App is an installation of a GitHub App. The package exchanges its key for
// tokens of the installation, and only tokens are sent with requests of git.
type App struct {
	ID           int64
	Installation int64
	PrivateKey   []byte // PEM
}

// Keys of a Secret with the credentials of a GitHub App.
const (
	keyAppID           = "github_app_id"
	keyAppInstallation = "github_app_installation_id"
	keyAppPrivateKey   = "github_app_private_key"
)

const (
	// appUser is the user name that GitHub wants with a token of an installation.
	appUser = "x-access-token"
	// maxAppKeyBytes bounds the PEM text of a private key; GitHub's have 1.7 KiB.
	maxAppKeyBytes = 16 << 10
	minAppKeyBits  = 2048
)

// The claims of a JWT for GitHub, which accepts at most 10 minutes. The begin is earlier
// than now because the clocks of both sides may differ.
const (
	jwtBefore = time.Minute
	jwtAfter  = 8 * time.Minute
)

// hasAppKeys reports whether the data of a Secret has any key of a GitHub App.
func hasAppKeys(data map[string][]byte) bool {
	for _, key := range []string{keyAppID, keyAppInstallation, keyAppPrivateKey} {
		if _, ok := data[key]; ok {
			return true
		}
	}
	return false
}

// parseApp reads the data of a Secret with the credentials of a GitHub App. Errors are
// reconcile.Terminal, InvalidCredentials; the text names keys, never values.
func parseApp(data map[string][]byte) (*App, error) {
	var missing []string
	for _, key := range []string{keyAppID, keyAppInstallation, keyAppPrivateKey} {
		if len(data[key]) == 0 {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		return nil, permanentf(ReasonInvalidCredentials, "the secret of a GitHub App has no %s", strings.Join(missing, ", "))
	}
	app := &App{PrivateKey: data[keyAppPrivateKey]}
	for key, field := range map[string]*int64{keyAppID: &app.ID, keyAppInstallation: &app.Installation} {
		n, err := strconv.ParseInt(strings.TrimSpace(string(data[key])), 10, 64)
		if err != nil || n <= 0 {
			return nil, permanentf(ReasonInvalidCredentials, "key %q of the secret is not a decimal number", key)
		}
		*field = n
	}
	if _, err := parseAppKey(app.PrivateKey); err != nil {
		return nil, permanentf(ReasonInvalidCredentials, "key %q of the secret %w", keyAppPrivateKey, err)
	}
	return app, nil
}

var (
	errKeyNotPEM = errors.New("is not a private key in PEM form: want the whole file that GitHub made, from BEGIN to END with both lines")
	errKeyNotRSA = errors.New("is not an RSA private key without passphrase (PKCS#1 or PKCS#8)")
	errKeyShort  = fmt.Errorf("is an RSA key of fewer than %d bits", minAppKeyBits)
)

// parseAppKey reads an RSA key from a PEM block with PKCS#1 or PKCS#8. Errors hold
// nothing of the key.
func parseAppKey(text []byte) (*rsa.PrivateKey, error) {
	if len(text) > maxAppKeyBytes {
		return nil, errKeyNotPEM
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errKeyNotPEM
	}
	var key *rsa.PrivateKey
	if block.Type == "PRIVATE KEY" {
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, errKeyNotRSA
		}
		key, _ = parsed.(*rsa.PrivateKey)
	} else if parsed, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		key = parsed
	}
	switch {
	case key == nil:
		return nil, errKeyNotRSA
	case key.N.BitLen() < minAppKeyBits:
		return nil, errKeyShort
	}
	return key, nil
}

// jwt returns a signed JSON Web Token (RS256) that identifies the App from now on.
func (a App) jwt(now time.Time) (string, error) {
	key, err := parseAppKey(a.PrivateKey)
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iat": now.Add(-jwtBefore).Unix(), "exp": now.Add(jwtAfter).Unix(), "iss": strconv.FormatInt(a.ID, 10),
	})
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		return "", errors.New("the private key cannot sign")
	}
	return signed + "." + encode(signature), nil
}

// appEndpoint returns where tokens of an installation are requested for a repository:
// api.HOST at github.com and at *.ghe.com, HOST/api/v3 at a GitHub Enterprise Server.
func (a App) appEndpoint(repo endpoint) (endpoint, error) {
	if repo.scheme != "https" {
		return endpoint{}, permanentf(ReasonInvalidCredentials, "credentials of a GitHub App need a repository URL that begins with https://")
	}
	api := endpoint{scheme: repo.scheme, host: strings.ToLower(repo.host), port: repo.port}
	prefix := ""
	switch {
	case strings.HasPrefix(api.host, "api."):
	case api.host == "github.com" || api.host == "www.github.com":
		api.host = "api.github.com"
	case strings.HasSuffix(api.host, ".ghe.com"):
		api.host = "api." + api.host
	default:
		prefix = "/api/v3"
	}
	api.path = prefix + "/app/installations/" + url.PathEscape(strconv.FormatInt(a.Installation, 10)) + "/access_tokens"
	return api, nil
}
