package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/config"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A treeKind says whether a tree is that of a commit or that of a submodule in it.
type treeKind int

const (
	wholeTree treeKind = iota
	moduleTree
)

// cacheBytes is how much a tree keeps of unpacked objects.
func (k treeKind) cacheBytes() cache.FileSize {
	if k == moduleTree {
		return moduleCacheBytes
	}
	return objectCacheBytes
}

// Bounds of the submodules of one commit. The limits of files, bytes and time are for the
// commit with all its submodules.
const (
	maxModules      = 100
	maxModuleDepth  = 10
	maxModulesBytes = 256 << 10 // of one .gitmodules
)

// moduleRetry is how long to wait after a fault of a submodule's remote. A push to that
// remote is not noticed, because only the repository itself is polled.
const moduleRetry = time.Minute

// modulesFile is where a repository says which submodules it has.
const modulesFile = ".gitmodules"

// A submodule is an entry of .gitmodules whose path is a submodule in the commit.
type submodule struct {
	path   string
	url    string // as written
	commit Commit
}

// parseModules returns the URLs that a file .gitmodules names, by path. The file comes from
// the repository. Errors are reconcile.Terminal, InvalidSubmodule.
func parseModules(data []byte) (map[string]string, error) {
	if len(data) > maxModulesBytes {
		return nil, permanentf(ReasonTooLarge, "%s is larger than %d KiB", modulesFile, maxModulesBytes>>10)
	}
	file := config.New()
	if err := config.NewDecoder(bytes.NewReader(data)).Decode(file); err != nil {
		return nil, permanentf(ReasonInvalidSubmodule, "%s is not a configuration of git", modulesFile)
	}
	urls := map[string]string{}
	for _, m := range file.Section("submodule").Subsections {
		written := m.Option("path")
		at := strings.TrimSuffix(written, "/")
		if at == "" {
			continue // git does not use it, either
		}
		if !fs.ValidPath(at) || at == "." || strings.ContainsFunc(at, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, permanentf(ReasonInvalidSubmodule, "%s has a submodule with path %q, which is no path in the repository", modulesFile, shorten(written))
		}
		if _, twice := urls[at]; !twice {
			urls[at] = m.Option("url")
		}
	}
	return urls, nil
}

// shorten cuts a text of a repository for a message.
func shorten(text string) string {
	runes := []rune(text)
	if len(runes) > 100 {
		return string(runes[:99]) + "…"
	}
	return text
}

// submodules returns the submodules of a tree, sorted by path. A submodule that .gitmodules
// does not name is left out, as git does.
func (t *Tree) submodules() ([]submodule, error) {
	file, err := t.findNode("read", modulesFile, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !file.mode.IsRegular():
		return nil, permanentf(ReasonInvalidSubmodule, "%s is not a file", modulesFile)
	case file.Size() > maxModulesBytes:
		return nil, permanentf(ReasonTooLarge, "%s is larger than %d KiB", modulesFile, maxModulesBytes>>10)
	}
	data, err := t.blob(file.hash)
	if err != nil {
		return nil, err
	}
	urls, err := parseModules(data)
	if err != nil {
		return nil, err
	}
	var list []submodule
	for _, at := range slices.Sorted(maps.Keys(urls)) {
		hash, _ := t.Hash(at)
		if commit, ok := strings.CutPrefix(hash, kindSubmodule); ok && commit != plumbing.ZeroHash.String() {
			list = append(list, submodule{path: at, url: urls[at], commit: Commit(commit)})
		}
	}
	return list, nil
}

// A moduleReader fetches the submodules of one commit, and counts what they cost.
type moduleReader struct {
	remotes *Remotes
	modules int
	entries int
	packed  int64
}

// read adds its submodules to a tree of a source, with theirs. depth is how many
// repositories the tree is in. The caller closes the tree also after an error.
func (m *moduleReader) read(ctx context.Context, src Source, tree *Tree, depth int) error {
	list, err := tree.submodules()
	if err != nil || len(list) == 0 {
		return err
	}
	if depth >= maxModuleDepth {
		return permanentf(ReasonTooLarge, "submodules are nested deeper than %d (at %q)", maxModuleDepth, shorten(list[0].path))
	}
	tree.modules = map[string]*Tree{}
	for _, sub := range list {
		if m.modules++; m.modules > maxModules {
			return permanentf(ReasonTooLarge, "the commit has more than %d submodules", maxModules)
		}
		of, err := moduleSource(src, sub.url)
		if err != nil {
			return sub.explain(src, of, err)
		}
		below, err := m.remotes.fetchTree(ctx, of, Reference{Revision: string(sub.commit)}, sub.commit, moduleTree)
		if err != nil {
			return sub.explain(src, of, err)
		}
		tree.modules[sub.path] = below // closed with the tree
		err = m.count(tree, sub, below)
		if err == nil && below.size.modules > 0 {
			err = m.read(ctx, of, below, depth+1)
		}
		if err != nil {
			return sub.explain(src, of, err)
		}
	}
	return nil
}

