package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/explain"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

// live is a fake API server that a test changes while a command watches it.
type live struct {
	*fake
	mu      sync.Mutex
	version int
	watches []liveWatch
}

type liveWatch struct {
	query client.Query
	to    *watch.RaceFreeFakeWatcher
}

func (l *live) Watch(_ context.Context, q client.Query, _ string) (watch.Interface, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := liveWatch{q, watch.NewRaceFreeFake()}
	l.watches = append(l.watches, w)
	return w.to, nil
}

// change changes the object of a kind and a key, and sends it to all who watch it.
func (l *live) change(kind, key string, edit func(*unstructured.Unstructured)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.at(kind + " " + key).DeepCopy()
	edit(o)
	l.version++
	o.SetResourceVersion(strconv.Itoa(100 + l.version))
	l.take(step{objects: []*unstructured.Unstructured{o}})
	for _, w := range l.watches {
		if l.selects(w.query, o) && !w.to.IsStopped() {
			w.to.Modify(o.DeepCopy())
		}
	}
}

// cut ends all watches, as a server does that is started again.
func (l *live) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.watches {
		w.to.Stop()
	}
	l.watches = nil
}

// liveCommand is a command that runs until the test ends it.
type liveCommand struct {
	t          *testing.T
	live       *live
	out, notes lines
	read       int // bytes of out that next has returned
	stop       context.CancelFunc
	ended      chan error
}

// startFollowing starts a command in a fleet of testdata.
func startFollowing(t *testing.T, file string, args ...string) *liveCommand {
	t.Helper()
	return startIn(t, newFake(t, "testdata/fleets/"+file), args...)
}

// startIn starts a command in a fleet.
func startIn(t *testing.T, fleet *fake, args ...string) *liveCommand {
	t.Helper()
	f := &liveCommand{t: t, live: &live{fake: fleet}, ended: make(chan error, 1)}
	st := stage{fake: f.live.fake}
	g := st.globals(func() {})
	g.Dial = func(printer.Stdio) (client.Access, error) {
		return client.Access{API: f.live, Server: f.live.address(), User: "ana"}, nil
	}
	g.Watch = func(ctx context.Context, s *client.Session, of client.Selection) (client.FleetWatch, error) {
		return s.Watch(ctx, of)
	}
	root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &f.out, Err: &f.notes})
	root.SetArgs(args)
	var ctx context.Context
	ctx, f.stop = context.WithCancel(t.Context())
	go func() { f.ended <- root.ExecuteContext(ctx) }()
	return f
}

// next is what the command has printed since the last call.
func (l *liveCommand) next() string {
	l.t.Helper()
	time.Sleep(2 * time.Second) // of the bubble's clock: all that was changed is worked on
	synctest.Wait()
	text := l.out.String()[l.read:]
	l.read += len(text)
	return text
}

// end interrupts the command, which must be no error.
func (l *liveCommand) end() {
	l.t.Helper()
	l.stop()
	if err := <-l.ended; err != nil && !errors.Is(err, context.Canceled) {
		l.t.Errorf("want an end without an error, got %v", err)
	}
}

// heal makes the deployment of shop-web on c3 Ready, as that on c1 is.
func heal(l *live) {
	l.change("BundleDeployment", "cluster-c3/shop-web", func(o *unstructured.Unstructured) {
		o.Object["status"] = l.at("BundleDeployment cluster-c1/shop-web").DeepCopy().Object["status"]
	})
}

// fleet explain -w prints an answer when it changes, whatever it depends on, also
// after the server was away; nothing when only a time of reading changes.
func TestExplainWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollowing(t, "explain.yaml", "explain", "shop-web", "c3", "-w")
		if got := f.next(); !strings.HasPrefix(got, "shop-web fails on c3 ") {
			t.Fatalf("the first answer: %q", got)
		}
		f.live.change("GitRepo", "shops/shop", func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, "2026-08-24T14:10:43Z", "status", "lastPollingTriggered")
		})
		if got := f.next(); got != "" {
			t.Errorf("nothing changed: %q", got)
		}
		f.live.cut()
		time.Sleep(2 * client.RetryDelay)
		heal(f.live)
		if got := f.next(); !strings.HasPrefix(got, "\n14:10:44\nshop-web is Ready on c3: ") {
			t.Errorf("healed: %q", got)
		}
		f.end()
	})
}

