package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/wait"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// slow is an API server whose lists are of the moment at which they are asked for,
// and whose watches deliver changes in order, each with a delay.
type slow struct {
	client.API
	mu      sync.Mutex
	version int
	held    map[string]*unstructured.Unstructured
	history []slowEvent
	changed chan struct{} // closed at each change
}

type slowEvent struct {
	version int
	event   watch.Event
}

func newSlow() *slow {
	return &slow{held: map[string]*unstructured.Unstructured{}, changed: make(chan struct{})}
}

// write stores an object, or deletes it.
func (s *slow) write(o runtime.Object, deleted bool) {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{Object: raw}
	kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1alpha1.")
	u.SetGroupVersionKind(fleet.GroupVersion.WithKind(kind))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	u.SetResourceVersion(strconv.Itoa(s.version))
	e := watch.Event{Type: watch.Modified, Object: u}
	if deleted {
		delete(s.held, objectKey(u))
		e.Type = watch.Deleted
	} else {
		s.held[objectKey(u)] = u
	}
	s.history = append(s.history, slowEvent{s.version, e})
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *slow) selects(q client.Query, u *unstructured.Unstructured) bool {
	l, err := labels.Parse(q.Labels)
	return err == nil && is(u, q.Resource) && l.Matches(labels.Set(u.GetLabels())) && (q.Namespace == "" || q.Namespace == u.GetNamespace())
}

