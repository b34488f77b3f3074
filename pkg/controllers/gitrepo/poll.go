package gitrepo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/source"
)

// resolver is what the poller needs of package git.
type resolver interface {
	Resolve(ctx context.Context, src git.Source, ref git.Reference) (git.Commit, error)
}

// A poller keeps the heads of all remotes that GitRepos follow. Each distinct
// remote is asked once per interval: the shortest that a follower wants.
//
// A host that cannot be reached is tried through one of its remotes at a time,
// ever more rarely, until it answers again.
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
	ref       git.Reference
	followers map[kube.Key]*follower
	head      *source.Head
	failures  int
}

// A follower is a GitRepo that wants to know a remote's head.
type follower struct {
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
	generation int64 // of the spec; asked anew when it changes
}

// id names the remote of a want. Those that are polled and those that are not
// are kept apart, so that a poll does not bring news to who does not want it.
func (w want) id() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%v", w.src.ID(), w.ref.Branch, w.ref.Revision, w.interval > 0))
	return hex.EncodeToString(sum[:16])
}

// follow is the head of what a GitRepo wants, or nil while it is being asked;
// the GitRepo is then woken up. A new generation asks anew.
func (p *poller) follow(key kube.Key, w want) *source.Head {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := w.id()
	if old, ok := p.follows[key]; ok && old != id {
		p.drop(key)
	}
	p.follows[key] = id
	r := p.remotes[id]
	if r == nil {
		r = &remote{src: w.src, ref: w.ref, followers: map[kube.Key]*follower{}}
		p.remotes[id] = r
	}
	f := r.followers[key]
	if f == nil {
		f = &follower{has: -1}
		r.followers[key] = f
	}
	f.interval = w.interval
	f.wants = w.generation
	if f.has != f.wants {
		p.ask(kube.Key{Name: id})
		return nil
	}
	return r.head
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

// poll asks one remote, and says when it wants to be asked again. What it finds
// is kept; who follows it is woken up if that is news.
func (p *poller) poll(ctx context.Context, id string) time.Duration {
	job, wait := p.begin(id)
	if job == nil {
		return wait
	}
	commit, err := p.git.Resolve(ctx, job.src, job.ref)
	if ctx.Err() != nil {
		p.abandon(job)
		return 0
	}
	return p.end(job, source.Head{Commit: string(commit), Err: err})
}

// A job is one question that is under way.
type job struct {
	id    string
	src   git.Source
	ref   git.Reference
	host  string
	wants map[kube.Key]int64 // what followers wanted when it began
}

// begin prepares a question, or says how long to wait for the host.
func (p *poller) begin(id string) (*job, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.remotes[id]
	if r == nil {
		return nil, 0
	}
	j := &job{id: id, src: r.src, ref: r.ref, host: git.Host(r.src.URL), wants: map[kube.Key]int64{}}
	for key, f := range r.followers {
		j.wants[key] = f.wants
	}
	h := p.hosts[j.host]
	if h == nil {
		return j, 0
	}
	if wait := h.until.Sub(p.now()); wait > 0 || h.probing {
		p.settle(r, j, source.Head{Err: h.err})
		return nil, max(wait, source.MinInterval)
	}
	h.probing = true
	return j, 0
}

// abandon forgets that a question was under way.
func (p *poller) abandon(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.hosts[j.host]; h != nil {
		h.probing = false
	}
}

// end keeps the answer.
func (p *poller) end(j *job, head source.Head) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.remotes[j.id]
	interval := time.Duration(0)
	if r != nil {
		interval = r.interval()
	}
	p.judge(j.host, j.id, interval, head.Err)
	if r == nil {
		return 0
	}
	if head.Err == nil {
		r.failures = 0
	} else {
		r.failures++
	}
	p.settle(r, j, head)
	if h := p.hosts[j.host]; h != nil {
		return max(h.until.Sub(p.now()), source.MinInterval)
	}
	return source.Delay(interval, r.failures, p.random())
}

// judge keeps count of a host that cannot be reached. When it can be again, its
// other remotes are asked, a little spread.
func (p *poller) judge(name, id string, interval time.Duration, err error) {
	h := p.hosts[name]
	if err == nil || !fault.IsWait(err) { // it answered, though perhaps not as we like
		if h == nil {
			return
		}
		delete(p.hosts, name)
		for other, r := range p.remotes {
			if other != id && git.Host(r.src.URL) == name {
				p.later(kube.Key{Name: other}, time.Duration(p.random()*float64(source.MinInterval)))
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
	h.until = p.now().Add(source.Delay(interval, h.failures, p.random()))
}

// settle keeps a head and wakes up the followers for whom it is news.
func (p *poller) settle(r *remote, j *job, head source.Head) {
	news := r.head == nil || r.head.Commit != head.Commit || text(r.head.Err) != text(head.Err) ||
		fault.ReasonOf(r.head.Err) != fault.ReasonOf(head.Err)
	r.head = &head
	for key, f := range r.followers {
		asked, ok := j.wants[key]
		waited := ok && f.has != asked
		if ok {
			f.has = asked
		}
		if news || waited {
			p.wake(key)
		}
	}
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

// poll is the turn of the loop that asks remotes. A failure is not the loop's:
// it is what GitRepos are told.
func (w *Worker) poll(ctx context.Context, key kube.Key) (kube.Next, error) {
	return kube.Next{After: w.poller.poll(ctx, key.Name)}, nil
}
