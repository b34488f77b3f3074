package git

import (
	"unicode/utf8"

	"golang.org/x/crypto/ssh"
)

// Credentials are the secrets that may be sent to a remote. Zero is anonymous.
type Credentials struct {
	// Username and Password go to HTTP(S) remotes. A password alone is a token and
	// replaces the user name.
	Username string
	Password string
	// SSHPrivateKey is a PEM key without passphrase, for SSH remotes.
	SSHPrivateKey []byte
	// KnownHosts are the lines of a known_hosts file that decide which host
	// keys are accepted. Without any, no SSH host is.
	KnownHosts []byte
	// App is exchanged for a token that replaces Username and Password, for HTTPS
	// remotes; nil is none.
	App *App
}

// Types of Secrets that hold credentials.
const (
	secretBasicAuth = "kubernetes.io/basic-auth"
	secretSSHAuth   = "kubernetes.io/ssh-auth"
)

// CredentialsOf reads the data of a Secret of type kubernetes.io/basic-auth or
// kubernetes.io/ssh-auth, or of any other type with the keys of a GitHub App. Other
// Secrets, and data that cannot be right, are reconcile.Terminal, InvalidCredentials;
// the text names keys, never values.
func CredentialsOf(secretType string, data map[string][]byte) (Credentials, error) {
	switch secretType {
	case secretBasicAuth:
		c := Credentials{Username: string(data["username"]), Password: string(data["password"])}
		for _, key := range []string{"username", "password"} {
			if !printable(string(data[key])) {
				return Credentials{}, permanentf(ReasonInvalidCredentials, "key %q of the secret contains control characters (a line break at its end?)", key)
			}
		}
		if c.Password == "" {
			return Credentials{}, permanentf(ReasonInvalidCredentials, "the secret has no key \"password\"")
		}
		return c, nil
	case secretSSHAuth:
		c := Credentials{SSHPrivateKey: data["ssh-privatekey"], KnownHosts: data["known_hosts"]}
		if _, err := ssh.ParsePrivateKey(c.SSHPrivateKey); err != nil {
			return Credentials{}, permanentf(ReasonInvalidCredentials, "key \"ssh-privatekey\" of the secret is not a private key without passphrase")
		}
		return c, nil
	}
	if !hasAppKeys(data) {
		return Credentials{}, permanentf(ReasonInvalidCredentials, "the secret is of type %q; want %s or %s, or the keys of a GitHub App (%s, %s, %s)",
			secretType, secretBasicAuth, secretSSHAuth, keyAppID, keyAppInstallation, keyAppPrivateKey)
	}
	app, err := parseApp(data)
	if err != nil {
		return Credentials{}, err
	}
	return Credentials{App: app}, nil
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			return false
		}
	}
	return true
}

// basic returns the user name and password for an HTTP remote: those of the secret, or
// else those of the URL.
func (c Credentials) basic(ep endpoint) (user, password string) {
	user, password = c.Username, c.Password
	if user == "" && password == "" {
		user, password = ep.user, ep.password
	}
	if user == "" && password != "" {
		user, password = password, ""
	}
	return user, password
}

// secrets are the texts that must not appear in a message.
func (c Credentials) secrets(ep endpoint) []string {
	list := []string{c.Password, ep.password}
	if c.Password == "" {
		list = append(list, c.Username)
	}
	if ep.password == "" && ep.scheme != "ssh" {
		list = append(list, ep.user)
	}
	return list
}
