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

const (
	// listingBytes is how many bytes of indexes and tags are kept in memory between two
	// questions; those that were not used for longest go first.
	listingBytes = 64 << 20
	// busyDelay is after how long a caller asks again that found its source being asked.
	busyDelay = 200 * time.Millisecond
	// ReasonBusy is the reason of the error of such a caller.
	ReasonBusy = "SourceBusy"
)

// A listing is what one source has answered to one set of credentials: the index of a Helm
// repository, or the tags of a registry.
type listing struct {
	asking   sync.Mutex // held while the source is asked
	asked    time.Time
	index    *chart.Index
	tags     []string
	err      error
	failures int // in a row

	bytes int64 // guarded by listings.mu
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
// returns RequeueAfter, ReasonBusy.
//
// Errors: those of chart.Locate, Index.Choose, ChooseTag, of package web and oci.Tags.
func (r *Reader) Resolve(ctx context.Context, request chart.Request, access chart.Access, maxAge time.Duration) (version string, next time.Duration, err error) {
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
	if !known.asking.TryLock() {
		return "", 0, reconcile.RequeueError(ReasonBusy, busyDelay, fmt.Errorf("%q is being asked", chart.Redact(l.URL)))
	}
	defer known.asking.Unlock()
	if known.left(maxAge) <= 0 {
		r.ask(ctx, known, l, c)
		if ctx.Err() != nil {
			return "", 0, ctx.Err()
		}
	}
	if known.err != nil {
		return "", known.left(maxAge), known.err
	}
	version, err = known.choose(l)
	return version, known.left(maxAge), err
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
func (l *listing) left(maxAge time.Duration) time.Duration {
	switch {
	case l.asked.IsZero():
		return 0
	case l.err != nil:
		maxAge = gitrepo.Delay(min(maxAge, time.Second), l.failures, 0)
	}
	return maxAge - time.Since(l.asked)
}

// ask asks a source for its versions.
func (r *Reader) ask(ctx context.Context, known *listing, l chart.Location, c chart.Credentials) {
	var (
		index *chart.Index
		tags  []string
		bytes int64
		err   error
	)
	if l.Kind == chart.OCI {
		tags, err = r.oci.Tags(ctx, registryOf(l, c))
		for _, t := range tags {
			bytes += int64(len(t))
		}
	} else {
		index, bytes, err = r.readIndex(ctx, l, c)
	}
	if ctx.Err() != nil {
		return
	}
	known.asked, known.index, known.tags, known.err = time.Now(), index, tags, err
	if known.failures++; err == nil {
		known.failures = 0
	}
	r.listings.setSize(known, bytes)
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

// choose returns the version of a listing that a location asks for.
func (l *listing) choose(at chart.Location) (string, error) {
	if at.Kind == chart.OCI {
		tag, err := chart.ChooseTag(l.tags, at.Version)
		if err != nil {
			return "", fmt.Errorf("registry of %q: %w", at.URL, err)
		}
		return strings.ReplaceAll(tag, "_", "+"), nil
	}
	entry, err := l.index.Choose(at.Chart, at.Version)
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
