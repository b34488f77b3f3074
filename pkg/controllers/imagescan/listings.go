package imagescan

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/fleetworkspace/fleet/pkg/oci"
)

// freshEnough is how old the tags of an image may be: ImageScans that are due together
// share one listing.
const freshEnough = 10 * time.Second

// A listing is the tags of one image for one account.
type listing struct {
	at   time.Time
	tags []string
}

// listings shares the tags of images. Only callers with the same account share: others may
// not see them.
type listings struct {
	now   func() time.Time
	group singleflight.Group

	mu    sync.Mutex
	known map[string]listing
}

// tags returns the tags of an image, which are at most freshEnough old.
func (l *listings) tags(ctx context.Context, from Registry, r oci.Registry) ([]string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q", r.Reference, r.Username, r.Password, r.CABundle)
	key := string(h.Sum(nil))
	if have, ok := l.get(key); ok {
		return have.tags, nil
	}
	// The context is that of the process: it ends for all callers at once.
	tags, err, _ := l.group.Do(key, func() (any, error) {
		if have, ok := l.get(key); ok { // while this caller waited
			return have.tags, nil
		}
		tags, err := from.Tags(ctx, r)
		if err == nil {
			l.put(key, tags)
		}
		return tags, err
	})
	if err != nil {
		return nil, err
	}
	return tags.([]string), nil
}

func (l *listings) get(key string) (listing, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	have, ok := l.known[key]
	return have, ok && l.now().Sub(have.at) < freshEnough
}

// put keeps a listing, and drops those that are too old.
func (l *listings) put(key string, tags []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	maps.DeleteFunc(l.known, func(_ string, have listing) bool { return now.Sub(have.at) >= freshEnough })
	l.known[key] = listing{now, tags}
}
