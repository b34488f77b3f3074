package gitrepo

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A board is a poller with a clock, a host that answers what it is told, and a
// list of what the poller did.
type board struct {
	*poller
	t      *testing.T
	at     time.Time
	answer map[string]any // URL to commit or error
	asked  []string       // URLs
	woken  []string       // GitRepos
	queue  []string       // ids to ask now
	spread int            // remotes to ask a little later
}

func newBoard(t *testing.T) *board {
	b := &board{t: t, at: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), answer: map[string]any{}}
	b.poller = newPoller(b,
		func(k kube.Key) { b.woken = append(b.woken, k.Name) },
		func(k kube.Key) { b.queue = append(b.queue, k.Name) },
		func(k kube.Key, _ time.Duration) { b.spread++; b.queue = append(b.queue, k.Name) },
		func() float64 { return 0 })
	b.now = func() time.Time { return b.at }
	return b
}

// ResolveAll answers for a URL, or for a URL and branch.
func (b *board) ResolveAll(_ context.Context, src git.Source, refs []git.Reference) []git.Answer {
	b.asked = append(b.asked, src.URL)
	answers := make([]git.Answer, len(refs))
	for i, ref := range refs {
		answer, ok := b.answer[src.URL+" "+ref.Branch]
		if !ok {
			answer = b.answer[src.URL]
		}
		switch a := answer.(type) {
		case error:
			answers[i].Err = a
		case string:
			answers[i].Commit = git.Commit(a)
		default:
			b.t.Fatalf("nobody knows %s", src.URL)
		}
	}
	return answers
}

// run polls what is queued and returns the ids with the time to their next
// turn.
func (b *board) run() map[string]time.Duration {
	next := map[string]time.Duration{}
	for len(b.queue) > 0 {
		id := b.queue[0]
		b.queue = b.queue[1:]
		next[id] = b.poll(b.t.Context(), id)
	}
	return next
}

// took returns a list and empties it.
func took(list *[]string) []string {
	out := slices.Clone(*list)
	slices.Sort(out)
	*list = nil
	return out
}

func follow(b *board, repo, url string, interval time.Duration, generation int64) string {
	return followBranch(b, repo, url, "main", want{interval: interval, generation: generation})
}

func followBranch(b *board, repo, url, branch string, w want) string {
	w.src, w.ref = git.Source{URL: url}, git.Reference{Branch: branch}
	head := b.follow(kube.Key{Namespace: "ns", Name: repo}, w)
	switch {
	case head == nil:
		return "being asked"
	case head.Err != nil:
		return head.Err.Error()
	}
	return head.Commit
}

func same(t *testing.T, why string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s\n-want +got\n%s", why, diff)
	}
}

func TestOneRemoteForAll(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/r"] = "c1"
	same(t, "the first time", "being asked", follow(b, "one", "https://h/r", 15*time.Second, 1))
	same(t, "the first time", "being asked", follow(b, "two", "https://h/r", time.Minute, 1))
	next := b.run()
	same(t, "one remote", 1, len(next))
	for _, after := range next {
		same(t, "the shortest interval counts", 15*time.Second, after)
	}
	same(t, "each is told", []string{"one", "two"}, took(&b.woken))
	same(t, "known", "c1", follow(b, "two", "https://h/r", time.Minute, 1))
	same(t, "known, so nobody is asked", 0, len(b.queue))

	for id := range next {
		b.queue = []string{id}
	}
	b.asked = nil
	b.run()
	same(t, "asked once more", 1, len(b.asked))
	same(t, "nothing new wakes nobody up", []string(nil), took(&b.woken))

	b.answer["https://h/r"] = "c2"
	for id := range next {
		b.queue = []string{id}
	}
	b.run()
	same(t, "a new commit wakes up all", []string{"one", "two"}, took(&b.woken))

	b.unfollow(kube.Key{Namespace: "ns", Name: "one"})
	b.unfollow(kube.Key{Namespace: "ns", Name: "two"})
	same(t, "nobody follows, nothing is kept", 0, len(b.remotes))
	for id := range next {
		same(t, "and nothing is asked again", time.Duration(0), b.poll(t.Context(), id))
	}
}

