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

// A poller knows the heads of all remotes that GitRepos follow. It asks each distinct
// remote once per interval for all branches and tags that its followers want. The
// interval is the shortest of its followers.
//
// If a host does not answer, the poller asks only one of its remotes at a time, with a
// growing delay, until the host answers again. If only a remote fails, the poller asks
// that remote with a growing delay.
type poller struct {
	git  resolver
	loop *kube.Controller // remotes
	// enqueue adds a GitRepo to the queue of the Worker.
	enqueue func(kube.Key)
	// pollNow enqueues a remote, to be asked at once.
	pollNow func(kube.Key)
	// pollAfter enqueues a remote, to be asked after a time.
	pollAfter func(kube.Key, time.Duration)
	random    func() float64
	now       func() time.Time
	metrics   *Metrics

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
	asked     time.Time // when it answered last
}

// A follower is a GitRepo that wants to know a head of a remote.
type follower struct {
	ref      git.Reference
	interval time.Duration // 0: only when asked for
	awaits   string        // the commit that a webhook announced; until it is there, the remote is asked often
	wants    occasion      // to ask for
	has      occasion      // that was asked for last
}

// An occasion is why a GitRepo wants its remote asked, apart from its interval.
type occasion struct {
	generation   int64  // of the spec
	announcement string // of a webhook; empty for none
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
		git: g, enqueue: wake, pollNow: ask, pollAfter: later, random: random, now: time.Now,
		remotes: map[string]*remote{}, follows: map[kube.Key]string{}, hosts: map[string]*host{},
	}
}

// want is what a GitRepo follows.
type want struct {
	src        git.Source
	ref        git.Reference
	interval   time.Duration
	generation int64 // of the spec; asked again when it changes
	// announcement is that of the last webhook; the remote is asked again when it changes.
	announcement string
	// awaits is the commit that the webhook announced, while the remote has to be asked
	// for it every gitrepo.AnnouncedInterval; empty otherwise.
	awaits string
}

// id returns the key of the remote that a GitRepo follows. A GitRepo without polling has
// a remote of its own: neither polling nor a webhook of another GitRepo delivers new
// commits to it.
func (w want) id(repo kube.Key) string {
	owner := ""
	if w.interval == 0 {
		owner = repo.String()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s", w.src.ID(), owner))
	return hex.EncodeToString(sum[:16])
}

// follow returns the head that a GitRepo wants. It returns nil while the remote is
// being asked; the answer then enqueues the GitRepo. A new generation or reference
// makes it ask the remote again. So does a new announcement, but then it returns the head
// that it knows: a GitRepo with many webhooks must not wait for the last of them.
func (p *poller) follow(key kube.Key, w want) *gitrepo.Head {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := w.id(key)
	if old, ok := p.follows[key]; ok && old != id {
		p.removeFollower(key)
	}
	p.follows[key] = id
	r := p.remotes[id]
	if r == nil {
		r = &remote{src: w.src, followers: map[kube.Key]*follower{}, heads: map[git.Reference]gitrepo.Head{}}
		p.remotes[id] = r
	}
	f := r.followers[key]
	if f == nil || f.ref != w.ref {
		f = &follower{ref: w.ref, has: occasion{generation: -1}}
		r.followers[key] = f
	}
	shorter := w.interval > 0 && w.interval < f.interval
	f.interval, f.awaits = w.interval, w.awaits
	f.wants = occasion{w.generation, w.announcement}
	head, known := r.heads[f.ref]
	switch {
	case !known || f.has.generation != f.wants.generation:
		p.pollNow(kube.Key{Name: id})
		return nil
	case f.has != f.wants:
		p.pollSoon(id, r)
	case shorter:
		p.pollAfter(kube.Key{Name: id}, w.interval) // the next time was chosen for the longer one
	}
	head.Announcement = f.has.announcement
	return &head
}

// commit returns the head that a GitRepo follows; empty if it is not known.
func (p *poller) commit(key kube.Key) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.remotes[p.follows[key]]
	if r == nil {
		return ""
	}
	return r.heads[r.followers[key].ref].Commit
}

// pollSoon enqueues a remote because of a webhook: at once, unless the remote has just
// answered, or has failed a short time before. An answer of a remote that fails can cost
// much, and webhooks must not make it more frequent. The caller holds the lock.
func (p *poller) pollSoon(id string, r *remote) {
	if wait := gitrepo.Delay(gitrepo.AnnouncedInterval, r.failures, 0) - p.now().Sub(r.asked); wait > 0 {
		p.pollAfter(kube.Key{Name: id}, wait)
		return
	}
	p.pollNow(kube.Key{Name: id})
}

// unfollow drops a GitRepo that does not follow a remote any more.
func (p *poller) unfollow(key kube.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeFollower(key)
}

// removeFollower drops a GitRepo. The caller holds the lock.
func (p *poller) removeFollower(key kube.Key) {
	id := p.follows[key]
	delete(p.follows, key)
	if r := p.remotes[id]; r != nil {
		delete(r.followers, key)
		if len(r.followers) == 0 {
			delete(p.remotes, id)
		}
	}
}