// Without a cluster it is the answer about all of them; -o json has one document per
// line.
func TestExplainWatchOfABundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollowing(t, "explain.yaml", "explain", "shop-web", "-w", "-o", "json")
		first := f.next()
		heal(f.live)
		second := f.next()
		for _, text := range []string{first, second} {
			var doc explain.BundleExplanation
			if err := json.Unmarshal([]byte(text), &doc); err != nil || strings.Count(text, "\n") != 1 || doc.Kind != "BundleExplanation" {
				t.Errorf("want one document in one line, got %q", text)
			}
		}
		if first == second {
			t.Errorf("want another answer than %q", first)
		}
		f.end()
	})
}

// An answer that cannot be found any more is noted once, and the command goes on.
func TestExplainWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollowing(t, "explain.yaml", "explain", "shop-web", "c3", "-w")
		f.next()
		f.live.take(step{gone: []string{"Bundle shops/shop-web"}})
		time.Sleep(3 * client.AskAgain)
		if got := f.next(); got != "" || strings.Count(f.notes.String(), `no bundle "shop-web"`) != 1 {
			t.Errorf("got %q and %q", got, f.notes.String())
		}
		f.end()
	})
}

// fleet logs -f prints what the agent decides, once each, and one that it makes again
// with its count.
func TestLogsFollow(t *testing.T) {
	entry := func(second, times int, message string) journal.Entry {
		at := time.Date(2026, 8, 24, 14, 10, second, 0, time.UTC)
		return journal.Entry{At: at, First: at.Add(-time.Minute), Times: times, Deployment: "shop-web", Verb: "wait", Reason: "Paused", Message: message}
	}
	write := func(lines ...journal.Entry) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			data, err := journal.Pack(lines, 10_000)
			if err != nil {
				t.Fatal(err)
			}
			_ = unstructured.SetNestedField(o.Object, base64.StdEncoding.EncodeToString(data), "status", "agent", "journal")
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := startFollowing(t, "logs.yaml", "logs", "shops/c2", "-f", "--lines", "1", "--bundle", "shop-web")
		if got := f.next(); strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, "LAST") {
			t.Errorf("want titles and the last line, got %q", got)
		}
		f.live.change("Cluster", "shops/c2", write(entry(11, 1, "first")))
		f.live.change("Cluster", "shops/c2", write(entry(11, 1, "first"), entry(12, 1, "second")))
		f.live.change("Cluster", "shops/c2", write(entry(11, 1, "first"), entry(12, 1, "second")))
		f.live.cut()
		f.live.change("Cluster", "shops/c2", write(entry(11, 1, "first"), entry(13, 4, "second")))
		f.live.change("Cluster", "shops/c2", func(o *unstructured.Unstructured) {})
		time.Sleep(2 * client.RetryDelay)
		f.live.change("Cluster", "shops/c2", write(entry(11, 1, "first"), entry(13, 4, "second")))
		got := strings.Split(strings.TrimSuffix(f.next(), "\n"), "\n")
		if len(got) != 3 || !strings.HasSuffix(got[0], "first") || !strings.HasPrefix(got[2], "14:10:13   4       14:09:13") {
			t.Errorf("got %q", got)
		}
		f.end()
	})
}

// fleet logs -f --lines 0 begins with the next decision, and does not say that there were none.
func TestFollowWithoutLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFollowing(t, "logs.yaml", "logs", "shops/c2", "-f", "--lines", "0")
		if got := f.next(); got != "" || f.notes.String() != "" {
			t.Errorf("want no decision and no note, got %q, %q", got, f.notes.String())
		}
		f.end()
	})
}