// A new spec, and with it forceSyncGeneration, asks at once and does not trust
// what was found before.
func TestNewGenerationAsks(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/r"] = "c1"
	follow(b, "one", "https://h/r", time.Hour, 1)
	b.run()
	took(&b.woken)
	same(t, "a new generation", "being asked", follow(b, "one", "https://h/r", time.Hour, 2))
	b.run()
	same(t, "it waited, so it is told, though nothing is new", []string{"one"}, took(&b.woken))
	same(t, "asked", "c1", follow(b, "one", "https://h/r", time.Hour, 2))
}

func TestPollingDisabled(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/r"] = "c1"
	follow(b, "quiet", "https://h/r", 0, 1)
	for _, after := range b.run() {
		same(t, "asked once", time.Duration(0), after)
	}
	b.answer["https://h/r"] = "c2"
	follow(b, "loud", "https://h/r", time.Second, 1)
	b.run()
	took(&b.woken)
	same(t, "the polls of others bring it no news", "c1", follow(b, "quiet", "https://h/r", 0, 1))
	b.answer["https://h/r"] = reconcile.TerminalError("X", errors.New("no"))
	follow(b, "quiet", "https://h/r", 0, 2)
	for _, after := range b.run() {
		same(t, "a failure is tried again", 2*time.Second, after)
	}
}

func TestChangedURL(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/r"], b.answer["https://h/s"] = "c1", "c2"
	follow(b, "one", "https://h/r", time.Second, 1)
	b.run()
	follow(b, "one", "https://h/s", time.Second, 2)
	b.run()
	same(t, "the old remote is forgotten", 1, len(b.remotes))
	same(t, "the new one counts", "c2", follow(b, "one", "https://h/s", time.Second, 2))
}

// A host that is away costs one request per round, however many repositories
// are on it, and all are told.
func TestHostAway(t *testing.T) {
	b := newBoard(t)
	away := reconcile.RequeueError(git.ReasonUnreachable, 0, errors.New("h is away"))
	urls := []string{"https://h/a", "https://h/b", "https://h/c"}
	for _, u := range urls {
		b.answer[u] = away
		follow(b, u[len(u)-1:], u, 15*time.Second, 1)
	}
	b.answer["https://other/x"] = "c1"
	follow(b, "x", "https://other/x", 15*time.Second, 1)
	next := b.run()
	same(t, "one of the three, and the other host", []string{"https://h/a", "https://other/x"}, took(&b.asked))
	same(t, "all are told", []string{"a", "b", "c", "x"}, took(&b.woken))
	same(t, "in the same words", "h is away", follow(b, "c", urls[2], 15*time.Second, 1))

	b.at = b.at.Add(29 * time.Second)
	for id := range next {
		b.queue = append(b.queue, id)
	}
	b.run()
	same(t, "not before its time", []string{"https://other/x"}, took(&b.asked))

	b.at = b.at.Add(2 * time.Second)
	for id := range next {
		b.queue = append(b.queue, id)
	}
	b.run()
	same(t, "one probe, then more rarely", 2, len(took(&b.asked)))
	same(t, "no news", []string(nil), took(&b.woken))

	for _, u := range urls {
		b.answer[u] = "c9"
	}
	b.at = b.at.Add(time.Minute)
	for id, r := range b.remotes {
		if r.src.URL == urls[1] {
			b.queue = append(b.queue, id)
		}
	}
	b.run()
	same(t, "back: the others are asked soon after", 2, b.spread)
	same(t, "all three", []string{"https://h/a", "https://h/b", "https://h/c"}, took(&b.asked))
	same(t, "and told", []string{"a", "b", "c"}, took(&b.woken))
}

