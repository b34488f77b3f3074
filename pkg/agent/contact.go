package agent

import (
	"context"
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
const contactName = "fleet-agent-contact"

// Keys of that ConfigMap.
const (
	keyManager = "manager" // "<id>/<epoch>/<protocol>"
	keyURL     = "url"
	keyReached = "reached" // "true" or "false"
	keyRefused = "refused" // "true": the manager answers, but not to this credential
	keySince   = "since"   // of reached, RFC 3339
	keyError   = "error"   // why not
	keyHint    = "hint"    // what helps
)

// contactTime limits a write: it must not hold up check-ins.
const contactTime = 5 * time.Second

// contact keeps what is known about the manager, for the next start and for
// people. It is written only when it means something else.
type contact struct {
	maps      *kube.Store[*corev1.ConfigMap]
	namespace string
	now       func() time.Time

	mu      sync.Mutex
	data    map[string]string
	current bool // data was confirmed since the start
}

func newContact(down *kube.Client, namespace string) *contact {
	return &contact{maps: kube.StoreOf[*corev1.ConfigMap](down), namespace: namespace, now: time.Now, data: map[string]string{}}
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

// reached notes that the manager answered. back is true if it had been away, or
// was not heard of since the start.
func (c *contact) reached(url string, m registration.Mark) (back bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back = !c.current || c.data[keyReached] != "true"
	c.current = true
	want := map[string]string{keyURL: url, keyReached: "true", keySince: c.data[keySince]}
	if m.ID != "" {
		want[keyManager] = m.String()
	}
	if c.data[keyReached] != "true" {
		want[keySince] = c.stamp()
	}
	return back, c.keep(want)
}

// lost notes that the manager did not answer. news is true if it did before.
func (c *contact) lost(url string, cause error, refused bool) (news bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.data[keyRefused] == "true"
	news = !c.current || c.data[keyReached] != "false" || was != refused
	c.current = true
	if !news {
		return false, nil
	}
	want := map[string]string{
		keyURL: url, keyReached: "false", keySince: c.data[keySince], keyError: cause.Error(),
		keyRefused: strconv.FormatBool(refused), keyManager: c.data[keyManager],
	}
	if refused {
		want[keyHint] = joinHint(c.namespace)
	}
	if c.data[keyReached] != "false" {
		want[keySince] = c.stamp()
	}
	return true, c.keep(want)
}

func (c *contact) stamp() string { return c.now().UTC().Format(time.RFC3339) }

// keep writes the ConfigMap if it is to say something else.
func (c *contact) keep(want map[string]string) error {
	for k, v := range want {
		if v == "" {
			delete(want, k)
		}
	}
	same := len(want) == len(c.data)
	for k, v := range want {
		same = same && c.data[k] == v
	}
	if same {
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

// untilSynced waits for the first list of a cache.
func untilSynced(ctx context.Context, cache *kube.Cache[*fleet.BundleDeployment]) error {
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for !cache.HasSynced() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
	return nil
}
