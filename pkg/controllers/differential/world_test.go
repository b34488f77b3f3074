// Package differential_test drives the manager through random edits, lost
// events, refused requests and restarts on an API server in memory, and compares at
// every quiet point what it has made with a naive recomputation: the pure
// functions of pkg/plan over all objects, in simple loops, without a table,
// without caches and without memory.
//
//	go run ./hack/test -run Differential            six seeds, a few seconds each
//	FLEET_TEST_SEED=7 go run ./hack/test -run ...    one seed again
//	go run ./hack/test -soak -run Differential      many new seeds
//
// What was done is printed as a script when the two disagree. A seed decides
// the script, not the order in which two processes get their turn, so a rare
// disagreement may take several runs of its seed.
package differential_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/bundle"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// managerID is the id of the manager's installation.
const managerID = "differential"

// checkin is how often agents have to report: they report once, and it is
// longer than a test, so no agent becomes Offline.
const checkin = time.Hour

// haste is how much faster the manager's clock goes than ours: what it may do so
// often in a second it may do more often here.
const haste = 4

// A world is one API server and what runs against it.
type world struct {
	t       *testing.T
	server  *kubetest.Server
	admin   *kube.Client
	line    *line
	agents  *agents
	journal *journal

	workspace string // of the current seed
	engine    *bundle.Controllers
	started   time.Time // when the manager was started last
	halt      func()
	pace      pace // of the manager
	blurred   bool // in this seed events of Secrets were held back or lost
	budget    *budget
	judged    time.Time     // when the two sides were compared last
	slowest   time.Duration // that the manager took to come to rest
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, server: kubetest.New(t), journal: &journal{}, budget: newBudget()}
	w.admin = w.client("sandbox-admin", "test", nil)
	w.line = newLine(w.deletable)
	w.server.InstallKinds()
	w.must(w.namespace(fleet.NamespaceSystem))
	w.pace.reset()
	w.agents = startAgents(w)
	w.start()
	t.Cleanup(func() { w.halt() })
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// client is a connection, through l where that is not nil.
func (w *world) client(agent, manager string, l *line) *kube.Client {
	w.t.Helper()
	rest := w.server.REST()
	if l != nil {
		rest.Wrap(l.wrap)
	}
	c, err := kube.Connect(kube.Config{REST: rest, UserAgent: agent, FieldManager: manager})
	w.must(err)
	return c
}

// start makes a new manager and runs it.
func (w *world) start() {
	log := logrus.New()
	log.SetOutput(w.journal)
	log.SetLevel(logrus.DebugLevel)
	begin := time.Now()
	cfg := bundle.Config{Namespace: fleet.NamespaceSystem, ManagerID: managerID, CheckinInterval: checkin, Workers: 4,
		Now: func() time.Time { return begin.Add(haste * time.Since(begin)) }}
	engine := bundle.New(cfg, w.client("fleet-controller/test", fleet.FieldManagerController, w.line), logrus.NewEntry(log))
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	report := func(loop string, key kube.Key, err error) {
		log.WithField("action", loop).WithField("error", err).Debug(key.String())
	}
	w.engine, w.started = engine, time.Now()
	go func() {
		defer close(done)
		if err := kube.Run(ctx, report, engine.Runnables()...); err != nil && !errors.Is(err, context.Canceled) {
			w.t.Errorf("the engine ended: %v", err)
		}
	}()
	w.pace.reset()
	w.halt = func() { stop(); <-done }
}

// restart stops the manager wherever it is, and makes a new one.
func (w *world) restart() {
	w.halt()
	w.line.hangUp()
	w.start()
}

// look is how often the test looks.
const look = 10 * time.Millisecond

// until waits for a state.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(timeout); !ok(); time.Sleep(look) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not in time: %s", what)
		}
	}
}

// namespace makes a namespace unless it is there. In a workspace nothing is held
// back by the budget of deletions: what one change removes is a matter of time.
func (w *world) namespace(name string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
		Annotations: map[string]string{fleet.AnnotationDeletionBudget: "off"}}}
	_, err := kube.StoreOf[*corev1.Namespace](w.admin).Create(w.t.Context(), ns)
	if kube.IsExists(err) {
		return nil
	}
	return err
}

// in is the key of an object in the workspace.
func (w *world) in(name string) kube.Key { return kube.Key{Namespace: w.workspace, Name: name} }

// update changes an object until it meets no conflict. One that is gone or
// being deleted is left alone.
func update[P kube.Object](w *world, key kube.Key, change func(P)) error {
	store := kube.StoreOf[P](w.admin)
	for range 20 {
		p, err := store.Get(w.t.Context(), key)
		if err != nil {
			return err
		}
		if p.GetDeletionTimestamp() != nil {
			return fmt.Errorf("%s is being deleted: %w", key, kube.ErrGone)
		}
		change(p)
		if _, err = store.Update(w.t.Context(), p); !kube.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("%s: too many conflicts", key)
}

// setStatus changes the status of an object until it meets no conflict.
func setStatus[P kube.Object](w *world, key kube.Key, change func(P)) error {
	store := kube.StoreOf[P](w.admin)
	for range 20 {
		p, err := store.Get(w.t.Context(), key)
		if err != nil {
			return err
		}
		changed := p.DeepCopyObject().(P)
		change(changed)
		if _, err = store.PatchStatus(w.t.Context(), p, changed); !kube.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("%s: too many conflicts", key)
}

func remove[P kube.Object](w *world, key kube.Key) error {
	return kube.StoreOf[P](w.admin).Delete(w.t.Context(), key, kube.Precondition{})
}

// A journal keeps what was done and what the manager logged, to be read when
// something is wrong.
type journal struct {
	mu     sync.Mutex
	script []string
	log    []string
}

// journalLines is how much of the manager's log is kept.
const journalLines = 400

// Write takes a line of the manager's log.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log = append(j.log, time.Now().Format("05.000 ")+strings.TrimSpace(string(p)))
	if len(j.log) > journalLines {
		j.log = slices.Clone(j.log[len(j.log)-journalLines/2:])
	}
	return len(p), nil
}

// note takes a line of the script.
func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf(format, args...)
	j.script = append(j.script, line)
	j.log = append(j.log, time.Now().Format("05.000 ")+"-- "+strings.TrimSpace(line))
}

// forget begins a new script.
func (j *journal) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.script, j.log = nil, nil
}

// text is the script and the end of the log.
func (j *journal) text() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return "script:\n" + strings.Join(j.script, "\n") + "\n\nlog:\n" + strings.Join(j.log[max(0, len(j.log)-120):], "\n")
}
