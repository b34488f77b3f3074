package git

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// recentFor is for how long what a remote said of its references is good enough
// to ask it for one of them. A poll and the fetch that follows it are closer.
const recentFor = 10 * time.Second

// recentRefs is the last list of references of an HTTP remote, so that fetching what it
// names takes one request. Requests of git's HTTP protocol are stateless
// (gitprotocol-http(5)).
type recentRefs struct {
	mu      sync.Mutex
	refs    *packp.AdvRefs
	base    *url.URL // where the list came from
	fetched time.Time
}

// storeRefs keeps a list of a session that needs no connection of its own.
func (r *recentRefs) storeRefs(s session, refs *packp.AdvRefs) {
	h, ok := s.(*httpSession)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refs, r.base, r.fetched = refs, h.base, time.Now()
}

// takeSession returns a session to ask for a commit, and the list that names it; nil where
// there is no recent one. No list is returned twice.
func (r *recentRefs) takeSession(ctx context.Context, e *sourceEntry, commit Commit) (session, *packp.AdvRefs) {
	r.mu.Lock()
	refs, base, fetched := r.refs, r.base, r.fetched
	r.refs = nil
	r.mu.Unlock()
	if refs == nil || time.Since(fetched) > recentFor {
		return nil, nil
	}
	if _, known := advertisedAs(refs, plumbing.NewHash(string(commit))); !known {
		return nil, nil
	}
	s, err := newHTTPSession(ctx, e, serviceUpload)
	if err != nil {
		return nil, nil // the session of the longer way reports it
	}
	s.base = base
	return s, refs
}
