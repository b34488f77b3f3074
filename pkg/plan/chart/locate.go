package chart

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Kind says how a chart is fetched.
type Kind string

// The kinds. A chart that stands in the tree needs no Request and has none.
const (
	Repository Kind = "repository" // a Helm repository: index.yaml, then an archive
	OCI        Kind = "oci"        // an artifact of a registry
	Archive    Kind = "archive"    // one file over HTTP(S)
	Git        Kind = "git"        // a directory of a git repository
)

// A Location is what a Request means.
type Location struct {
	Kind Kind
	// URL is where it is, without what the fields below say: of an OCI artifact
	// with oci:// and without tag, of a git repository as pkg/git takes it, of a
	// Helm repository as it was written. It may hold user name and password.
	URL      string
	Subdir   string // the part of an archive or git repository to use; empty: all of it
	Ref      string // branch, tag or commit of a git repository, digest ("sha256:hex") of an OCI artifact; empty: none is named
	Depth    int    // of the clone; 0 where none is asked for
	Checksum string // "sha256:hex" (or md5, sha1, sha512) of an archive; empty: none is asked for
	Format   string // of an archive, "tar.gz", where its name does not say it; "false": one plain file
	SSHKey   []byte // PEM, from the source itself; a secret
	Chart    string // name of the chart in a Helm repository
	Version  string // exact, or a range
}

// longestSource is enough for an RSA key of 8192 bits in sshkey=.
const longestSource = 16 << 10

// Locate understands what a Request names, in all forms that rancher/fleet
// accepts (fleet-api 5). Everything else is Terminal, InvalidSource. The text
// never holds a password or key.
func Locate(r Request) (Location, error) {
	field, source := "helm.chart", r.Chart
	if r.Repo != "" {
		field, source = "helm.repo", r.Repo
	}
	if why := unusable(source); why != "" {
		return Location{}, invalid(field, source, why)
	}
	if r.Repo != "" && (unprintable(r.Chart) || len(r.Chart) > longestSource) {
		return Location{}, invalid("helm.chart", r.Chart, "it holds control characters or is too long")
	}
	if unprintable(r.Version) || len(r.Version) > 256 {
		return Location{}, permanentf(ReasonInvalidVersion, "helm.version %s cannot be used: it holds control characters or is longer than 256 bytes", quotedLine(r.Version))
	}
	switch {
	case strings.HasPrefix(source, "oci://"):
		return locateOCI(r, field)
	case r.Repo != "":
		return locateRepository(r)
	}
	l, why := locateSource(source)
	if why != "" {
		return Location{}, invalid(field, source, why)
	}
	l.Version = r.Version
	return l, nil
}

func invalid(field, source, why string) error {
	return permanentf(ReasonInvalidSource, "%s %s cannot be used: %s", field, quotedLine(Redact(source)), why)
}

