package agent

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

// journalName is the ConfigMap that keeps the agent's journal on the site, and
// keyJournal its key: lines of package journal.
const (
	journalName = fleet.ConfigMapAgentJournal
	keyJournal  = "journal"
)

// Verbs of lines that are no steps of a release.
const (
	verbWait  = "wait"  // something that a step needs is not there
	verbStart = "start" // the agent has started
	verbNote  = "note"  // about the agent as a whole
)

// agentJournal is the agent's journal. Check-ins, which are sent anyway, carry it to
// the manager. It is stored in the agent's own cluster at a check-in, and only if there
// is a new line: at rest nothing is written.
type agentJournal struct {
	maps      *kube.Store[*corev1.ConfigMap]
	namespace string
	now       func() time.Time

	mu      sync.Mutex
	lines   journal.Journal
	changes bool // since it was kept last
}

func newJournal(down *kube.Client, namespace string) *agentJournal {
	return &agentJournal{maps: kube.StoreOf[*corev1.ConfigMap](down), namespace: namespace, now: time.Now}
}

// load reads what the previous run has stored.
func (a *agentJournal) load(ctx context.Context) error {
	lines, err := readJournal(ctx, a.maps, a.namespace)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = journal.Journal{}
	a.lines.Restore(lines)
	return nil
}

// readJournal reads the journal that is stored in an agent's cluster.
func readJournal(ctx context.Context, maps *kube.Store[*corev1.ConfigMap], namespace string) ([]journal.Entry, error) {
	cm, err := maps.Get(ctx, kube.Key{Namespace: namespace, Name: journalName})
	if kube.IsGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return journal.Parse(cm.Data[keyJournal]), nil
}

// add adds an entry. It returns false for an entry that exists already: then its
// counter grows.
func (a *agentJournal) add(e journal.Entry) (changes bool) {
	if e.At.IsZero() {
		e.At = a.now()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	changes = a.lines.Add(e)
	a.changes = a.changes || changes
	return changes
}

// packed returns the journal in the form that a check-in carries.
func (a *agentJournal) packed() []byte {
	a.mu.Lock()
	lines := a.lines.Entries()
	a.mu.Unlock()
	out, err := journal.Pack(lines, journal.PackedLimit)
	if err != nil {
		return nil // gzip into memory does not fail
	}
	return out
}

// store writes the journal to the agent's cluster if it has new entries. After an error
// it is written with the next check-in.
func (a *agentJournal) store() {
	a.mu.Lock()
	lines, changes := a.lines.Entries(), a.changes
	a.changes = false
	a.mu.Unlock()
	if !changes {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), contactTime)
	defer cancel()
	_, err := a.maps.Apply(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: journalName},
		Data:       map[string]string{keyJournal: journal.Text(lines)},
	})
	if err != nil {
		a.mu.Lock()
		a.changes = true
		a.mu.Unlock()
	}
}
