package gitrepo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// resolver is what the poller needs of package git.
type resolver interface {
	ResolveAll(ctx context.Context, src git.Source, refs []git.Reference) []git.Answer
}

// A poller keeps the heads of all remotes that GitRepos follow. Each distinct
// remote is asked once per interval, for all branches and tags that followers
// want: the interval is the shortest of theirs.
//
// A host that cannot be reached is tried through one of its remotes at a time, ever
// more rarely, until it answers again. A remote that fails on a reachable host is tried
// more rarely by itself.
type poller struct {
	git    resolver
	wake   func(kube.Key)                // a GitRepo
	ask    func(kube.Key)                // a remote, now
	later  func(kube.Key, time.Duration) // a remote, after a time
	random func() float64
	now    func() time.Time

	mu      sync.Mutex
	remotes map[string]*remote
	follows map[kube.Key]string // GitRepo to the id of its remote
	hosts   map[string]*host
}

// A remote is something to ask.
type remote struct {
	src       git.Source
	followers map[kube.Key]*follower
	heads     map[git.Reference]gitrepo.Head // what was found last
	failures  int
}

// A follower is a GitRepo that wants to know a head of a remote.
type follower struct {
	ref      git.Reference
	interval time.Duration // 0: only when asked for
	wants    int64         // the generation of the spec to ask for
	has      int64         // the generation that was asked for last
}

// A host is what is known of a host that failed.
type host struct {
	failures int
	until    time.Time // not asked before
	probing  bool      // one remote is being asked
	err      error
}

func newPoller(g resolver, wake, ask func(kube.Key), later func(kube.Key, time.Duration), random func() float64) *poller {
	return &poller{
		git: g, wake: wake, ask: ask, later: later, random: random, now: time.Now,
		remotes: map[string]*remote{}, follows: map[kube.Key]string{}, hosts: map[string]*host{},
	}
}

// want is what a GitRepo follows.
type want struct {
	src        git.Source
	ref        git.Reference
	interval   time.Duration
	generation int64 // of the spec; asked again when it changes
}

// id names the remote of a want. Remotes that are polled and remotes that are not have
// different ids, so that a poll does not deliver changes to followers that do not want
// them.
func (w want) id() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%v", w.src.ID(), w.interval > 0))
	return hex.EncodeToString(sum[:16])
}

// follow is the head of what a GitRepo wants, or nil while the remote is being asked;
// the answer then enqueues the GitRepo. A new generation or reference asks again.
func (p *poller) follow(key kube.Key, w want) *gitrepo.Head {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := w.id()
	if old, ok := p.follows[key]; ok && old != id {
		p.drop(key)
	}
	p.follows[key] = id
	r := p.remotes[id]
	if r == nil {
		r = &remote{src: w.src, followers: map[kube.Key]*follower{}, heads: map[git.Reference]gitrepo.Head{}}
		p.remotes[id] = r
	}
	f := r.followers[key]
	if f == nil || f.ref != w.ref {
		f = &follower{ref: w.ref, has: -1}
		r.followers[key] = f
	}
	f.interval = w.interval
	f.wants = w.generation
	head, known := r.heads[f.ref]
	if f.has != f.wants || !known {
		p.ask(kube.Key{Name: id})
		return nil
	}
	return &head
}

// unfollow forgets a GitRepo.
func (p *poller) unfollow(key kube.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(key)
}

func (p *poller) drop(key kube.Key) {
	id := p.follows[key]
	delete(p.follows, key)
	if r := p.remotes[id]; r != nil {
		delete(r.followers, key)
		if len(r.followers) == 0 {
			delete(p.remotes, id)
		}
	}
}

// poll asks one remote, and returns when to ask it again. It keeps what it finds, and
// wakes up the followers if that has changed.
func (p *poller) poll(ctx context.Context, id string) time.Duration {
	job, wait := p.begin(id)
	if job == nil {
		return wait
	}
	answers := p.git.ResolveAll(ctx, job.src, job.refs)
	if ctx.Err() != nil {
		p.abandon(job)
		return 0
	}
	heads := map[git.Reference]gitrepo.Head{}
	for i, a := range answers {
		heads[job.refs[i]] = gitrepo.Head{Commit: string(a.Commit), Err: a.Err}
	}
	return p.end(job, heads)
}

// A job is one question that is under way.
type job struct {
	id    string
	src   git.Source
	refs  []git.Reference // each once
	host  string
	wants map[kube.Key]int64 // what followers asked for when it began
}