// fleet bundlediff -w prints a deployment again when something else differs, and says
// when nothing does any more.
func TestBundleDiffWatch(t *testing.T) {
	drift := func(patch string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(o.Object, []any{map[string]any{"kind": "ConfigMap", "apiVersion": "v1", "namespace": "web", "name": "x", "patch": patch}}, "status", "modifiedStatus")
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := startFollowing(t, "bundlediff.yaml", "bundlediff", "shop-web", "-w", "--no-headers")
		if got := f.next(); !strings.Contains(got, "c2") || !strings.Contains(got, "c3") {
			t.Errorf("the first answer: %q", got)
		}
		f.live.change("BundleDeployment", "cluster-c2/shop-web", func(o *unstructured.Unstructured) { o.SetLabels(o.GetLabels()) })
		if got := f.next(); got != "" {
			t.Errorf("nothing changed: %q", got)
		}
		f.live.change("BundleDeployment", "cluster-c2/shop-web", drift(`{"data":{"a":"2"}}`))
		if got := f.next(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "c2") || !strings.Contains(got, "/data/a") {
			t.Errorf("another difference: %q", got)
		}
		f.live.change("BundleDeployment", "cluster-c2/shop-web", func(o *unstructured.Unstructured) {
			unstructured.RemoveNestedField(o.Object, "status", "modifiedStatus")
		})
		if got := f.next(); got != "" || !strings.Contains(f.notes.String(), "nothing differs any more: shop-web on shops/c2") {
			t.Errorf("got %q, %q", got, f.notes.String())
		}
		f.end()
	})
}

// Commands that go on write no control character of an object, as others do not.
func TestFollowingWritesNoControlCharacters(t *testing.T) {
	for how := range poisons {
		for file, args := range map[string][]string{
			"explain.yaml": {"explain", "shop-web", "c3", "-w"}, "logs.yaml": {"logs", "shops/c2", "-f"}, "bundlediff.yaml": {"bundlediff", "-w"},
		} {
			synctest.Test(t, func(t *testing.T) {
				fleet := newFake(t, "testdata/fleets/"+file)
				for _, o := range fleet.held {
					poisonAll(how, []*unstructured.Unstructured{o})
				}
				f := startIn(t, fleet, args...)
				if text := bad(f.next() + f.notes.String()); text != "" {
					t.Errorf("%s: fleet %s: %q", how, strings.Join(args, " "), text)
				}
				f.stop()
				<-f.ended
			})
		}
	}
}

// fleet get -w of a name that is not there says so, with the nearest that is, for every
// kind and format, and goes on: it may be made yet.
func TestGetWatchOfUnknown(t *testing.T) {
	for line, want := range map[string]string{
		"repos exmaples -n fleet-default":                  `no repo "exmaples" in fleet-default; did you mean "examples"?`,
		"repo/exmaples":                                    `no repo "exmaples" in fleet-default or fleet-local; did you mean "examples"?`,
		"clusters c1 -n fleet-local":                       `no cluster "c1" in fleet-local; there is one in fleet-default: -n fleet-default`,
		"bundles examples-wbe -o json":                     `no bundle "examples-wbe" in fleet-default or fleet-local; did you mean "examples-web"?`,
		"bundles examples-web examples-mertics -o yaml":    `no bundle "examples-mertics" in fleet-default or fleet-local; did you mean "examples-metrics"?`,
		"clusters c9 -n fleet-default -o wide":             `no cluster "c9" in fleet-default`,
		"deployments examples-wbe -o name":                 `no deployment "examples-wbe"`,
		"groups nothing":                                   `no group "nothing"`,
		"tokens labb -n fleet-default -o jsonpath={.kind}": `no token "labb" in fleet-default; did you mean "lab"?`,
	} {
		t.Run(line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startFollowing(t, "examples.yaml", append(append([]string{"get"}, strings.Fields(line)...), "-w")...)
				f.next()
				if got := f.notes.String(); !strings.Contains(got, want) {
					t.Errorf("want %q, got %q", want, got)
				}
				f.end()
			})
		})
	}
}
