package git

import (
	"net"
	"net/url"
	"regexp"
	"strings"
)

// An endpoint is a remote's URL in parts.
type endpoint struct {
	scheme   string // http, https or ssh
	user     string
	password string
	host     string // without brackets
	port     string // empty for the scheme's own
	path     string // as the remote wants it
}

// scpLike is [user@]host:path; a slash before the colon makes it a local path.
var scpLike = regexp.MustCompile(`^(?:([^@/:\[\]]+)@)?([^@/:\[\]]+|\[[0-9A-Fa-f:.]+\]):([^:].*)$`)

// bareHost matches the beginning of a URL whose scheme was forgotten: a host, and a
// port or a path; the first group is the port.
var bareHost = regexp.MustCompile(`^[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?:\.[A-Za-z0-9-]+|:([0-9]{1,5}))/`)

// wantedURL are the forms of a URL that are accepted.
const wantedURL = "must be https://…, http://…, ssh://… or user@host:path"

// parseURL takes a remote's URL apart. Local paths and other schemes are
// refused: they would read the disk of the process or speak without identity.
func parseURL(raw string) (endpoint, error) {
	bad := func(why string) (endpoint, error) {
		return endpoint{}, permanentf(ReasonInvalidURL, "repository URL %s", why)
	}
	switch {
	case raw == "":
		return bad("is empty")
	case len(raw) > 2048:
		return bad("is longer than 2048 bytes")
	case strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return bad("contains white space or control characters")
	}
	var ep endpoint
	if strings.Contains(raw, "://") {
		u, err := url.Parse(raw)
		if err != nil {
			return bad("cannot be parsed") // the parser's text repeats the URL, credentials included
		}
		if u.RawQuery != "" || u.Fragment != "" || u.ForceQuery {
			return bad("has a query or fragment")
		}
		ep = endpoint{scheme: strings.ToLower(u.Scheme), user: u.User.Username(), host: u.Hostname(), port: u.Port(), path: u.Path}
		ep.password, _ = u.User.Password()
	} else if m := bareHost.FindStringSubmatch(raw); m != nil && m[1] != "" {
		return bad("has a port and no scheme: did you forget https://? For SSH write ssh://HOST:PORT/PATH or USER@HOST:PATH")
	} else if m != nil {
		return bad(wantedURL + ": did you forget https://?")
	} else if m := scpLike.FindStringSubmatch(raw); m != nil {
		ep = endpoint{scheme: "ssh", user: m[1], host: strings.Trim(m[2], "[]"), path: m[3]}
	} else {
		return bad(wantedURL)
	}
	switch {
	case ep.scheme != "https" && ep.scheme != "http" && ep.scheme != "ssh":
		return bad(wantedURL)
	case ep.host == "" || strings.HasPrefix(ep.host, "-"):
		return bad("names no host")
	case strings.Trim(ep.path, "/") == "" || strings.HasPrefix(ep.path, "-"):
		return bad("names no repository")
	case strings.ContainsFunc(ep.path+ep.user+ep.host, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return bad("contains control characters")
	case strings.HasPrefix(ep.user, "-"):
		return bad("has a user name that starts with a dash")
	}
	return ep, nil
}

// address is host:port, with the scheme's port where none is given.
func (e endpoint) address() string {
	port := e.port
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "ssh": "22"}[e.scheme]
	}
	return net.JoinHostPort(e.host, port)
}

// display returns the host as messages show it: with its port if that was given.
func (e endpoint) display() string {
	if e.port == "" {
		return e.host
	}
	return net.JoinHostPort(e.host, e.port)
}

// baseURL is the URL of an HTTP remote without credentials and without a slash at
// its end.
func (e endpoint) baseURL() *url.URL {
	host := e.display()
	if e.port == "" && strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return &url.URL{Scheme: e.scheme, Host: host, Path: strings.TrimRight(e.path, "/")}
}

// command is the command that runs a service at an SSH remote. The remote gives it to a
// shell, so the path is quoted.
func (e endpoint) command(run service) string {
	path := e.path
	if strings.HasPrefix(path, "/~") {
		path = path[1:] // ssh://host/~user/repo means the home of user
	}
	quoted := strings.NewReplacer(`'`, `'\''`, `!`, `'\!'`).Replace(path)
	return string(run) + " '" + quoted + "'"
}

// OverSSH reports whether a repository URL is one that is reached over SSH.
func OverSSH(rawURL string) bool {
	ep, err := parseURL(rawURL)
	return err == nil && ep.scheme == "ssh"
}

// Host returns what a repository URL connects to: scheme, host and port, lower case, or
// "" if it names no host. Remotes with the same host share its backoff. The scheme is
// part of it because a server does not answer requests of another scheme.
func Host(rawURL string) string {
	ep, err := parseURL(rawURL)
	if err != nil {
		return ""
	}
	return ep.scheme + "://" + strings.ToLower(ep.address())
}

// HasCredentials reports whether a repository URL holds credentials that are sent to a
// server of HTTP.
func HasCredentials(rawURL string) bool {
	ep, err := parseURL(rawURL)
	return err == nil && ep.scheme != "ssh" && (ep.user != "" || ep.password != "")
}
