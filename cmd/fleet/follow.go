package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// retryDelay is how long a server that cannot be watched is left alone.
const retryDelay = time.Second

// A change is one object that was added, changed or deleted. The change without an
// object marks the end of the initial list.
type change struct {
	kind   watch.EventType
	object *unstructured.Unstructured
}

// follow reports all objects that a query selects, then one change without an object,
// and from then on every change until ctx ends. It returns an error only if the first
// list fails; later it lists and watches again, and passes what went wrong to trouble.
func follow(ctx context.Context, a api, q query, report func(change), trouble func(error)) error {
	f := &follower{api: a, query: q, report: report, known: map[string]string{}}
	if err := f.list(ctx); err != nil {
		return err
	}
	report(change{})
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
		case <-time.After(retryDelay):
		}
	}
}

type follower struct {
	api     api
	query   query
	report  func(change)
	known   map[string]string // versions, by key
	version string            // of the last list or event
}

// list reports what has changed since the last event, however long ago.
func (f *follower) list(ctx context.Context) error {
	items, version, err := listed(ctx, f.api, f.query)
	if err != nil {
		return err
	}
	f.version = version
	here := map[string]bool{}
	for _, o := range items {
		key := keyText(o)
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
			f.event(watch.Deleted, named(key))
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
			if err := f.take(e); err != nil {
				return err
			}
		}
	}
}

func (f *follower) take(e watch.Event) error {
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
		delete(f.known, keyText(o))
	} else {
		f.known[keyText(o)] = o.GetResourceVersion()
	}
	f.report(change{kind, o})
}

// named returns an object of which only the key is known.
func named(key string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	namespace, name, _ := strings.Cut(key, "/")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func keyText(o *unstructured.Unstructured) string { return o.GetNamespace() + "/" + o.GetName() }
