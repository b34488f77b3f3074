package chart

import (
	"encoding/base64"
	"encoding/pem"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// CredentialsOf reads the data of the Secret that helmSecretName names
// (fleet-api 13.4): username and password (both or none), cacerts,
// ssh-privatekey, known_hosts, insecureSkipVerify, basicHTTP. A flag that is
// neither true nor false is false. Errors are Terminal, InvalidCredentials;
// the text names keys, never values.
func CredentialsOf(data map[string][]byte) (Credentials, error) {
	user, hasUser := data["username"]
	password, hasPassword := data["password"]
	c := Credentials{
		Username: string(user), Password: string(password),
		SSHPrivateKey: data["ssh-privatekey"], KnownHosts: data["known_hosts"], CABundle: data["cacerts"],
	}
	c.InsecureSkipVerify, _ = strconv.ParseBool(string(data["insecureSkipVerify"]))
	c.BasicHTTP, _ = strconv.ParseBool(string(data["basicHTTP"]))
	switch {
	case hasUser && !hasPassword:
		return Credentials{}, permanentf(ReasonInvalidCredentials, "the secret has the key username, but not the key password; set both or none")
	case hasPassword && !hasUser:
		return Credentials{}, permanentf(ReasonInvalidCredentials, "the secret has the key password, but not the key username; set both or none")
	}
	if key := c.mistake(); key != "" {
		return Credentials{}, permanentf(ReasonInvalidCredentials, "the secret cannot be used: %s", key)
	}
	return c, nil
}

// mistake says what cannot be right, without values.
func (c Credentials) mistake() string {
	switch {
	case unprintable(c.Username):
		return "the user name holds control characters (a line break at its end?)"
	case strings.Contains(c.Username, ":"):
		return "the user name holds a colon, which basic authentication cannot send"
	case unprintable(c.Password):
		return "the password holds control characters (a line break at its end?)"
	case len(c.CABundle) > 0 && !hasPEM(c.CABundle, "CERTIFICATE"):
		return "the CA bundle holds no certificate in PEM form"
	case len(c.SSHPrivateKey) > 0 && !hasPEM(c.SSHPrivateKey, "PRIVATE KEY"):
		return "the SSH key is no private key in PEM form"
	}
	return ""
}

func hasPEM(data []byte, kind string) bool {
	for len(data) > 0 {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return false
		}
		if strings.HasSuffix(block.Type, kind) {
			return true
		}
	}
	return false
}

// Limits of secrets-path.yaml.
const (
	maxByPath      = 1 << 20
	maxByPathCount = 10_000
)

// byPath is one value of secrets-path.yaml. Bytes are base64 as in the
// reference; PEM and lines of known_hosts may also be written as they are.
type byPath struct {
	Username           string `json:"username"`
	Password           string `json:"password"`
	CABundle           string `json:"caBundle"`
	SSHPrivateKey      string `json:"sshPrivateKey"`
	SSHKnownHosts      string `json:"sshKnownHosts"`
	InsecureSkipVerify bool   `json:"insecureSkipVerify"`
	BasicHTTP          bool   `json:"basicHTTP"`
}

// ParseByPath reads the key secrets-path.yaml of the Secret that
// helmSecretNameForPaths names: credentials by directory, or by pattern of
// directories (path.Match). Errors are Terminal, InvalidCredentials, and hold
// paths, never values.
func ParseByPath(secretsPathYAML []byte) (map[string]Credentials, error) {
	bad := func(format string, args ...any) (map[string]Credentials, error) {
		return nil, permanentf(ReasonInvalidCredentials, "secrets-path.yaml of the secret cannot be used: "+format, args...)
	}
	if len(secretsPathYAML) > maxByPath {
		return bad("it is larger than 1 MiB")
	}
	var file map[string]byPath
	if err := unmarshal(secretsPathYAML, &file); err != nil {
		// The parser's own words may repeat a value.
		return bad("want a map of path to username, password, caBundle, sshPrivateKey, sshKnownHosts (texts), insecureSkipVerify, basicHTTP (true or false)")
	}
	if len(file) > maxByPathCount {
		return bad("it has more than %d paths", maxByPathCount)
	}
	all := make(map[string]Credentials, len(file))
	for _, key := range slices.Sorted(maps.Keys(file)) {
		v := file[key]
		c := Credentials{Username: v.Username, Password: v.Password, InsecureSkipVerify: v.InsecureSkipVerify, BasicHTTP: v.BasicHTTP}
		var ok [3]bool
		c.CABundle, ok[0] = plainOrBase64(v.CABundle, "-----BEGIN")
		c.SSHPrivateKey, ok[1] = plainOrBase64(v.SSHPrivateKey, "-----BEGIN")
		c.KnownHosts, ok[2] = plainOrBase64(v.SSHKnownHosts, " ")
		if ok != [3]bool{true, true, true} {
			return bad("caBundle, sshPrivateKey and sshKnownHosts of path %s have to be in base64", quotedLine(key))
		}
		if why := c.mistake(); why != "" {
			return bad("path %s: %s", quotedLine(key), why)
		}
		if _, err := path.Match(key, ""); err != nil {
			return bad("path %s is a pattern that cannot match: a [ or \\ is not closed", quotedLine(key))
		}
		all[key] = c
	}
	return all, nil
}

// plainOrBase64 decodes a value that is written as it is, recognized by mark, a part of it,
// or in base64.
func plainOrBase64(s, mark string) (value []byte, ok bool) {
	if s == "" {
		return nil, true
	}
	if strings.Contains(strings.TrimSpace(s), mark) {
		return []byte(s), true
	}
	value, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s))
	return value, err == nil
}

// For returns the credentials for a directory of the repository: with ByPath those of
// exactly this path, else of the lexically first pattern that matches it, else none;
// without it Default.
func (a Access) For(dir string) Credentials {
	if a.ByPath == nil {
		return a.Default
	}
	dir = strings.TrimPrefix(path.Clean("/"+dir), "/")
	for _, form := range []string{dir, "/" + dir, dir + "/", "./" + dir} {
		if c, ok := a.ByPath[form]; ok {
			return c
		}
	}
	if c, ok := a.ByPath["."]; ok && dir == "" {
		return c
	}
	for _, pattern := range slices.Sorted(maps.Keys(a.ByPath)) {
		if ok, err := path.Match(strings.Trim(pattern, "/"), dir); err == nil && ok {
			return a.ByPath[pattern]
		}
	}
	return Credentials{}
}

// withoutSecrets is c without user name, password and key.
func (c Credentials) withoutSecrets() Credentials {
	c.Username, c.Password, c.SSHPrivateKey = "", "", nil
	return c
}
