// Package store keeps what an agent has accepted: one Secret per deployment in the
// agent's namespace. The Secret has the desired state and, until the release is
// deployed, everything that is needed to deploy it. When the manager is down, the agent
// starts from this store.
//
// A Secret holds at most 1 MiB, so a large payload is split over several; see
// payload.go. The store writes the Secret with the record last and removes it first, so
// that the Secrets that it names always exist.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// Keys of the Secrets.
const (
	keyRecord = "deployment"
	keyValues = "values"
	keyChunk  = "content"
)

// labelChunkOf names the record's Secret on the Secrets of further chunks.
const labelChunkOf = "fleet.cattle.io/chunk-of"

// A Key names a deployment: the same name under another manager is another.
type Key struct {
	Manager string `json:"manager"` // installation id; empty for a manager that has none
	Name    string `json:"name"`    // of the BundleDeployment
}

// A Record is one deployment as it was accepted, and what became of it.
type Record struct {
	Key        Key               `json:"key"`
	Epoch      int               `json:"epoch,omitempty"`
	UID        types.UID         `json:"uid"`
	Generation int64             `json:"generation"`
	Labels     map[string]string `json:"labels,omitempty"` // Fleet's own

	// Spec is the desired state, without the staged version.
	Spec fleet.BundleDeploymentSpec `json:"spec"`
	// Windows and OpenUntil are the change windows and the override that came with Spec:
	// the values of AnnotationWindows and AnnotationOpenUntil.
	Windows   string `json:"windows,omitempty"`
	OpenUntil string `json:"openUntil,omitempty"`
	// Release is the release that Spec makes; Former are others that an
	// earlier Spec made and that are not removed yet.
	Release release.ID   `json:"release"`
	Former  []release.ID `json:"former,omitempty"`
	// Accounts are the service accounts that former releases were made with, by
	// release; one that is not named was made with none.
	Accounts map[string]string `json:"accounts,omitempty"`

	// Applied is the deployment id that was brought about last.
	Applied string `json:"applied,omitempty"`
	// Failed is the permanent failure of a deployment id, if there was one.
	Failed *Failure `json:"failed,omitempty"`
	// HeldSince is since when something older of the manager is held back, by the wall
	// clock. HeldFor is how long this agent has been running meanwhile, regardless of
	// that clock; it grows in steps of a minute.
	HeldSince *time.Time    `json:"heldSince,omitempty"`
	HeldFor   time.Duration `json:"heldFor,omitempty"`
	Held      string        `json:"held,omitempty"` // what it is

	// Version is the BundleDeployment's resourceVersion when it was accepted.
	Version string `json:"version,omitempty"`
	// Revoked is the last order to withdraw that the manager has taken back.
	Revoked string `json:"revoked,omitempty"`
	// Ordered is the order that a deletion implies, where an agent acts on one; see
	// package deploy.
	Ordered string `json:"ordered,omitempty"`

	// Last is kept of a deployment that may be removed by deleting its object; nil: it is
	// not.
	Last *withdrawal.LastState `json:"last,omitempty"`

	// Copies is the deployment id for which the Secrets and ConfigMaps that were copied
	// with the deployment were last cleaned up; empty: there are none.
	Copies string `json:"copies,omitempty"`
	// Carried is the number of the copies that the release was made with.
	Carried int `json:"carried,omitempty"`

	// Unreported are conditions that arose while the manager was away, with the
	// original times.
	Unreported []fleet.Condition `json:"unheard,omitempty"`

	// Chunks is in how many pieces the payload is kept; 0: it is not.
	Chunks int `json:"chunks,omitempty"`
	// Values are the Helm values at the end of these pieces; nil: they stand beside
	// the record, or there are none.
	Values *Values `json:"values,omitempty"`
}