// begin prepares a question, or says how long to wait for the host.
func (p *poller) begin(id string) (*job, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.remotes[id]
	if r == nil {
		return nil, 0
	}
	j := &job{id: id, src: r.src, host: git.Host(r.src.URL), wants: map[kube.Key]int64{}}
	for key, f := range r.followers {
		j.wants[key] = f.wants
		if !slices.Contains(j.refs, f.ref) {
			j.refs = append(j.refs, f.ref)
		}
	}
	h := p.hosts[j.host]
	if h == nil {
		return j, 0
	}
	if wait := h.until.Sub(p.now()); wait > 0 || h.probing {
		p.settle(r, j, j.all(gitrepo.Head{Err: h.err}))
		return nil, max(wait, gitrepo.MinInterval)
	}
	h.probing = true
	return j, 0
}

// all is the same head for all that is asked for.
func (j *job) all(head gitrepo.Head) map[git.Reference]gitrepo.Head {
	heads := map[git.Reference]gitrepo.Head{}
	for _, ref := range j.refs {
		heads[ref] = head
	}
	return heads
}

// abandon forgets a request that was under way.
func (p *poller) abandon(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.hosts[j.host]; h != nil {
		h.probing = false
	}
}

// end keeps the answers.
func (p *poller) end(j *job, heads map[git.Reference]gitrepo.Head) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.remotes[j.id]
	interval := time.Duration(0)
	if r != nil {
		interval = r.interval()
	}
	p.judge(j.host, j.id, interval, heads)
	if r == nil {
		return 0
	}
	if good(heads) {
		r.failures = 0
	} else {
		r.failures++
	}
	p.settle(r, j, heads)
	if h := p.hosts[j.host]; h != nil {
		return max(h.until.Sub(p.now()), gitrepo.MinInterval)
	}
	return gitrepo.Delay(interval, r.failures, p.random())
}

// good reports whether a remote gave any answer that is of use.
func good(heads map[git.Reference]gitrepo.Head) bool {
	for _, h := range heads {
		if h.Err == nil {
			return true
		}
	}
	return false
}

// away is the error that says that a whole host is away, or nil.
func away(heads map[git.Reference]gitrepo.Head) error {
	for _, h := range heads {
		if git.HostAway(h.Err) {
			return h.Err
		}
	}
	return nil
}

// judge keeps count of a host that cannot be reached. When it can be again, its
// other remotes are asked, a little spread.
func (p *poller) judge(name, id string, interval time.Duration, heads map[git.Reference]gitrepo.Head) {
	h, err := p.hosts[name], away(heads)
	if err == nil { // it answered, though perhaps not as we like
		if h == nil {
			return
		}
		delete(p.hosts, name)
		for other, r := range p.remotes {
			if other != id && git.Host(r.src.URL) == name {
				p.later(kube.Key{Name: other}, time.Duration(p.random()*float64(gitrepo.MinInterval)))
			}
		}
		return
	}
	if h == nil {
		h = &host{}
		p.hosts[name] = h
	}
	h.failures++
	h.probing = false
	h.err = err
	h.until = p.now().Add(gitrepo.Delay(interval, h.failures, p.random()))
}

// settle keeps heads and wakes up the followers whose head has changed. It forgets
// heads that have no follower any more.
func (p *poller) settle(r *remote, j *job, heads map[git.Reference]gitrepo.Head) {
	old := r.heads
	r.heads = map[git.Reference]gitrepo.Head{}
	for key, f := range r.followers {
		head, found := heads[f.ref]
		last, had := old[f.ref]
		switch {
		case found:
			r.heads[f.ref] = head
		case had:
			r.heads[f.ref] = last
		}
		if !found {
			continue // it came meanwhile, and has asked for itself
		}
		asked, ok := j.wants[key]
		waited := ok && f.has != asked
		if ok {
			f.has = asked
		}
		if waited || !had || differ(last, head) {
			p.wake(key)
		}
	}
}

// differ reports whether two heads differ for a follower.
func differ(a, b gitrepo.Head) bool {
	return a.Commit != b.Commit || text(a.Err) != text(b.Err) || reconcile.ReasonOf(a.Err) != reconcile.ReasonOf(b.Err)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// interval is the shortest that a follower wants, or 0 if none wants any.
func (r *remote) interval() time.Duration {
	shortest := time.Duration(0)
	for _, f := range r.followers {
		if f.interval > 0 && (shortest == 0 || f.interval < shortest) {
			shortest = f.interval
		}
	}
	return shortest
}

// poll is the reconcile function of the loop that asks remotes. It never fails: a
// failure to ask shows at the GitRepos.
func (w *Worker) poll(ctx context.Context, key kube.Key) (kube.Result, error) {
	return kube.Result{After: w.poller.poll(ctx, key.Name)}, nil
}
