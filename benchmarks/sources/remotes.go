package sources

import (
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/gitserver"
)

// The sizes of the network. Of the ten GitRepos of a good remote the last two
// follow another branch.
const (
	goodPerHost = 10
	perRemote   = 10
	onOther     = 2
	branchOther = "release"
)

// A remote is what GitRepos follow, good or not.
type remote struct {
	name  string
	kind  kind
	mixed bool // shares its host with others of both sorts
	url   string
	tree  string // working copy of a good one
	head  map[string]string
	repos map[string]string // branch by the name of the GitRepo
}

// A network is all remotes of the sources part: ten good ones on a host of
// their own, ten on a host that they share with one remote of each broken
// kind, and one of each broken kind on a host of its own.
type network struct {
	list   []*remote
	hosts  []*host
	ports  []*closedPort
	server *gitserver.Server
}

func (e *env) openRemotes() (*network, error) {
	server, err := gitserver.Start(gitserver.Config{Dir: e.path("sources-git")})
	if err != nil {
		return nil, err
	}
	n := &network{server: server}
	if err := n.fill(e); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func (n *network) fill(e *env) error {
	own, err := n.host()
	if err != nil {
		return err
	}
	shared, err := n.host()
	if err != nil {
		return err
	}
	for i := range 2 * goodPerHost {
		r := &remote{name: fmt.Sprintf("good-%02d", i), kind: good, mixed: i >= goodPerHost, head: map[string]string{}}
		r.tree = e.path("sources-" + r.name)
		r.url = map[bool]*host{false: own, true: shared}[r.mixed].add(r.name, good)
		if err := r.begin(n.server); err != nil {
			return err
		}
		n.list = append(n.list, r)
	}
	for i, k := range brokenKinds() {
		for _, mixed := range []bool{false, true} {
			r := &remote{name: fmt.Sprintf("broken-%d-%t", i, mixed), kind: k, mixed: mixed}
			if r.url, err = n.breakOne(r, shared); err != nil {
				return err
			}
			n.list = append(n.list, r)
		}
	}
	return nil
}

func (n *network) host() (*host, error) {
	h, err := openHost(n.server)
	if err == nil {
		n.hosts = append(n.hosts, h)
	}
	return h, err
}

// breakOne finds a broken remote its place and returns its URL.
func (n *network) breakOne(r *remote, shared *host) (string, error) {
	if r.kind == refused {
		p, err := closePort()
		if err != nil {
			return "", err
		}
		n.ports = append(n.ports, p)
		return p.url(r.name), nil
	}
	h := shared
	if !r.mixed {
		var err error
		if h, err = n.host(); err != nil {
			return "", err
		}
	}
	return h.add(r.name, r.kind), nil
}

func (n *network) close() {
	for _, h := range n.hosts {
		h.close()
	}
	for _, p := range n.ports {
		p.close()
	}
	n.server.Close()
}

// counts is what each remote was asked so far.
func (n *network) counts() map[string]asked {
	all := map[string]asked{}
	for _, h := range n.hosts {
		maps.Copy(all, h.counts())
	}
	return all
}

func (n *network) good() []*remote   { return n.where(func(r *remote) bool { return r.kind == good }) }
func (n *network) broken() []*remote { return n.where(func(r *remote) bool { return r.kind != good }) }

func (n *network) where(keep func(*remote) bool) []*remote {
	var out []*remote
	for _, r := range n.list {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

// groups are the remotes by how they behave and where they are.
func (n *network) groups() [][]*remote {
	var names []string
	byName := map[string][]*remote{}
	for _, r := range n.list {
		name := r.group()
		if byName[name] == nil {
			names = append(names, name)
		}
		byName[name] = append(byName[name], r)
	}
	var out [][]*remote
	for _, name := range names {
		out = append(out, byName[name])
	}
	return out
}

// group is what a table calls remotes like this one.
func (r *remote) group() string {
	switch {
	case r.kind != good:
		return string(r.kind)
	case r.mixed:
		return "good, on a host with broken ones"
	}
	return "good, on a host of their own"
}

// every is how often each branch is asked for: a good one by its interval, a
// broken one once a minute, after the time for which an answer is waited for.
func (r *remote) every() time.Duration {
	switch r.kind {
	case good:
		return interval
	case silent:
		return slowest + answerTime
	}
	return slowest
}

// follow lists the GitRepos that follow this remote, and their branches.
func (r *remote) follow(repos int) {
	r.repos = map[string]string{}
	for i := range repos {
		branch := gitserver.Branch
		if i >= perRemote-onOther && r.kind == good {
			branch = branchOther
		}
		r.repos[fmt.Sprintf("%s-%d", r.name, i)] = branch
	}
}

// branches is how many branches are followed.
func (r *remote) branches() int {
	distinct := map[string]bool{}
	for _, branch := range r.repos {
		distinct[branch] = true
	}
	return len(distinct)
}

// begin makes the repository with one commit on both branches.
func (r *remote) begin(server *gitserver.Server) error {
	if err := server.Create(r.name); err != nil {
		return err
	}
	if err := gitserver.Clone(server.Path(r.name), r.tree); err != nil {
		return err
	}
	if err := r.commit("first"); err != nil {
		return err
	}
	r.head[branchOther] = r.head[gitserver.Branch]
	_, err := gitserver.Git(r.tree, "push", "--quiet", "origin", gitserver.Branch, gitserver.Branch+":"+branchOther)
	return err
}

// commit commits a value to all folders of the main branch. No reader sees it
// before push.
func (r *remote) commit(value string) error {
	for i := range perRemote {
		if err := writeFile(filepath.Join(r.tree, fmt.Sprintf("app-%d", i), settingsFile), settings(i, value)); err != nil {
			return err
		}
	}
	head, err := commit(r.tree, value)
	r.head[gitserver.Branch] = head
	return err
}