// A Failure is a permanent failure.
type Failure struct {
	ID      string `json:"id"` // deployment id
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// A Store holds the records of one agent. The Secrets are written by it alone.
type Store struct {
	namespace string
	client    *kube.Client
	secrets   *kube.Store[*corev1.Secret]

	mu      sync.RWMutex
	records map[Key]held
}

// held is a record as it is stored in its Secret.
type held struct {
	record Record
	secret *corev1.Secret // without the payload
}

// New returns an empty store; call Load before anything else.
func New(c *kube.Client, namespace string) *Store {
	return &Store{namespace: namespace, client: c, secrets: kube.StoreOf[*corev1.Secret](c), records: map[Key]held{}}
}

// ErrBroken says that a record cannot be read. It is no reason to stop: the manager
// orders its deployment again, and what runs is found.
var ErrBroken = errors.New("a record of the agent's store is broken")

// atOnce is how many Secrets are read at once. A record is a few KB once it is
// deployed, so reading each alone would be slow. Before that it may have a payload of
// up to 1 MiB, so reading all at once would need memory for all payloads.
const atOnce = 10

// selectSecrets returns the watch of the Secrets of all stores in a namespace; labels
// restrict it further.
func selectSecrets(namespace, labels string) kube.Watch {
	return kube.Watch{Namespace: namespace, Labels: fleet.LabelManagerID + labels, Fields: "type=" + string(fleet.SecretTypeAgentStore)}
}

// Load reads all records. It skips Secrets that cannot be read, and returns them as an
// error after it has read the others.
func (s *Store) Load(ctx context.Context) error {
	var bad error
	err := s.secrets.Each(ctx, selectSecrets(s.namespace, ",!"+labelChunkOf), atOnce, func(secret *corev1.Secret) error {
		var r Record
		if err := json.Unmarshal(secret.Data[keyRecord], &r); err != nil {
			bad = fmt.Errorf("%w: %q: %w", ErrBroken, secret.Name, err)
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.records[r.Key] = held{r, withoutData(secret)}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the agent's store: %w", err)
	}
	return bad
}

// A Size is how much there is in a store.
type Size struct {
	Bytes  int64     // of records and payloads
	Newest time.Time // when something was written last; zero: never
}

// Measure returns the size of the store, with records that cannot be read.
func (s *Store) Measure(ctx context.Context) (Size, error) {
	var out Size
	err := s.secrets.Each(ctx, selectSecrets(s.namespace, ""), atOnce, func(secret *corev1.Secret) error {
		for _, data := range secret.Data {
			out.Bytes += int64(len(data))
		}
		for _, f := range secret.ManagedFields {
			if f.Time != nil && f.Time.After(out.Newest) {
				out.Newest = f.Time.Time
			}
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("measure the agent's store: %w", err)
	}
	return out, nil
}

// Get returns the record of a deployment.
func (s *Store) Get(key Key) (Record, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h, ok := s.records[key]
	return h.record, ok
}

// All returns all records, ordered by name and manager.
func (s *Store) All() []Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := make([]Record, 0, len(s.records))
	for _, h := range s.records {
		out = append(out, h.record)
	}
	sort.Slice(out, func(a, b int) bool {
		if out[a].Key.Name != out[b].Key.Name {
			return out[a].Key.Name < out[b].Key.Name
		}
		return out[a].Key.Manager < out[b].Key.Manager
	})
	return out
}

// Accept writes a record together with its payload.
func (s *Store) Accept(ctx context.Context, r Record, p Payload) error {
	chunks, beside, tail := p.split()
	r.Chunks, r.Values = len(chunks), tail
	for i := 1; i < len(chunks); i++ {
		if err := s.createOrOverwrite(ctx, s.chunk(r.Key, i, chunks[i])); err != nil {
			return err
		}
	}
	before, _ := s.Get(r.Key)
	if err := s.write(ctx, r, map[string][]byte{keyChunk: chunks[0], keyValues: beside}); err != nil {
		return err
	}
	return s.dropChunks(ctx, r.Key, before.Chunks, r.Chunks)
}

// Save writes a record if it has changed. It keeps the stored payload unless r.Chunks
// is 0.
func (s *Store) Save(ctx context.Context, r Record) error {
	if r.Chunks == 0 {
		r.Values = nil
	}
	s.mu.RLock()
	before, known := s.records[r.Key]
	s.mu.RUnlock()
	if known && reflect.DeepEqual(before.record, r) {
		return nil
	}
	extra := map[string][]byte{}
	if r.Chunks > 0 {
		secret, err := s.secrets.Get(ctx, s.keyOf(r.Key))
		if err != nil {
			return fmt.Errorf("read record of %q: %w", r.Key.Name, err)
		}
		extra[keyChunk], extra[keyValues] = secret.Data[keyChunk], secret.Data[keyValues]
	}
	if err := s.write(ctx, r, extra); err != nil {
		return err
	}
	return s.dropChunks(ctx, r.Key, before.record.Chunks, r.Chunks)
}

// Drop deletes a record and its payload.
func (s *Store) Drop(ctx context.Context, key Key) error {
	r, ok := s.Get(key)
	if !ok {
		return nil
	}
	if err := s.secrets.Delete(ctx, s.keyOf(key), kube.Precondition{}); err != nil {
		return fmt.Errorf("drop record of %q: %w", key.Name, err)
	}
	s.mu.Lock()
	delete(s.records, key)
	s.mu.Unlock()
	return s.dropChunks(ctx, key, r.Chunks, 0)
}

// dropChunks deletes the Secrets of the chunks from up to, and without, to.
func (s *Store) dropChunks(ctx context.Context, key Key, from, to int) error {
	for i := max(to, 1); i < from; i++ {
		if err := s.secrets.Delete(ctx, kube.Key{Namespace: s.namespace, Name: chunkName(key, i)}, kube.Precondition{}); err != nil {
			return fmt.Errorf("drop payload of %q: %w", key.Name, err)
		}
	}
	return nil
}

// write writes a record to its Secret, with more data.
func (s *Store) write(ctx context.Context, r Record, data map[string][]byte) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode record of %q: %w", r.Key.Name, err)
	}
	data[keyRecord] = text
	for k, v := range data {
		if len(v) == 0 {
			delete(data, k)
		}
	}
	secret := s.secret(r.Key, 0)
	secret.Data = data
	s.mu.RLock()
	before, known := s.records[r.Key]
	s.mu.RUnlock()
	var made *corev1.Secret
	if known {
		secret.ResourceVersion = before.secret.ResourceVersion
		made, err = s.secrets.Update(ctx, secret)
	} else {
		made, err = s.secrets.Create(ctx, secret)
	}
	if kube.IsConflict(err) || kube.IsExists(err) || kube.IsGone(err) {
		made, err = s.overwrite(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write record of %q: %w", r.Key.Name, err)
	}
	s.mu.Lock()
	s.records[r.Key] = held{r, withoutData(made)}
	s.mu.Unlock()
	return nil
}

// createOrOverwrite creates or overwrites a Secret.
func (s *Store) createOrOverwrite(ctx context.Context, secret *corev1.Secret) error {
	_, err := s.secrets.Create(ctx, secret)
	if kube.IsExists(err) {
		_, err = s.overwrite(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write %q: %w", secret.Name, err)
	}
	return nil
}

// overwrite writes a Secret, whether or not one exists. The Secrets are the agent's: a
// user's change or deletion of one must not stop the agent.
func (s *Store) overwrite(ctx context.Context, secret *corev1.Secret) (*corev1.Secret, error) {
	there, err := s.secrets.Get(ctx, kube.KeyOf(secret))
	if kube.IsGone(err) {
		secret.ResourceVersion = ""
		return s.secrets.Create(ctx, secret)
	}
	if err != nil {
		return nil, err
	}
	secret.ResourceVersion = there.ResourceVersion
	return s.secrets.Update(ctx, secret)
}

// chunk returns the Secret for chunk i of a payload.
func (s *Store) chunk(key Key, i int, data []byte) *corev1.Secret {
	out := s.secret(key, i)
	out.Labels[labelChunkOf] = chunkName(key, 0)
	out.Data = map[string][]byte{keyChunk: data}
	return out
}

// secret returns the Secret for chunk i, without data.
func (s *Store) secret(key Key, i int) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: chunkName(key, i),
			Labels: map[string]string{fleet.LabelManagerID: key.Manager},
		},
		Type: fleet.SecretTypeAgentStore,
	}
}

// keyOf returns the key of a record's Secret.
func (s *Store) keyOf(key Key) kube.Key {
	return kube.Key{Namespace: s.namespace, Name: chunkName(key, 0)}
}

// chunkName returns the name of a Secret: short, valid, and different for different
// managers.
func chunkName(key Key, i int) string {
	name := naming.SafeConcat("fleet-store", naming.KeyHash(key.Manager), naming.Limit(key.Name, 30)+"-"+naming.KeyHash(key.Name)[:5])
	if i > 0 {
		name += "-" + strconv.Itoa(i)
	}
	return name
}

// withoutData returns a Secret without its data, for the next write.
func withoutData(secret *corev1.Secret) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret.Name, ResourceVersion: secret.ResourceVersion}}
}
