package imagescan

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// dockerConfig is the part of Docker's config.json that names accounts:
// https://docs.docker.com/reference/cli/docker/login/.
type dockerConfig struct {
	Auths map[string]dockerAuth `json:"auths"`
}

type dockerAuth struct {
	Username string `json:"username"`
	Password string `json:"password"`
	Auth     string `json:"auth"` // base64 of username:password
}

// Credentials returns the account for a registry in a Secret of type
// kubernetes.io/dockerconfigjson. The registry may be spelled as Docker's tools write it:
// with a scheme, a path (https://index.docker.io/v1/) and any name of Docker Hub. The
// spelling that is exact counts first. Errors are Terminal, InvalidCredentials; the text
// never has a value of the Secret, but names its registries.
func Credentials(s *corev1.Secret, registry string) (username, password string, err error) {
	bad := func(format string, args ...any) (string, string, error) {
		return "", "", reconcile.TerminalError(ReasonInvalidCredentials, fmt.Errorf("secret %q: %w", s.Name, fmt.Errorf(format, args...)))
	}
	if s.Type != corev1.SecretTypeDockerConfigJson {
		return bad("its type is %q, not %s", s.Type, corev1.SecretTypeDockerConfigJson)
	}
	var config dockerConfig
	if json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &config) != nil { // its error may quote a value
		return bad("key %q is not the JSON of a Docker configuration", corev1.DockerConfigJsonKey)
	}
	key, ok := entryFor(config.Auths, registry)
	if !ok {
		return bad("it has no entry for registry %q, only for %q", registry, slices.Sorted(maps.Keys(config.Auths)))
	}
	username, password, err = config.Auths[key].account()
	if err != nil {
		return bad("entry %q: %w", key, err)
	}
	return username, password, nil
}

// entryFor returns the key of the entry for a registry.
func entryFor(auths map[string]dockerAuth, registry string) (string, bool) {
	if _, ok := auths[registry]; ok {
		return registry, true
	}
	for _, key := range slices.Sorted(maps.Keys(auths)) {
		if registryOf(key) == registry {
			return key, true
		}
	}
	return "", false
}

// registryOf returns the registry that a key of a Docker configuration means.
func registryOf(key string) string {
	for _, scheme := range []string{"https://", "http://"} {
		key = strings.TrimPrefix(key, scheme)
	}
	host, _, _ := strings.Cut(key, "/")
	return hubName(host)
}

// account returns user name and password of an entry.
func (a dockerAuth) account() (username, password string, err error) {
	if a.Auth == "" {
		if a.Username == "" || a.Password == "" {
			return "", "", errors.New("it has neither auth nor username and password")
		}
		return a.Username, a.Password, nil
	}
	raw, err := base64.StdEncoding.DecodeString(a.Auth)
	if err != nil {
		return "", "", errors.New("auth is not base64")
	}
	username, password, ok := strings.Cut(string(raw), ":")
	if !ok || username == "" || password == "" {
		return "", "", errors.New("auth is not user name and password, separated by a colon")
	}
	return username, password, nil
}
