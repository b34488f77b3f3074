package chart

import (
	"net/url"
	"path"
	"regexp"
	"strings"
)

// shorthands are hosts whose repositories need no scheme: host/owner/name.
var shorthands = []string{"github.com", "gitlab.com", "bitbucket.org"}

// scpLike is user@host:path. Without a user it would be a drive or a port.
var scpLike = regexp.MustCompile(`^([^@/:\[\]?]+)@([^@/:\[\]?]+|\[[0-9A-Fa-f:.]+\]):([^:].*)$`)

// locateSource is a chart that is fetched by its own URL. why says what is wrong.
func locateSource(source string) (l Location, why string) {
	forced, rest := cutForced(source)
	switch forced {
	case "git", "ssh":
		return locateGit(rest)
	case "http", "https":
		return locateArchive(rest)
	case "s3", "gcs", "hg", "file":
		return Location{}, "the getter " + forced + ":: is not supported; publish the chart over https, in a registry or in git"
	}
	scheme, _, hasScheme := strings.Cut(beforeQuery(rest), "://")
	switch strings.ToLower(scheme) {
	case "http", "https":
		if hasScheme {
			return locateArchive(rest)
		}
	case "git", "ssh":
		if hasScheme {
			return locateGit(rest)
		}
	}
	for _, host := range shorthands {
		if strings.HasPrefix(rest, host+"/") {
			return locateShorthand(rest)
		}
	}
	switch {
	case scpLike.MatchString(beforeQuery(rest)):
		return locateGit(rest)
	case hasScheme:
		return Location{}, "the scheme " + quotedLine(scheme) + " is not supported; want https, http, oci, ssh or git::"
	case len(rest) > 1 && rest[1] == ':':
		return Location{}, "it looks like a path with a drive letter; name a directory of the repository"
	}
	return Location{}, "it is no directory of the repository, and no URL; want a directory, https://, oci://, git::, or a chart of helm.repo"
}

// cutForced takes "getter::" off.
func cutForced(source string) (forced, rest string) {
	forced, rest, ok := strings.Cut(source, "::")
	if !ok || forced == "" || strings.Trim(forced, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return "", source
	}
	return forced, rest
}

// cutSubdir takes "//dir" out of a source: the first two slashes that belong
// neither to the scheme nor to the query.
func cutSubdir(source string) (rest, subdir string) {
	before, query, hasQuery := strings.Cut(source, "?")
	from := 0
	if i := strings.Index(before, "://"); i >= 0 {
		from = i + len("://")
	}
	i := strings.Index(before[from:], "//")
	if i < 0 {
		return source, ""
	}
	rest, subdir = before[:from+i], before[from+i+2:]
	if hasQuery {
		rest += "?" + query
	}
	return rest, subdir
}

// cleanSubdir is a directory below the root, or why it is not.
func cleanSubdir(dir string) (clean, why string) {
	for part := range strings.SplitSeq(dir, "/") {
		if part == ".." {
			return "", "the directory after // leads out of the source"
		}
	}
	clean = strings.Trim(path.Clean("/"+dir), "/")
	return clean, ""
}

func locateArchive(source string) (Location, string) {
	rest, dir := cutSubdir(source)
	u, err := url.Parse(rest)
	switch {
	case err != nil:
		return Location{}, "it is no URL"
	case u.Scheme != "http" && u.Scheme != "https":
		return Location{}, "it has to be a URL that begins with https:// or http://"
	case u.Hostname() == "":
		return Location{}, "it names no host"
	}
	l := Location{Kind: Archive}
	var why string
	if l.Subdir, why = cleanSubdir(dir); why != "" {
		return Location{}, why
	}
	if why := l.archiveQuery(u); why != "" {
		return Location{}, why
	}
	u.Fragment, u.RawFragment = "", ""
	l.URL = u.String()
	return l, ""
}

func locateGit(source string) (Location, string) {
	rest, dir := cutSubdir(source)
	before, query, _ := strings.Cut(rest, "?")
	scp := scpLike.MatchString(before) && !strings.Contains(before, "://")
	u := &url.URL{RawQuery: query}
	if !scp {
		var err error
		if u, err = url.Parse(rest); err != nil {
			return Location{}, "it is no URL"
		}
		switch {
		case u.Scheme == "git":
			return Location{}, "git:// knows no identity of the server; use https:// or ssh://"
		case u.Scheme != "https" && u.Scheme != "http" && u.Scheme != "ssh":
			return Location{}, "a git repository has to be https://, http://, ssh:// or user@host:path"
		case u.Hostname() == "" || strings.Trim(u.Path, "/") == "":
			return Location{}, "it names no host or no repository"
		}
	}
	l := Location{Kind: Git}
	var why string
	if l.Subdir, why = cleanSubdir(dir); why != "" {
		return Location{}, why
	}
	if why := l.gitQuery(u); why != "" {
		return Location{}, why
	}
	if l.URL = before; scp {
		if u.RawQuery != "" {
			l.URL += "?" + u.RawQuery
		}
		return l, ""
	}
	u.Fragment, u.RawFragment = "", ""
	l.URL = u.String()
	return l, ""
}

// locateShorthand is host/owner/name[/dir], a repository over https.
func locateShorthand(source string) (Location, string) {
	rest, dir := cutSubdir(source)
	before, query, hasQuery := strings.Cut(rest, "?")
	parts := strings.SplitN(before, "/", 4)
	if len(parts) < 3 || parts[1] == "" || parts[2] == "" {
		return Location{}, "want " + parts[0] + "/owner/repository"
	}
	full := "https://" + strings.Join(parts[:3], "/")
	if !strings.HasSuffix(full, ".git") {
		full += ".git"
	}
	if len(parts) == 4 {
		dir = strings.Trim(parts[3]+"/"+dir, "/")
	}
	if dir != "" {
		full += "//" + dir
	}
	if hasQuery {
		full += "?" + query
	}
	return locateGit(full)
}

var queryValue = regexp.MustCompile(`[?&][^=&#]*=[^&#]*`)

// Redact returns a source as it may stand in texts: without password, key, and the values
// of a query, which may be a signature.
func Redact(source string) string {
	forced, rest := cutForced(source)
	before, query := rest, ""
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		before, query = rest[:i], rest[i:]
	}
	before = redactUser(before)
	if forced != "" {
		before = forced + "::" + before
	}
	return before + queryValue.ReplaceAllStringFunc(query, func(pair string) string {
		name, _, _ := strings.Cut(pair[1:], "=")
		switch strings.ToLower(name) {
		case "ref", "depth", "checksum", "archive":
			return pair
		}
		return pair[:1] + name + "=xxxxx"
	})
}

// redactUser takes a password out of what comes before the query, and a user
// name without password if it may be a token. A URL that cannot be read is
// taken to have the longest password that it can have.
func redactUser(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "", s
	} else {
		scheme += "://"
	}
	where := rest
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		where, _, _ = strings.Cut(rest, "/")
	} else if !ok {
		where, _, _ = strings.Cut(rest, "/")
	}
	at := strings.LastIndexByte(where, '@')
	if at < 0 {
		return s
	}
	user, _, hasPassword := strings.Cut(rest[:at], ":")
	switch {
	case hasPassword:
		user += ":xxxxx"
	case strings.HasPrefix(strings.ToLower(scheme), "http"):
		user = "xxxxx"
	}
	return scheme + user + rest[at:]
}