// All branches of one remote cost one question, and one that is missing does
// not slow the others down.
func TestBranchesOfOneRemote(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/r"] = "c1"
	b.answer["https://h/r dev"] = "d1"
	b.answer["https://h/r gone"] = reconcile.TerminalError(git.ReasonBranchNotFound, errors.New("no branch"))
	w := want{interval: 15 * time.Second, generation: 1}
	followBranch(b, "one", "https://h/r", "main", w)
	followBranch(b, "two", "https://h/r", "dev", w)
	followBranch(b, "three", "https://h/r", "gone", w)
	next := b.run()
	same(t, "one remote, so one question", 1, len(next))
	same(t, "asked once for all that came before", 1, len(slices.Compact(took(&b.asked))))
	for _, after := range next {
		same(t, "the missing branch does not slow down the others", 15*time.Second, after)
	}
	took(&b.woken)
	same(t, "main", "c1", followBranch(b, "one", "https://h/r", "main", w))
	same(t, "dev", "d1", followBranch(b, "two", "https://h/r", "dev", w))
	same(t, "gone", "no branch", followBranch(b, "three", "https://h/r", "gone", w))
	b.answer["https://h/r dev"] = "d2"
	for id := range next {
		b.queue = []string{id}
	}
	b.run()
	same(t, "only who follows what is new is told", []string{"two"}, took(&b.woken))

	same(t, "another branch is asked for", "being asked", followBranch(b, "two", "https://h/r", "main2", want{interval: 15 * time.Second, generation: 2}))
	b.answer["https://h/r main2"] = "e1"
	b.run()
	same(t, "and known then", "e1", followBranch(b, "two", "https://h/r", "main2", want{interval: 15 * time.Second, generation: 2}))
	same(t, "what nobody follows is forgotten", 3, len(b.remotes[w0(b)].heads))
}

// w0 is the id of the only remote.
func w0(b *board) string {
	for id := range b.remotes {
		return id
	}
	return ""
}

// A remote that fails on a host that can be reached holds up nobody else.
func TestFailingRemoteIsNotTheHosts(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/bad"] = reconcile.RequeueError(git.ReasonRemoteFailing, 0, errors.New("500"))
	b.answer["https://h/good"] = "c1"
	follow(b, "bad", "https://h/bad", 15*time.Second, 1)
	follow(b, "good", "https://h/good", 15*time.Second, 1)
	b.run()
	same(t, "both are asked", []string{"https://h/bad", "https://h/good"}, took(&b.asked))
	same(t, "the good one is known", "c1", follow(b, "good", "https://h/good", 15*time.Second, 1))
	same(t, "the host is not away", 0, len(b.hosts))
}

// A URL with the wrong scheme says nothing about those with the right one, though its
// host and port are theirs.
func TestWrongSchemeIsNotTheHosts(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h:80/r"] = reconcile.RequeueError(git.ReasonUnreachable, 0, errors.New("no TLS on this port"))
	b.answer["http://h:80/r"] = "c1"
	follow(b, "wrong", "https://h:80/r", 15*time.Second, 1)
	b.run()
	follow(b, "right", "http://h:80/r", 15*time.Second, 1)
	b.run()
	same(t, "both are asked", []string{"http://h:80/r", "https://h:80/r"}, took(&b.asked))
	same(t, "the right one is known", "c1", follow(b, "right", "http://h:80/r", 15*time.Second, 1))
}

// A repository that does not exist says nothing about its neighbours.
func TestPermanentFaultIsNotTheHosts(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/none"] = reconcile.TerminalError("RepositoryNotFound", errors.New("no such repository"))
	b.answer["https://h/good"] = "c1"
	follow(b, "none", "https://h/none", time.Second, 1)
	follow(b, "good", "https://h/good", time.Second, 1)
	b.run()
	same(t, "both are asked", 2, len(b.asked))
	same(t, "good", "c1", follow(b, "good", "https://h/good", time.Second, 1))
	var delays []time.Duration
	for range 5 {
		for id, r := range b.remotes {
			if r.src.URL == "https://h/none" {
				delays = append(delays, b.poll(t.Context(), id))
			}
		}
	}
	same(t, "ever more rarely", []time.Duration{4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second, 15 * time.Second}, delays)
}

