package agent

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// contactName is the ConfigMap that says how it stands with the manager.
const contactName = fleet.ConfigMapAgentContact

// Keys of that ConfigMap.
const (
	keyManager = "manager" // "<id>/<epoch>/<protocol>"
	keyURL     = "url"
	keyReached = "reached" // "true" or "false"
	keyRefused = "refused" // "true": the manager answers, but not to this credential
	keySince   = "since"   // of reached, RFC 3339
	keyReason  = "reason"  // why not, in one word
	keyError   = "error"   // the same in the words of the last error
	keyHint    = "hint"    // what helps
	keyNext    = "next"    // when an agent with a schedule connects next, RFC 3339
	// keyRestored is when the manager was found to have become older, RFC 3339.
	keyRestored = "restored"
	// keyVersion is the highest version of the manager's objects that was seen when
	// something was removed, "<id>/<epoch>/<version>".
	keyVersion = "version"
)

// contactTime limits a write: it must not delay check-ins.
const contactTime = 5 * time.Second

// A managerState stores what the agent knows about its manager in a ConfigMap, for its
// next start and for users. It writes only if the content changes.
type managerState struct {
	maps      *kube.Store[*corev1.ConfigMap]
	namespace string
	now       func() time.Time

	mu      sync.Mutex
	data    map[string]string
	current bool // data was confirmed since the start

	versioned time.Time // when keyVersion was written last

	changes chan struct{} // has a value after each change of reached; for one reader
}

func newManagerState(down *kube.Client, namespace string) *managerState {
	return &managerState{
		maps: kube.StoreOf[*corev1.ConfigMap](down), namespace: namespace, now: time.Now, data: map[string]string{},
		changes: make(chan struct{}, 1),
	}
}

// load reads what the previous run has stored.
func (ms *managerState) load(ctx context.Context) error {
	cm, err := ms.maps.Get(ctx, kube.Key{Namespace: ms.namespace, Name: contactName})
	if err != nil && !kube.IsGone(err) {
		return err
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if err == nil && cm.Data != nil {
		ms.data = cm.Data
	}
	return nil
}

// lastManager returns the mark of the manager that answered last.
func (ms *managerState) lastManager() (registration.Mark, bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m, err := registration.ParseMark(ms.data[keyManager])
	return m, err == nil
}

// isAway reports whether the manager did not answer the last check-in, of this process
// or of the previous one.
func (ms *managerState) isAway() bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	return ms.data[keyReached] == "false"
}

// setReached records that the manager answered. back reports that it did not answer
// before, or that this is the first answer since the start.
func (ms *managerState) setReached(url string, m registration.Mark) (back bool, err error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	back = !ms.current || ms.data[keyReached] != "true"
	ms.current = true
	if back {
		defer ms.signalChange()
	}
	want := ms.persistentData(url)
	want[keyReached], want[keyManager] = "true", ""
	if m.ID != "" {
		want[keyManager] = m.String()
	}
	if ms.data[keyReached] != "true" {
		want[keySince] = ms.timestamp()
	}
	return back, ms.writeConfigMap(want)
}

// setLost records why the agent cannot work with the manager. changes reports that it
// could before, or that the reason was another one.
func (ms *managerState) setLost(url string, t trouble, cause error) (changes bool, err error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	changes = !ms.current || ms.data[keyReached] != "false" || ms.data[keyReason] != t.reason
	ms.current = true
	if !changes {
		return false, nil
	}
	defer ms.signalChange()
	want := ms.persistentData(url)
	want[keyReached], want[keyRefused] = "false", strconv.FormatBool(t.refused())
	want[keyReason], want[keyError], want[keyHint] = t.reason, cause.Error(), t.hint
	if ms.data[keyReached] != "false" {
		want[keySince] = ms.timestamp()
	}
	return true, ms.writeConfigMap(want)
}

// state returns whether the manager is reached, as far as this process knows.
func (ms *managerState) state() registration.Contact {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	switch {
	case !ms.current:
		return registration.ContactUnknown
	case ms.data[keyReached] == "true":
		return registration.ContactReached
	}
	return registration.ContactLost
}

// setUntried records that the agent has another credential that it has not used yet.
func (ms *managerState) setUntried() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.current = false
}

func (ms *managerState) signalChange() {
	select {
	case ms.changes <- struct{}{}:
	default:
	}
}

// persistentData returns the data that stays valid whether the manager at a URL is
// reached or not.
func (ms *managerState) persistentData(url string) map[string]string {
	want := map[string]string{keyURL: url}
	for _, k := range []string{keyManager, keySince, keyNext, keyRestored, keyVersion} {
		want[k] = ms.data[k]
	}
	return want
}

// setNextConnection records when the agent connects next; the zero time: as soon as it
// can.
func (ms *managerState) setNextConnection(next time.Time) error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	want := maps.Clone(ms.data)
	want[keyNext] = ""
	if !next.IsZero() {
		want[keyNext] = next.UTC().Format(time.RFC3339)
	}
	return ms.writeConfigMap(want)
}

// nextConnection returns what setNextConnection recorded; the zero time for an agent
// that was always connected.
func (ms *managerState) nextConnection() time.Time {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	at, _ := time.Parse(time.RFC3339, ms.data[keyNext]) // the zero time where there is none
	return at
}

// timestamp returns the current time in the form of the ConfigMap.
func (ms *managerState) timestamp() string { return ms.now().UTC().Format(time.RFC3339) }

// writeConfigMap writes the ConfigMap if its content changes.
func (ms *managerState) writeConfigMap(want map[string]string) error {
	for k, v := range want {
		if v == "" {
			delete(want, k)
		}
	}
	if maps.Equal(want, ms.data) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), contactTime)
	defer cancel()
	cm := ms.object()
	cm.Data = want
	if _, err := ms.maps.Apply(ctx, cm); err != nil {
		return err
	}
	ms.data = want
	return nil
}

// object returns the ConfigMap without data, as the subject of events.
func (ms *managerState) object() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ms.namespace, Name: contactName}}
}

// logNotStored logs an error of writing the managerState; nil is none.
func logNotStored(log *logrus.Entry, err error) {
	if err != nil {
		log.WithField("error", err.Error()).Warn("state of the connection not kept")
	}
}
