package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// RetryDelay is how long a server that cannot be watched is left alone.
const RetryDelay = time.Second

// A Change is one object that was added, changed or deleted. The change without an
// object marks the end of the initial list.
type Change struct {
	Kind   watch.EventType
	Object *unstructured.Unstructured
}

// followQuery reports all objects that a query selects, then one change without an object,
// and from then on every change until ctx ends. It returns an error only if the first
// list fails; later it lists and watches again, and passes what went wrong to trouble.
func followQuery(ctx context.Context, a API, q Query, report func(Change), trouble func(error)) error {
	f := &follower{api: a, query: q, report: report, known: map[string]string{}}
	if err := f.list(ctx); err != nil {
		return err
	}
	report(Change{})
	for {
		err := f.watch(ctx)
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			err = f.list(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			continue
		}
		trouble(err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(RetryDelay):
		}
	}
}

type follower struct {
	api     API
	query   Query
	report  func(Change)
	known   map[string]string // versions, by key
	version string            // of the last list or event
}

// list reports what has changed since the last event, however long ago.
func (f *follower) list(ctx context.Context) error {
	items, version, err := Listed(ctx, f.api, f.query)
	if err != nil {
		return err
	}
	f.version = version
	here := map[string]bool{}
	for _, o := range items {
		key := KeyText(o)
		here[key] = true
		switch old, known := f.known[key]; {
		case !known:
			f.event(watch.Added, o)
		case old != o.GetResourceVersion():
			f.event(watch.Modified, o)
		}
	}
	for key := range f.known {
		if !here[key] {
			f.event(watch.Deleted, objectWithKey(key))
		}
	}
	return nil
}

// watch reports events until the server ends the watch, which is no error.
func (f *follower) watch(ctx context.Context) error {
	w, err := f.api.Watch(ctx, f.query, f.version)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			if err := f.handleEvent(e); err != nil {
				return err
			}
		}
	}
}

func (f *follower) handleEvent(e watch.Event) error {
	if e.Type == watch.Error {
		return apierrors.FromObject(e.Object)
	}
	o, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("watch: unexpected %T", e.Object)
	}
	f.version = o.GetResourceVersion()
	if e.Type != watch.Bookmark {
		f.event(e.Type, o)
	}
	return nil
}

func (f *follower) event(kind watch.EventType, o *unstructured.Unstructured) {
	if kind == watch.Deleted {
		delete(f.known, KeyText(o))
	} else {
		f.known[KeyText(o)] = o.GetResourceVersion()
	}
	f.report(Change{kind, o})
}

// objectWithKey returns an object of which only the key is known.
func objectWithKey(key string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	namespace, name, _ := strings.Cut(key, "/")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// KeyText is the namespace and the name of an object.
func KeyText(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }

// FollowAll reports all objects that the queries select at once, and then every change,
// one at a time, until ctx ends or report fails.
func (s *Session) FollowAll(ctx context.Context, qs []Query, report func([]Change) error) error {
	changes := make(chan Change)
	group, ctx := errgroup.WithContext(ctx)
	for _, q := range qs {
		group.Go(func() error {
			return DescribeServerError(s.Server, followQuery(ctx, s.API, q, func(c Change) {
				select {
				case changes <- c:
				case <-ctx.Done():
				}
			}, s.NoteWatchError))
		})
	}
	group.Go(func() error {
		f := firstThenEach{lists: len(qs), report: report}
		for {
			select {
			case <-ctx.Done():
				return nil
			case c := <-changes:
				if err := f.handle(c); err != nil {
					return err
				}
			}
		}
	})
	return group.Wait()
}

// firstThenEach holds changes back until all lists are complete.
type firstThenEach struct {
	lists  int // not complete yet
	first  []Change
	report func([]Change) error
}

func (f *firstThenEach) handle(c Change) error {
	switch {
	case c.Object != nil && f.lists > 0:
		f.first = append(f.first, c)
		return nil
	case c.Object != nil:
		return f.report([]Change{c})
	}
	f.lists--
	if f.lists > 0 {
		return nil
	}
	return f.report(f.first)
}

// NoteWatchError notes that a watch was interrupted.
func (s *Session) NoteWatchError(err error) {
	s.Std.Note("warning: %v; trying again", DescribeServerError(s.Server, err))
}

// NameField selects the object of a name.
func NameField(name string) string {
	return fields.OneTermEqualSelector("metadata.name", name).String()
}
