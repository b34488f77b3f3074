package bundlesource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/gitrepo"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web"
)

// listingBytes is how many bytes of indexes and tags are kept in memory between two
// questions; those that were not used for longest go first.
const listingBytes = 64 << 20

// ReasonBusy is the reason of the error of a caller whose source another caller asks.
const ReasonBusy = "SourceBusy"

// A listing is what one source has said to one set of credentials.
type listing struct {
	mu      sync.Mutex
	last    versionsAnswer
	asking  bool
	waiting []func() // called when the source was asked

	bytes int64 // guarded by listings.mu
}

// A versionsAnswer is the index of a Helm repository, the tags of a registry, or the error
// of a source. It does not change.
type versionsAnswer struct {
	asked    time.Time
	index    *chart.Index
	tags     []string
	err      error
	failures int // in a row
}

// listings are the listings of a Reader, by the claim to each.
type listings struct {
	mu    sync.Mutex
	known map[claim]*listing
	order []claim // by their last use
}

// Resolve returns the version of a chart that a constraint stands for now: the highest that
// satisfies it, in the spelling of the source; an empty constraint is the newest stable
// version. All callers with the same source and credentials share one answer, which is not
// older than maxAge. next is when the source may be asked again.
//
// A source that fails is asked again after a growing delay; meanwhile Resolve returns its
// last error. Resolve does not wait for a source that another caller asks at the moment: it
// returns RequeueAfter, ReasonBusy, and calls ready once the source was asked.
//
// Errors: those of chart.Locate, Index.Choose, ChooseTag, of package web and oci.Tags.
func (r *Reader) Resolve(ctx context.Context, request chart.Request, access chart.Access, maxAge time.Duration, ready func()) (version string, next time.Duration, err error) {
	l, err := chart.Locate(request)
	if err != nil {
		return "", 0, err
	}
	if l.Kind != chart.Repository && l.Kind != chart.OCI || l.Ref != "" || l.Version != request.Version {
		return l.Version, 0, nil // the source itself names one version
	}
	c, err := access.Send(access.Default, l.URL)
	if err != nil {
		return "", 0, err
	}
	known := r.listings.get(claimOf("versions", l.URL, c))
	answer, fresh, busy := known.begin(maxAge, ready)
	if busy {
		return "", 0, reconcile.RequeueError(ReasonBusy, 0, fmt.Errorf("%q is being asked", chart.Redact(l.URL)))
	}
	if !fresh {
		answer = r.ask(ctx, known, l, c, answer.failures)
		if ctx.Err() != nil {
			return "", 0, ctx.Err()
		}
	}
	if answer.err != nil {
		return "", answer.left(maxAge), answer.err
	}
	version, err = answer.choose(l)
	return version, answer.left(maxAge), err
}

// begin returns the last answer of a source, and whether it may still be used. If it may
// not, the caller has to ask the source, unless another one does (busy): then ready is
// called afterwards.
func (l *listing) begin(maxAge time.Duration, ready func()) (last versionsAnswer, fresh, busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.last.left(maxAge) > 0:
		return l.last, true, false
	case l.asking:
		l.waiting = append(l.waiting, ready)
		return l.last, false, true
	}
	l.asking = true
	return l.last, false, false
}

// end stores the answer of a source, nil for none, and calls those who wait for it.
func (l *listing) end(answer *versionsAnswer) {
	l.mu.Lock()
	if answer != nil {
		l.last = *answer
	}
	waiting := l.waiting
	l.asking, l.waiting = false, nil
	l.mu.Unlock()
	for _, ready := range waiting {
		ready()
	}
}

// get returns the listing of a claim, an empty one if there is none.
func (ls *listings) get(c claim) *listing {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.known == nil {
		ls.known = map[claim]*listing{}
	}
	if ls.known[c] == nil {
		ls.known[c] = &listing{}
	}
	ls.order = append(slices.DeleteFunc(ls.order, func(o claim) bool { return o == c }), c)
	total := int64(0)
	for i := len(ls.order) - 1; i >= 0; i-- {
		if total += ls.known[ls.order[i]].bytes; (total > listingBytes || len(ls.order)-i > answersKept) && i < len(ls.order)-1 {
			for _, old := range ls.order[:i+1] {
				delete(ls.known, old)
			}
			ls.order = slices.Delete(ls.order, 0, i+1)
			break
		}
	}
	return ls.known[c]
}

// setSize records the size of a listing.
func (ls *listings) setSize(l *listing, bytes int64) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l.bytes = bytes
}

// left returns how long an answer may still be used, or, after a failure, how long the
// source is not asked again.
func (a versionsAnswer) left(maxAge time.Duration) time.Duration {
	switch {
	case a.asked.IsZero():
		return 0
	case a.err != nil:
		maxAge = gitrepo.Delay(min(maxAge, time.Second), a.failures, 0)
	}
	return maxAge - time.Since(a.asked)
}

// ask asks a source for its versions, which has failed so many times in a row.
func (r *Reader) ask(ctx context.Context, known *listing, l chart.Location, c chart.Credentials, failures int) versionsAnswer {
	var (
		answer versionsAnswer
		bytes  int64
	)
	if l.Kind == chart.OCI {
		answer.tags, answer.err = r.oci.Tags(ctx, registryOf(l, c))
		for _, t := range answer.tags {
			bytes += int64(len(t))
		}
	} else {
		answer.index, bytes, answer.err = r.readIndex(ctx, l, c)
	}
	if ctx.Err() != nil {
		known.end(nil)
		return answer
	}
	answer.asked = time.Now()
	if answer.err != nil {
		answer.failures = failures + 1
	}
	r.listings.setSize(known, bytes)
	known.end(&answer)
	return answer
}

// readIndex downloads the index of a Helm repository, if it has changed, and returns its
// size in bytes too.
func (r *Reader) readIndex(ctx context.Context, l chart.Location, c chart.Credentials) (*chart.Index, int64, error) {
	at, err := chart.IndexURL(l.URL)
	if err != nil {
		return nil, 0, err
	}
	b, err := r.file(ctx, web.Request{URL: at, Credentials: webCredentials(c), MaxBytes: chart.MaxIndexBytes, Compressed: true})
	if err != nil {
		return nil, 0, err
	}
	defer r.store.release(b)
	data, err := r.store.read(b, chart.MaxIndexBytes)
	if err != nil {
		return nil, 0, err
	}
	index, err := chart.ParseIndex(data)
	if err != nil {
		return nil, 0, fmt.Errorf("repository %q: %w", chart.Redact(l.URL), err)
	}
	return &index, int64(len(data)), nil
}

// choose returns the version of an answer that a location asks for.
func (a versionsAnswer) choose(at chart.Location) (string, error) {
	if at.Kind == chart.OCI {
		tag, err := chart.ChooseTag(a.tags, at.Version)
		if err != nil {
			return "", fmt.Errorf("registry of %q: %w", at.URL, err)
		}
		return strings.ReplaceAll(tag, "_", "+"), nil
	}
	entry, err := a.index.Choose(at.Chart, at.Version)
	if err != nil {
		return "", fmt.Errorf("repository %q: %w", chart.Redact(at.URL), err)
	}
	return entry.Version, nil
}

// registryOf is an OCI repository as package oci knows it.
func registryOf(l chart.Location, c chart.Credentials) oci.Registry {
	return oci.Registry{
		Reference: strings.TrimPrefix(l.URL, "oci://"), Username: c.Username, Password: c.Password,
		CABundle: c.CABundle, InsecureSkipVerify: c.InsecureSkipVerify, BasicHTTP: c.BasicHTTP,
	}
}