// unusable says what is wrong with any source, or nothing.
func unusable(source string) string {
	switch {
	case source == "":
		return "it is empty; name a directory, a URL, or a chart of helm.repo"
	case len(source) > longestSource:
		return "it is longer than 16 KiB"
	case unprintable(source) || strings.ContainsAny(source, "\r\n\t"):
		return "it holds control characters (a line break at its end?)"
	case strings.Contains(beforeQuery(source), `\`):
		return "it holds a backslash; paths and URLs are written with /"
	case strings.TrimSpace(source) != source:
		return "it begins or ends with a blank"
	}
	return ""
}

func beforeQuery(s string) string {
	s, _, _ = strings.Cut(s, "?")
	return s
}

// locateRepository is a Helm repository: where it is, the rest is in its index.
func locateRepository(r Request) (Location, error) {
	u, err := url.Parse(r.Repo)
	switch {
	case err != nil:
		return Location{}, invalid("helm.repo", r.Repo, "it is no URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return Location{}, invalid("helm.repo", r.Repo, "it has to begin with https://, http:// or oci://; a git repository or archive goes into helm.chart")
	case u.Hostname() == "":
		return Location{}, invalid("helm.repo", r.Repo, "it names no host")
	case r.Chart == "":
		return Location{}, permanentf(ReasonInvalidSource, "helm.chart is empty; name the chart of %s that is wanted", quotedLine(Redact(r.Repo)))
	}
	return Location{Kind: Repository, URL: r.Repo, Chart: r.Chart, Version: r.Version}, nil
}

// locateOCI is an artifact of a registry: oci://host/path[:tag][@digest]. In
// helm.repo it is the whole name of the chart; only of a dependency the chart's
// name comes after it.
func locateOCI(r Request, field string) (Location, error) {
	raw := r.Chart
	if r.Repo != "" {
		raw = r.Repo
	}
	bad := func(why string) (Location, error) { return Location{}, invalid(field, raw, why) }
	rest := strings.TrimPrefix(raw, "oci://")
	if strings.ContainsAny(rest, "?#") {
		return bad("an OCI reference has no query")
	}
	rest, digest, hasDigest := strings.Cut(rest, "@")
	if strings.Contains(digest, "/") {
		return bad("an OCI reference holds no user name; put credentials into a Secret (helmSecretName)")
	}
	host, name, _ := strings.Cut(strings.TrimRight(rest, "/"), "/")
	name, tag, hasTag := strings.Cut(name, ":")
	if r.Repo != "" && r.Chart != "" && (r.Archive || path.Base(name) != r.Chart) {
		name = strings.TrimPrefix(name+"/"+r.Chart, "/")
	}
	l := Location{Kind: OCI, URL: "oci://" + host + "/" + name, Version: r.Version}
	u, err := url.Parse(l.URL)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil:
		return bad("want oci://host/path")
	case !repositoryName(name):
		return bad("the part after the host is no name of an OCI repository: lower case letters, digits, and . _ - between them")
	case hasTag && !tagName(tag):
		return bad("the part after the colon is no tag")
	case hasTag && r.Version != "" && r.Version != tag && strings.ReplaceAll(r.Version, "+", "_") != tag:
		return bad("it names tag " + quotedLine(tag) + " and helm.version names " + quotedLine(r.Version) + "; take one of them out")
	case hasTag:
		l.Version = tag
	}
	if hasDigest {
		if l.Ref = digest; !validDigest(digest) {
			return bad("want @sha256: and 64 hexadecimal digits")
		}
	}
	return l, nil
}

// repositoryName is the grammar of names in the OCI distribution specification.
func repositoryName(s string) bool {
	for part := range strings.SplitSeq(s, "/") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "" || strings.ContainsAny(part[:1]+part[len(part)-1:], "._-") {
			return false
		}
	}
	return len(s) <= 255
}

// tagName is the grammar of tags in the OCI distribution specification, with
// the + that Helm writes as _.
func tagName(s string) bool {
	return s != "" && len(s) <= 128 && !strings.ContainsAny(s[:1], ".-+") &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+") == ""
}

func validDigest(s string) bool {
	h, ok := strings.CutPrefix(s, "sha256:")
	_, err := hex.DecodeString(h)
	return ok && err == nil && len(h) == 64 && strings.ToLower(h) == h
}

// checksums are the lengths of digests in bytes.
var checksums = map[string]int{"md5": 16, "sha1": 20, "sha256": 32, "sha512": 64}

// formats are the accepted values of archive=.
var formats = []string{
	"tar", "tar.gz", "tgz", "tar.bz2", "tbz2", "tar.zst", "tar.zstd", "tzst", "tar.xz", "txz",
	"gz", "bz2", "zst", "zstd", "xz", "zip", "false",
}

// archiveQuery takes checksum= and archive= out of the query of an archive's
// URL. All else is kept as it stands: it may be signed.
func (l *Location) archiveQuery(u *url.URL) (why string) {
	kept, taken, why := splitQuery(u.RawQuery, "checksum", "archive")
	if why != "" {
		return why
	}
	u.RawQuery = kept
	if sum := taken["checksum"]; sum != "" {
		kind, value, ok := strings.Cut(sum, ":")
		kind, value = strings.ToLower(kind), strings.ToLower(value)
		size, known := checksums[kind]
		raw, err := hex.DecodeString(value)
		switch {
		case ok && kind == "file":
			return "a checksum in a file (checksum=file:) is not fetched; write it down: checksum=sha256:<hex>"
		case !ok || !known:
			return "checksum= has to be md5:, sha1:, sha256: or sha512: and the digest in hexadecimal digits"
		case err != nil || len(raw) != size:
			return "the " + kind + " of checksum= has to be " + strconv.Itoa(2*size) + " hexadecimal digits"
		}
		l.Checksum = kind + ":" + value
	}
	if format := taken["archive"]; format != "" {
		l.Format = strings.ToLower(strings.TrimPrefix(format, "."))
		if !slices.Contains(formats, l.Format) {
			return "archive= has to be one of " + strings.Join(formats, ", ")
		}
	}
	return ""
}

// gitQuery takes ref=, depth= and sshkey= out of the query of a git URL.
func (l *Location) gitQuery(u *url.URL) (why string) {
	kept, taken, why := splitQuery(u.RawQuery, "ref", "depth", "sshkey")
	if why != "" {
		return why
	}
	u.RawQuery = kept
	l.Ref = taken["ref"]
	if unprintable(l.Ref) {
		return "ref= holds control characters"
	}
	if depth := taken["depth"]; depth != "" {
		n, err := strconv.Atoi(depth)
		if err != nil || n <= 0 {
			return "depth= has to be a number above 0"
		}
		l.Depth = n
	}
	if key := taken["sshkey"]; key != "" {
		if l.SSHKey = decodeKey(key); len(l.SSHKey) == 0 {
			return "sshkey= has to be a private key in base64"
		}
	}
	return ""
}

// decodeKey reads base64 in the spellings that rancher/fleet reads. A + that
// was not escaped has become a blank.
func decodeKey(s string) []byte {
	for _, try := range []struct {
		encoding *base64.Encoding
		text     string
	}{
		{base64.RawURLEncoding, s},
		{base64.StdEncoding, strings.ReplaceAll(s, " ", "+")},
		{base64.URLEncoding, strings.ReplaceAll(s, " ", "+")},
		{base64.RawStdEncoding, strings.ReplaceAll(s, " ", "+")},
	} {
		if key, err := try.encoding.DecodeString(try.text); err == nil {
			return key
		}
	}
	return nil
}

// splitQuery takes the named parameters out of a query, decoded, the first of
// each name. The rest keeps its bytes and order.
func splitQuery(raw string, names ...string) (kept string, taken map[string]string, why string) {
	taken = map[string]string{}
	var rest []string
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		decoded, err := url.QueryUnescape(name)
		if err != nil || !slices.Contains(names, decoded) {
			if pair != "" {
				rest = append(rest, pair)
			}
			continue
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return "", nil, decoded + "= is not written as a query of a URL is"
		}
		if _, twice := taken[decoded]; !twice {
			taken[decoded] = value
		}
	}
	return strings.Join(rest, "&"), taken, ""
}