// count adds what a submodule costs, and refuses what is beyond the limits of one commit.
func (m *moduleReader) count(parent *Tree, sub submodule, below *Tree) error {
	m.entries += below.size.entries
	m.packed += below.packed
	limits := m.remotes.cfg.Limits
	below.base = parent.base + strings.Count(sub.path, "/") + 1
	switch {
	case m.entries > limits.Files:
		return permanentf(ReasonTooLarge, "the commit has more than %d files and directories with its submodules", limits.Files)
	case m.packed > limits.PackBytes:
		return tooLarge("the pack of the commit, with its submodules,", limits.PackBytes)
	case below.base+below.size.depth > limits.Depth:
		return permanentf(ReasonTooLarge, "directories are nested deeper than %d", limits.Depth)
	}
	return nil
}

// explain names the submodule in an error, and keeps its kind. A fault of the submodule's
// remote is no fault of the parent's host, and may pass without a new commit there.
func (s submodule) explain(parent, of Source, err error) error {
	where := "its URL is not usable"
	if ep, parsed := parseURL(of.URL); parsed == nil {
		where = fmt.Sprintf("%s of %s", strings.Trim(ep.path, "/"), ep.display())
	}
	named := func(err error) error {
		return fmt.Errorf("submodule %q (%s, commit %s): %w", shorten(s.path), shorten(where), s.commit.Short(), err)
	}
	var wait *reconcile.RequeueAfter
	var permanent *reconcile.Terminal
	switch reason := reconcile.ReasonOf(err); {
	case reason == reconcile.ReasonLocal:
		return err
	case reason == ReasonAuthenticationRefused && !sameRemoteHost(parent.URL, of.URL):
		return reconcile.RequeueError(ReasonRemoteFailing, moduleRetry, named(fmt.Errorf("%w; those of the GitRepo are sent to %s only", err, Host(parent.URL))))
	case errors.As(err, &wait):
		return reconcile.RequeueError(ReasonRemoteFailing, wait.After, named(wait.Err))
	case errors.As(err, &permanent) && remoteReasons[reason]:
		return reconcile.RequeueError(ReasonRemoteFailing, moduleRetry, named(permanent.Err))
	case errors.As(err, &permanent):
		return reconcile.TerminalError(reason, named(permanent.Err))
	}
	return named(err)
}

// remoteReasons are the reasons that a change at the remote can remove.
var remoteReasons = map[string]bool{
	ReasonAuthenticationRefused: true, ReasonRepositoryNotFound: true, ReasonEmptyRepository: true, ReasonRevisionNotFound: true,
	ReasonCertificateRefused: true, ReasonHostKeyRefused: true, ReasonRedirected: true, ReasonNotGit: true,
}

// moduleSource returns the source of a submodule: its URL, and how to talk to it. The
// credentials of the parent are for the parent's scheme, host and port only. After an
// error the source has the URL alone.
func moduleSource(parent Source, raw string) (Source, error) {
	of := Source{URL: raw, CABundle: parent.CABundle, InsecureSkipTLSVerify: parent.InsecureSkipTLSVerify}
	if isRelative(raw) {
		resolved, err := resolveRelative(parent.URL, raw)
		if err != nil {
			return of, err
		}
		of.URL = resolved
	}
	ep, err := parseURL(of.URL)
	if err != nil {
		return of, permanentf(ReasonInvalidSubmodule, "%w", errors.Unwrap(err))
	}
	if !sameRemoteHost(parent.URL, of.URL) {
		return of, nil
	}
	of.Credentials = parent.Credentials
	if from, err := parseURL(parent.URL); err == nil && of.Credentials.anonymous() && ep.user == "" && ep.scheme != "ssh" {
		of.Credentials.Username, of.Credentials.Password = from.user, from.password
	}
	return of, nil
}

// anonymous reports whether there is nothing to send.
func (c Credentials) anonymous() bool {
	return c.Username == "" && c.Password == "" && len(c.SSHPrivateKey) == 0 && c.App == nil
}

// sameRemoteHost reports whether two URLs have the same scheme, host and port.
func sameRemoteHost(a, b string) bool {
	host := Host(a)
	return host != "" && host == Host(b)
}

// isRelative reports whether the URL of a submodule is relative to that of its parent.
func isRelative(raw string) bool {
	return strings.HasPrefix(raw, "./") || strings.HasPrefix(raw, "../")
}

// resolveRelative resolves the URL of a submodule against that of its parent, which is
// valid, as git does: "../other" is beside the parent.
func resolveRelative(parent, relative string) (string, error) {
	start := strings.Index(parent, "://")
	if start >= 0 {
		start += len("://")
		slash := strings.IndexByte(parent[start:], '/')
		if slash < 0 {
			slash = len(parent) - start
		}
		start += slash
	} else { // user@host:path, where an IPv6 address is in brackets
		start = strings.IndexByte(parent, ']') + 1
		start += strings.IndexByte(parent[start:], ':') + 1
	}
	prefix, rest := parent[:start], parent[start:]
	if strings.HasPrefix(rest, "/") {
		prefix += "/"
	}
	parts := strings.FieldsFunc(rest, func(r rune) bool { return r == '/' })
	for part := range strings.SplitSeq(relative, "/") {
		switch part {
		case "", ".":
		case "..":
			if len(parts) == 0 {
				return "", permanentf(ReasonInvalidSubmodule, "the relative URL leads out of the host of its parent")
			}
			parts = parts[:len(parts)-1]
		default:
			parts = append(parts, part)
		}
	}
	return prefix + strings.Join(parts, "/"), nil
}
