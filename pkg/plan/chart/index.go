package chart

import (
	"cmp"
	"encoding/hex"
	"net/url"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// An Entry is one version of a chart in a Helm repository.
type Entry struct {
	Name    string
	Version string
	URL     string // of the archive; may be relative, see Resolve
	Digest  string // "sha256:hex" of the archive; empty where the index has none that can be used
}

// IndexURL returns where the index of a Helm repository is. A query is kept: it may be a
// signature.
func IndexURL(repoURL string) (string, error) {
	s, err := url.JoinPath(repoURL, "index.yaml")
	if err != nil {
		return "", invalid("helm.repo", repoURL, "it is no URL")
	}
	return s, nil
}

// versions sort as Helm's do, also in that a version that is none is less than
// every other: which entry is chosen depends on it where versions are equal.
type versions struct {
	entries []Entry
	parsed  []*semver.Version // nil: none
}

func (v versions) Len() int { return len(v.entries) }

func (v versions) Swap(i, j int) {
	v.entries[i], v.entries[j] = v.entries[j], v.entries[i]
	v.parsed[i], v.parsed[j] = v.parsed[j], v.parsed[i]
}

func (v versions) Less(i, j int) bool {
	switch {
	case v.parsed[i] == nil:
		return true
	case v.parsed[j] == nil:
		return false
	}
	return v.parsed[i].LessThan(v.parsed[j])
}

// sortedVersions returns the entries, the highest version first, in Helm's order. A version
// that is not semver is lower than every other.
func sortedVersions(entries []Entry) versions {
	v := versions{entries: slices.Clone(entries), parsed: make([]*semver.Version, len(entries))}
	for i, e := range v.entries {
		if parsed, err := semver.NewVersion(e.Version); err == nil {
			v.parsed[i] = parsed
		}
	}
	sort.Sort(sort.Reverse(v))
	return v
}

// Choose picks a version as Helm does (IndexFile.Get): the one that is written
// exactly so, else the highest that satisfies the range; an empty version is
// the newest stable one. Errors are Terminal: ChartNotFound, VersionNotFound,
// InvalidVersion, InvalidIndex.
func (id Index) Choose(name, version string) (Entry, error) {
	entries, ok, err := id.versionsOf(name)
	switch {
	case err != nil:
		return Entry{}, err
	case !ok || len(entries) == 0:
		return Entry{}, permanentf(ReasonChartNotFound, "the repository has no chart %s; %s", quotedLine(name), id.chartNames())
	}
	constraint, err := constraintOf(version)
	if err != nil {
		return Entry{}, err
	}
	v := sortedVersions(entries)
	at := -1
	if version != "" {
		at = slices.IndexFunc(v.entries, func(e Entry) bool { return e.Version == version })
	}
	for i := 0; at < 0 && i < len(v.entries); i++ {
		if v.parsed[i] != nil && constraint.Check(v.parsed[i]) {
			at = i
		}
	}
	if at < 0 {
		return Entry{}, permanentf(ReasonVersionNotFound, "chart %s has no version %s; %s", quotedLine(name), wantVersion(version), v.newestNames())
	}
	return v.entries[at].usable(name)
}

func constraintOf(version string) (*semver.Constraints, error) {
	c, err := semver.NewConstraint(cmp.Or(version, "*"))
	if err != nil {
		return nil, permanentf(ReasonInvalidVersion, "helm.version %s is neither a version nor a range; want 1.2.3, ^1.2, >=1.0 <2.0 or nothing for the newest", quotedLine(version))
	}
	return c, nil
}

func wantVersion(version string) string {
	if version == "" {
		return "that is stable; ask for prereleases with a range like >=0-0"
	}
	return "that is or satisfies " + quotedLine(version) + " (a range allows prereleases only if it names one: >=1.0.0-0)"
}

// newestNames names some versions that there are.
func (v versions) newestNames() string {
	var list []string
	for i, e := range v.entries {
		if v.parsed[i] != nil && len(list) < 3 {
			list = append(list, quotedLine(e.Version))
		}
	}
	if len(list) == 0 {
		return "none of its versions is a semantic version"
	}
	return "the newest are " + strings.Join(list, ", ")
}

// usable refuses what an index may say, but a chart cannot be.
func (e Entry) usable(name string) (Entry, error) {
	lie := func(what, value string) (Entry, error) {
		return Entry{}, permanentf(ReasonInvalidIndex, "the repository's index.yaml cannot be used: chart %s version %s has %s %s", quotedLine(name), quotedLine(e.Version), what, quotedLine(value))
	}
	e.Name = cmp.Or(e.Name, name)
	switch {
	case !fileName(e.Name):
		return lie("the name", e.Name)
	case e.Version == "" || strings.ContainsAny(e.Version, `/\`) || strings.Contains(e.Version, "..") || unprintable(e.Version):
		return lie("the version", e.Version)
	case e.URL == "":
		return lie("no URL", "")
	case unprintable(e.URL) || strings.Contains(e.URL, `\`):
		return lie("the URL", Redact(e.URL))
	}
	u, err := url.Parse(e.URL)
	if err != nil || u.User != nil || u.Opaque != "" || u.IsAbs() && !slices.Contains([]string{"http", "https", "oci"}, u.Scheme) || u.IsAbs() && u.Hostname() == "" {
		return lie("the URL (want http, https or oci, without user name and password)", Redact(e.URL))
	}
	e.Digest = digestOf(e.Digest)
	return e, nil
}

// fileName reports whether a chart's name can be the name of its directory, as
// Helm wants it.
func fileName(name string) bool {
	return name != "" && name != "." && name != ".." && path.Base(name) == name &&
		!strings.ContainsAny(name, `\:`) && !unprintable(name) && len(name) <= 250
}

// digestOf is a digest as the index of a repository has it, or nothing where
// it is in no form that Helm writes.
func digestOf(s string) string {
	h := strings.ToLower(strings.TrimPrefix(s, "sha256:"))
	if raw, err := hex.DecodeString(h); err != nil || len(raw) != 32 {
		return ""
	}
	return "sha256:" + h
}

// Resolve returns the absolute URL of the archive: a relative one is taken from the
// directory that the repository's URL names. The repository's query is kept (it may be a
// signature) where the entry has none of its own; it never goes to another host.
func (e Entry) Resolve(repoURL string) (string, error) {
	ref, err := url.Parse(e.URL)
	if err != nil {
		return "", permanentf(ReasonInvalidIndex, "the repository's index.yaml cannot be used: %s is no URL", quotedLine(Redact(e.URL)))
	}
	if ref.IsAbs() {
		return e.URL, nil
	}
	base, err := url.Parse(repoURL)
	if err != nil {
		return "", invalid("helm.repo", repoURL, "it is no URL")
	}
	base.RawPath = strings.TrimSuffix(base.RawPath, "/") + "/"
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	u := base.ResolveReference(ref)
	if ref.RawQuery == "" && ref.Host == "" {
		u.RawQuery = base.RawQuery
	}
	return u.String(), nil
}

// ExactTag returns the tag of a version that is no range: registries need not be asked
// which tags there are. A + is written as _, which tags allow.
func ExactTag(version string) (tag string, ok bool) {
	if _, err := semver.NewVersion(version); err != nil {
		return "", false
	}
	return strings.ReplaceAll(version, "+", "_"), true
}

// ChooseTag picks the tag of an OCI repository. If version is no range, it picks the tag
// that is written exactly so (with _ for +). Otherwise it picks the highest tag that is a
// semantic version and satisfies the range. An empty version is the newest stable one. If
// versions are equal, it takes the lexically first tag. Errors are Terminal:
// VersionNotFound, InvalidVersion.
func ChooseTag(tags []string, version string) (string, error) {
	tags = slices.Sorted(slices.Values(tags))
	constraint, err := constraintOf(version)
	_, exact := ExactTag(version)
	if exact || err != nil {
		for _, tag := range []string{version, strings.ReplaceAll(version, "+", "_")} {
			if _, found := slices.BinarySearch(tags, tag); found {
				return tag, nil
			}
		}
	}
	if err != nil {
		return "", err
	}
	// Helm sees strict versions only; others are better than none.
	for _, parse := range []func(string) (*semver.Version, error){semver.StrictNewVersion, semver.NewVersion} {
		var best string
		var highest *semver.Version
		for _, tag := range tags {
			v, err := parse(strings.ReplaceAll(tag, "_", "+"))
			if err == nil && constraint.Check(v) && (highest == nil || v.GreaterThan(highest)) {
				best, highest = tag, v
			}
		}
		if highest != nil {
			return best, nil
		}
	}
	return "", permanentf(ReasonVersionNotFound, "the registry has no tag %s; it has %s", wantVersion(version), firstNames(tags))
}

// firstNames names three of a sorted list, and says how many there are.
func firstNames(list []string) string {
	switch {
	case len(list) == 0:
		return "none"
	case len(list) <= 3:
		return strings.Join(quoted(list), ", ")
	}
	return strings.Join(quoted(list[:3]), ", ") + " and " + itoa(len(list)-3) + " more"
}

func quoted(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = quotedLine(s)
	}
	return out
}
