package webhook

import (
	"net/url"
	"regexp"
	"strings"
)

// A Repository identifies a repository on its host, whichever of its addresses a user or
// a webhook gives. Repositories are equal if they are the same one. The zero Repository
// is none.
type Repository struct {
	// Host is the host name in lower case, without a port: the addresses for HTTPS and SSH
	// have different ones.
	Host string
	// Path is the path on that host in lower case, without .git at its end.
	Path string
}

// Hosts of Azure DevOps. One organization has addresses on all of them.
const (
	azureHost       = "dev.azure.com"
	azureSSHHost    = "ssh.dev.azure.com"
	azureOldSSHHost = "vs-ssh.visualstudio.com"
	azureOldDomain  = ".visualstudio.com" // ORGANIZATION.visualstudio.com
	azureCollection = "defaultcollection" // may be in addresses of the old domain
)

// hostLetters are what names and addresses of hosts are made of.
const hostLetters = "abcdefghijklmnopqrstuvwxyz0123456789-._:"

// azureVersion is the first part of the path of SSH addresses of Azure DevOps.
var azureVersion = regexp.MustCompile(`^v[0-9]+$`)

// ParseRepository returns the Repository at the address of a git server: a URL, or
// [USER@]HOST:PATH. It returns false for an address without a host or without a path.
func ParseRepository(address string) (Repository, bool) {
	host, path, ok := split(strings.TrimSpace(address))
	if !ok {
		return Repository{}, false
	}
	host = strings.TrimRight(strings.ToLower(host), ".")
	path = strings.TrimSuffix(strings.Trim(strings.ToLower(path), "/"), ".git")
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		if part != "" {
			parts = append(parts, part)
		}
	}
	host, parts = azure(host, parts)
	if host == "" || strings.Trim(host, hostLetters) != "" || len(parts) == 0 {
		return Repository{}, false
	}
	return Repository{Host: host, Path: strings.Join(parts, "/")}, true
}

// split returns the host and the path of an address.
func split(address string) (host, path string, ok bool) {
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil {
			return "", "", false
		}
		switch strings.ToLower(u.Scheme) {
		case "http", "https", "ssh", "git", "git+ssh":
			return u.Hostname(), u.Path, true
		}
		return "", "", false
	}
	host, path, ok = strings.Cut(address, ":")
	if !ok || strings.ContainsAny(host, "/\\") {
		return "", "", false
	}
	if at := strings.LastIndex(host, "@"); at >= 0 {
		host = host[at+1:]
	}
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	return host, path, true
}

// azure returns the address in the form ORGANIZATION/PROJECT/REPOSITORY on dev.azure.com
// for all addresses of Azure DevOps. On other hosts it only drops _git, which a server of
// one's own has in addresses for HTTPS.
func azure(host string, parts []string) (string, []string) {
	switch {
	case host == azureSSHHost, host == azureOldSSHHost:
		host = azureHost
		if len(parts) > 0 && azureVersion.MatchString(parts[0]) {
			parts = parts[1:]
		}
	case strings.HasSuffix(host, azureOldDomain):
		if len(parts) > 0 && parts[0] == azureCollection {
			parts = parts[1:]
		}
		parts = append([]string{strings.TrimSuffix(host, azureOldDomain)}, parts...)
		host = azureHost
	}
	if at := len(parts) - 2; at >= 0 && parts[at] == "_git" {
		short := append(append([]string{}, parts[:at]...), parts[at+1])
		if host == azureHost && len(short) == 2 {
			short = append(short, short[1]) // the project has the name of the repository
		}
		parts = short
	}
	return host, parts
}
