package sources

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
)

// HelmAccess are the flags that say what charts are downloaded with.
type HelmAccess struct {
	username      string
	passwordFile  string
	caFile        string
	keyFile       string
	byPathFile    string
	urls          string
	basicHTTP     bool
	insecure      bool
	knownHosts    string
	usernameGiven bool
}

// AddFlags adds the flags that say how charts are downloaded.
func (h *HelmAccess) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&h.username, "username", "", "user `name` for charts, with --password-file; default: HELM_USERNAME")
	fs.StringVar(&h.passwordFile, "password-file", "", "`file` with the password for charts")
	fs.StringVar(&h.caFile, "cacerts-file", "", "PEM `file` with authorities for charts, besides the system's")
	fs.StringVar(&h.keyFile, "ssh-privatekey-file", "", "PEM `file` with the SSH key for charts from git; known hosts are in FLEET_KNOWN_HOSTS")
	fs.StringVar(&h.urls, "helm-repo-url-regex", "", "`regex` that a URL must match, from its start to the end of its host at least, for credentials to be sent; without it they are sent nowhere")
	fs.StringVar(&h.byPathFile, "helm-credentials-by-path-file", "", "YAML `file` with credentials by path, instead of the others")
	fs.BoolVar(&h.basicHTTP, "helm-basic-http", false, "talk to OCI registries without TLS")
	fs.BoolVar(&h.insecure, "helm-insecure-skip-tls", false, "accept any certificate where charts are")
}

// Complete takes from the environment what no flag says, and refuses what is not possible.
func (h *HelmAccess) Complete(env func(string) string) error {
	h.usernameGiven = h.username != ""
	if !h.usernameGiven {
		h.username = env("HELM_USERNAME")
	}
	h.knownHosts = env("FLEET_KNOWN_HOSTS")
	if h.usernameGiven && h.passwordFile == "" && h.byPathFile == "" {
		return errors.New("--username goes with --password-file")
	}
	if _, err := regexp.Compile(h.urls); err != nil {
		return fmt.Errorf("--helm-repo-url-regex: %w", err)
	}
	return nil
}

// Access reads the files of credentials.
func (h *HelmAccess) Access() (chart.Access, error) {
	a := chart.Access{URLs: h.urls}
	if h.byPathFile != "" {
		data, err := os.ReadFile(h.byPathFile)
		if err != nil {
			return a, cli.OfFlag("helm-credentials-by-path-file", err)
		}
		if a.ByPath, err = chart.ParseByPath(data); err != nil {
			return a, fmt.Errorf("%s: %w", h.byPathFile, err)
		}
		return a, nil
	}
	secret := map[string][]byte{}
	for key, file := range map[string]string{"password": h.passwordFile, "cacerts": h.caFile, "ssh-privatekey": h.keyFile} {
		if file == "" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return a, cli.OfFlag(key+"-file", err)
		}
		secret[key] = data
	}
	if password, ok := secret["password"]; ok {
		if h.username == "" {
			return a, errors.New("--password-file goes with --username, or HELM_USERNAME")
		}
		secret["username"], secret["password"] = []byte(h.username), []byte(strings.TrimRight(string(password), "\r\n"))
	}
	if h.knownHosts != "" {
		secret["known_hosts"] = []byte(h.knownHosts)
	}
	var err error
	if a.Default, err = chart.CredentialsOf(secret); err != nil {
		return a, fmt.Errorf("credentials for charts: %w", err)
	}
	a.Default.BasicHTTP, a.Default.InsecureSkipVerify = h.basicHTTP, h.insecure
	return a, nil
}

// Unsent reports that credentials are given and no URL may have them.
func (h *HelmAccess) Unsent() bool {
	return h.urls == "" && (h.passwordFile != "" || h.keyFile != "" || h.byPathFile != "")
}