// poll asks one remote for its heads, stores them, and enqueues the followers whose
// head has changed. It returns when to ask the remote again.
func (p *poller) poll(ctx context.Context, id string) time.Duration {
	job, wait := p.beginPoll(id)
	if job == nil {
		return wait
	}
	began := p.now()
	answers := p.git.ResolveAll(ctx, job.src, job.refs)
	took := p.now().Sub(began)
	if ctx.Err() != nil {
		p.abortProbe(job)
		return 0
	}
	heads := map[git.Reference]gitrepo.Head{}
	for i, a := range answers {
		heads[job.refs[i]] = gitrepo.Head{Commit: string(a.Commit), Err: a.Err}
	}
	p.count(job, heads, took)
	return p.endPoll(job, heads)
}

// count adds a request to the metrics of the GitRepos that it was sent for.
func (p *poller) count(j *job, heads map[git.Reference]gitrepo.Head, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.remotes[j.id]
	if r == nil {
		return
	}
	for repo, f := range r.followers { // a series of a deleted GitRepo would stay
		if head, ok := heads[f.ref]; ok {
			p.metrics.recordPoll(repo, head.Err, took)
		}
	}
}

// A job is one question that is under way.
type job struct {
	id    string
	src   git.Source
	refs  []git.Reference // each once
	host  string
	wants map[kube.Key]occasion // what followers asked for when it began
}

// beginPoll prepares the request to a remote, or returns how long to wait for its host.
func (p *poller) beginPoll(id string) (*job, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.remotes[id]
	if r == nil {
		return nil, 0
	}
	j := &job{id: id, src: r.src, host: git.Host(r.src.URL), wants: map[kube.Key]occasion{}}
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
		p.storeHeads(r, j, j.sameForAll(gitrepo.Head{Err: h.err}))
		return nil, max(wait, gitrepo.MinInterval)
	}
	h.probing = true
	return j, 0
}

// sameForAll returns head for every reference that is asked for.
func (j *job) sameForAll(head gitrepo.Head) map[git.Reference]gitrepo.Head {
	heads := map[git.Reference]gitrepo.Head{}
	for _, ref := range j.refs {
		heads[ref] = head
	}
	return heads
}

// abortProbe records that the request to a failed host has ended without an answer.
func (p *poller) abortProbe(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.hosts[j.host]; h != nil {
		h.probing = false
	}
}

// endPoll stores the answers of a remote, and returns when to ask again.
func (p *poller) endPoll(j *job, heads map[git.Reference]gitrepo.Head) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.remotes[j.id]
	interval := time.Duration(0)
	if r != nil {
		interval = r.interval()
	}
	p.updateHost(j.host, j.id, interval, heads)
	if r == nil {
		return 0
	}
	if anyUsable(heads) {
		r.failures = 0
	} else {
		r.failures++
	}
	r.asked = p.now()
	p.storeHeads(r, j, heads)
	if h := p.hosts[j.host]; h != nil {
		return max(h.until.Sub(p.now()), gitrepo.MinInterval)
	}
	return gitrepo.Delay(r.interval(), r.failures, p.random())
}

// anyUsable reports whether a remote gave any usable answer.
func anyUsable(heads map[git.Reference]gitrepo.Head) bool {
	for _, h := range heads {
		if h.Err == nil {
			return true
		}
	}
	return false
}

// hostError returns the error that concerns the whole host; nil if there is none.
func hostError(heads map[git.Reference]gitrepo.Head) error {
	for _, h := range heads {
		if git.HostAway(h.Err) {
			return h.Err
		}
	}
	return nil
}

// updateHost counts the failures of a host that does not answer. When the host answers
// again, it enqueues the other remotes of the host, spread over a short time.
func (p *poller) updateHost(name, id string, interval time.Duration, heads map[git.Reference]gitrepo.Head) {
	h, err := p.hosts[name], hostError(heads)
	if err == nil { // the host answered, perhaps with an error
		if h == nil {
			return
		}
		delete(p.hosts, name)
		for other, r := range p.remotes {
			if other != id && git.Host(r.src.URL) == name {
				p.pollAfter(kube.Key{Name: other}, time.Duration(p.random()*float64(gitrepo.MinInterval)))
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

// storeHeads stores heads, and enqueues the followers whose head has changed. It drops
// heads without followers.
func (p *poller) storeHeads(r *remote, j *job, heads map[git.Reference]gitrepo.Head) {
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
			continue // this follower is new, and has enqueued the remote itself
		}
		asked, ok := j.wants[key]
		waited := ok && f.has != asked
		if ok {
			f.has = asked
		}
		if waited || !had || differ(last, head) {
			p.enqueue(key)
		}
	}
}

// differ reports whether two heads differ in a field that a GitRepo uses.
func differ(a, b gitrepo.Head) bool {
	return a.Commit != b.Commit || errorText(a.Err) != errorText(b.Err) || reconcile.ReasonOf(a.Err) != reconcile.ReasonOf(b.Err)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// interval returns the shortest interval of the followers; 0 if none polls.
func (r *remote) interval() time.Duration {
	shortest := time.Duration(0)
	for _, f := range r.followers {
		interval := f.interval
		if f.awaits != "" && f.awaits != r.heads[f.ref].Commit && (interval == 0 || interval > gitrepo.AnnouncedInterval) {
			interval = gitrepo.AnnouncedInterval
		}
		if interval > 0 && (shortest == 0 || interval < shortest) {
			shortest = interval
		}
	}
	return shortest
}

// poll is the reconcile function of the queue of remotes. It returns no error: the
// GitRepos report a remote that fails.
func (w *Worker) poll(ctx context.Context, key kube.Key) (kube.Result, error) {
	return kube.Result{After: w.poller.poll(ctx, key.Name)}, nil
}