// A webhook makes the poller ask at once, also where polling is disabled, and go on until
// the commit is there. Meanwhile the GitRepo has the head that was known before.
func TestAnnouncedCommit(t *testing.T) {
	for name, interval := range map[string]time.Duration{"Polled": time.Hour, "NotPolled": 0} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(t)
			b.answer["https://h/r"] = "c1"
			w := want{interval: interval, generation: 1}
			followBranch(b, "one", "https://h/r", "main", w)
			b.run()
			took(&b.woken)

			b.at = b.at.Add(time.Minute)
			w.announcement, w.awaits = "c2 at noon", "c2"
			same(t, "what is known", "c1", followBranch(b, "one", "https://h/r", "main", w))
			same(t, "asked at once", 1, len(b.queue))
			id := b.queue[0]
			for id, after := range b.run() {
				same(t, "asked again soon", 2*time.Second, after)
				same(t, "the answer is of that announcement", "c2 at noon", b.remotes[id].followers[kube.Key{Namespace: "ns", Name: "one"}].has.announcement)
			}
			same(t, "the GitRepo hears of the answer", []string{"one"}, took(&b.woken))

			w.announcement, w.awaits = "c3 at noon", "c3"
			spread := b.spread
			followBranch(b, "one", "https://h/r", "main", w)
			same(t, "a remote that has just answered is not asked at once", spread+1, b.spread)
			b.run()

			b.answer["https://h/r"] = "c3"
			same(t, "the commit is there", interval, b.poll(t.Context(), id))
			same(t, "and the GitRepo hears of it", []string{"one"}, slices.Compact(took(&b.woken)))
			same(t, "the head", "c3", followBranch(b, "one", "https://h/r", "main", w))
		})
	}
}

// Webhooks about a remote that fails do not make the poller ask it every two seconds.
func TestAnnouncedFailure(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/r"] = reconcile.TerminalError("TooLarge", errors.New("the list of references is too large"))
	w := want{interval: time.Minute, generation: 1}
	followBranch(b, "one", "https://h/r", "main", w)
	b.run()
	b.poll(t.Context(), b.follows[kube.Key{Namespace: "ns", Name: "one"}])
	b.at = b.at.Add(5 * time.Second)
	w.announcement, w.awaits = "c2 at noon", "c2"
	spread := b.spread
	followBranch(b, "one", "https://h/r", "main", w)
	same(t, "it failed twice: asked after 8 s, not after 5 s", spread+1, b.spread)

	b.at = b.at.Add(5 * time.Second)
	w.announcement, w.awaits = "c3 at noon", "c3"
	followBranch(b, "one", "https://h/r", "main", w)
	same(t, "after 10 s it is asked at once", spread+1, b.spread)
}

// An interval that becomes shorter counts at once, although the next time was chosen.
func TestShorterInterval(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/r"] = "c1"
	follow(b, "one", "https://h/r", time.Hour, 1)
	b.run()
	follow(b, "one", "https://h/r", time.Hour, 1)
	same(t, "nothing has changed", 0, b.spread)
	follow(b, "one", "https://h/r", 15*time.Second, 1)
	same(t, "asked sooner", 1, b.spread)
}

// A webhook of a GitRepo without polling does not deliver commits to another one.
func TestNotPolledAlone(t *testing.T) {
	b := newBoard(t)
	b.answer["https://h/r"] = "c1"
	follow(b, "one", "https://h/r", 0, 1)
	follow(b, "two", "https://h/r", 0, 1)
	b.run()
	took(&b.woken)
	b.answer["https://h/r"] = "c2"
	followBranch(b, "one", "https://h/r", "main", want{generation: 1, announcement: "c2 at noon", awaits: "c2"})
	b.run()
	same(t, "only one was asked for", []string{"one"}, took(&b.woken))
	same(t, "the other keeps its head", "c1", follow(b, "two", "https://h/r", 0, 1))
}
