package agent

import (
	"context"
	"maps"
	"strconv"
	"sync"
	"time"

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
	keyNext    = "next"    // when the agent connects next, RFC 3339; only of one with a schedule
	// keyRestored is when the manager was found to have become older, RFC 3339.
	keyRestored = "restored"
	// keyVersion is the highest version of the manager's objects that was seen when
	// something was removed, "<id>/<epoch>/<version>".
	keyVersion = "version"
)

// contactTime limits a write: it must not delay check-ins.
const contactTime = 5 * time.Second

// contact keeps what is known about the manager, for the next start and for users. It
// is written only when its meaning changes.
type contact struct {
	maps      *kube.Store[*corev1.ConfigMap]
	namespace string
	now       func() time.Time

	mu      sync.Mutex
	data    map[string]string
	current bool // data was confirmed since the start

	versioned time.Time // when keyVersion was written last

	changes chan struct{} // has a value after each change of reached; for one reader
}

func newContact(down *kube.Client, namespace string) *contact {
	return &contact{
		maps: kube.StoreOf[*corev1.ConfigMap](down), namespace: namespace, now: time.Now, data: map[string]string{},
		changes: make(chan struct{}, 1),
	}
}

// load reads what the last run knew.
func (c *contact) load(ctx context.Context) error {
	cm, err := c.maps.Get(ctx, kube.Key{Namespace: c.namespace, Name: contactName})
	if err != nil && !kube.IsGone(err) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && cm.Data != nil {
		c.data = cm.Data
	}
	return nil
}

// manager is the manager that answered last.
func (c *contact) manager() (registration.Mark, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := registration.ParseMark(c.data[keyManager])
	return m, err == nil
}

// isAway reports whether the manager did not answer when it was asked last, by this
// process or the one before.
func (c *contact) isAway() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data[keyReached] == "false"
}

// reached notes that the manager answered. back is true if it had been away, or had not
// answered since the start.
func (c *contact) reached(url string, m registration.Mark) (back bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back = !c.current || c.data[keyReached] != "true"
	c.current = true
	if back {
		defer c.nudge()
	}
	want := c.lasting(url)
	want[keyReached], want[keyManager] = "true", ""
	if m.ID != "" {
		want[keyManager] = m.String()
	}
	if c.data[keyReached] != "true" {
		want[keySince] = c.stamp()
	}
	return back, c.keep(want)
}

// lost notes that the manager cannot be worked with. changes is true if it could
// before, or if the reason was another one.
func (c *contact) lost(url string, t trouble, cause error) (changes bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changes = !c.current || c.data[keyReached] != "false" || c.data[keyReason] != t.reason
	c.current = true
	if !changes {
		return false, nil
	}
	defer c.nudge()
	want := c.lasting(url)
	want[keyReached], want[keyRefused] = "false", strconv.FormatBool(t.refused())
	want[keyReason], want[keyError], want[keyHint] = t.reason, cause.Error(), t.hint
	if c.data[keyReached] != "false" {
		want[keySince] = c.stamp()
	}
	return true, c.keep(want)
}

// state is how it stands with the manager, as far as this process has found out.
func (c *contact) state() registration.Contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.current:
		return registration.ContactUnknown
	case c.data[keyReached] == "true":
		return registration.ContactReached
	}
	return registration.ContactLost
}

// anew notes that the agent has another credential, which it has not used yet.
func (c *contact) anew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = false
}

func (c *contact) nudge() {
	select {
	case c.changes <- struct{}{}:
	default:
	}
}

// lasting is what stays known whether the manager at a URL is reached or not.
func (c *contact) lasting(url string) map[string]string {
	want := map[string]string{keyURL: url}
	for _, k := range []string{keyManager, keySince, keyNext, keyRestored, keyVersion} {
		want[k] = c.data[k]
	}
	return want
}

// awaits notes when the agent connects next; a zero time: whenever it can.
func (c *contact) awaits(next time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := maps.Clone(c.data)
	want[keyNext] = ""
	if !next.IsZero() {
		want[keyNext] = next.UTC().Format(time.RFC3339)
	}
	return c.keep(want)
}

// announced is when the agent connects next, as it was noted last; zero for one
// that was always connected.
func (c *contact) announced() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, _ := time.Parse(time.RFC3339, c.data[keyNext]) // the zero time where there is none
	return at
}

func (c *contact) stamp() string { return c.now().UTC().Format(time.RFC3339) }

// keep writes the ConfigMap if its content changes.
func (c *contact) keep(want map[string]string) error {
	for k, v := range want {
		if v == "" {
			delete(want, k)
		}
	}
	if maps.Equal(want, c.data) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), contactTime)
	defer cancel()
	cm := c.object()
	cm.Data = want
	if _, err := c.maps.Apply(ctx, cm); err != nil {
		return err
	}
	c.data = want
	return nil
}

// object is the ConfigMap, for events.
func (c *contact) object() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: contactName}}
}