func (s *slow) List(_ context.Context, q client.Query, _ client.Page) (*unstructured.UnstructuredList, error) {
	time.Sleep(time.Duration(rand.IntN(8)) * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	list.SetResourceVersion(strconv.Itoa(s.version))
	for _, u := range s.held {
		if s.selects(q, u) {
			list.Items = append(list.Items, *u.DeepCopy())
		}
	}
	return list, nil
}

func (s *slow) Get(_ context.Context, r schema.GroupVersionResource, _, name string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(r.GroupResource(), name)
}

// Watch delivers each change up to 40 ms late, now and then half a second.
func (s *slow) Watch(ctx context.Context, q client.Query, from string) (watch.Interface, error) {
	ctx, stop := context.WithCancel(ctx)
	out := make(chan watch.Event)
	w := watch.NewProxyWatcher(out)
	next, _ := strconv.Atoi(from)
	go func() {
		defer stop()
		defer close(out)
		for {
			s.mu.Lock()
			changed := s.changed
			var due []watch.Event
			for _, e := range s.history[min(next, len(s.history)):] {
				if s.selects(q, e.event.Object.(*unstructured.Unstructured)) {
					due = append(due, e.event)
				}
			}
			next = s.version
			s.mu.Unlock()
			for _, e := range due {
				late := time.Duration(rand.IntN(40)) * time.Millisecond
				if rand.IntN(20) == 0 {
					late = 500 * time.Millisecond
				}
				time.Sleep(late)
				select {
				case out <- watch.Event{Type: e.Type, Object: e.Object.DeepCopyObject()}:
				case <-ctx.Done():
					return
				case <-w.StopChan():
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-w.StopChan():
				return
			}
		}
	}()
	return w, nil
}

// next is a commit that changes up to two bundles, and now and then brings a new one
// or removes one.
func (m *maker) next(i int) push {
	p := push{commit: sha(i)}
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.bundles {
		if m.bundles[name].Annotations == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	rand.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
	p.changes = append(p.changes, names[:rand.IntN(min(3, len(names)+1))]...)
	rest := names[len(p.changes):]
	switch rand.IntN(5) {
	case 0:
		p.changes = append(p.changes, fmt.Sprintf("app-new-%d", i))
	case 1:
		if len(rest) > 2 {
			p.removes = rest[:1]
		}
	}
	slices.Sort(p.changes)
	return p
}

// wrong is what is wrong with the answer to a wait for a commit; empty if nothing is.
func (m *maker) wrong(p push, out string, err error) (outcome, fault string) {
	var doc wait.WaitResult
	if jsonErr := json.Unmarshal([]byte(out), &doc); jsonErr != nil || len(doc.Goals) != 1 {
		return "error", fmt.Sprintf("no answer: %v, %q", err, out)
	}
	goal := doc.Goals[0]
	switch {
	case cli.ExitCode(err, false) == 3 && doc.Outcome == "timeout":
		return doc.Outcome, ""
	case cli.ExitCode(err, false) != 0:
		return doc.Outcome, fmt.Sprintf("exit code %d: %s", cli.ExitCode(err, false), out)
	case !slices.Equal(goal.Changed, p.changes):
		return doc.Outcome, fmt.Sprintf("it changed %v, the answer is about %v: %s", p.changes, goal.Changed, doc.Message)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range p.changes {
		for _, cluster := range []string{"c1", "c2"} {
			if !m.ready[name+" "+cluster+" "+p.commit] {
				return doc.Outcome, fmt.Sprintf("%s was never Ready on %s", name, cluster)
			}
		}
	}
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	for _, name := range p.removes {
		for key := range m.s.held {
			if strings.HasSuffix(key, "/"+name) {
				return doc.Outcome, key + " is still there"
			}
		}
	}
	return doc.Outcome, ""
}

// waitOnce waits for a commit as the command does.
func (m *maker) waitOnce(ctx context.Context, p push) (outcome, fault string) {
	o := wait.Options{Kind: cli.MustKind("repos"), Name: "app", Commit: p.commit[:12], Timeout: 20 * time.Second, Settle: wait.SettleTime, Output: printer.FormatJSON}
	var out, notes strings.Builder
	s := &client.Session{Access: client.Access{API: m.s, Server: "sim"}, Std: printer.Stdio{Out: &out, Err: &notes}, Now: time.Now}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.Watch(ctx, o.Selection())
	if err == nil {
		err = wait.Run(ctx, o, s, w)
	}
	outcome, fault = m.wrong(p, out.String(), err)
	if fault != "" {
		fault += "\n" + notes.String()
	}
	return outcome, fault
}

// Waits that begin around pushes, at watches that are behind each other and with a
// manager that dies between two writes, never say that a commit is done that is not.
// With FLEET_TEST_SOAK there are 10,000 of each kind of manager.
func TestWaitIsNeverGreenByGuess(t *testing.T) {
	worlds := 3
	if os.Getenv("FLEET_TEST_SOAK") != "" {
		worlds = 100
	}
	for name, older := range map[string]bool{"Digest": false, "OlderManager": true} {
		t.Run(name, func(t *testing.T) {
			count := map[string]int{}
			began := time.Now()
			for range worlds {
				synctest.Test(t, func(t *testing.T) { soakWorld(t, older, count) })
			}
			t.Logf("%v in %s", count, time.Since(began).Round(time.Millisecond))
			if count["ready"] < worlds*20 {
				t.Errorf("too few answers prove anything: %v", count)
			}
		})
	}
}

// soakWorld plays 20 pushes with 5 waits each.
func soakWorld(t *testing.T, older bool, count map[string]int) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	m := newMaker(older)
	var waits sync.WaitGroup
	var mu sync.Mutex
	for i := range 20 {
		p := m.next(i + 1)
		for range 5 {
			waits.Go(func() {
				time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
				outcome, fault := m.waitOnce(ctx, p)
				mu.Lock()
				defer mu.Unlock()
				count[outcome]++
				if fault != "" {
					t.Errorf("commit %s: %s", p.commit[:12], fault)
				}
			})
		}
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		m.read(p, !older) // what a manager that does not say what it wrote leaves when it dies is not known
		if rand.IntN(2) == 0 {
			time.Sleep(5 * time.Second)
		}
	}
	waits.Wait()
	m.works.Wait()
	stop()
	synctest.Wait()
}
