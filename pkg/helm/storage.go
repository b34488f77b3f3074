package helm

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strconv"
	"time"

	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/pkg/plan/release"

	helmrelease "helm.sh/helm/v3/pkg/release"
)

// Where Helm keeps a release: one Secret per revision.
const (
	recordType   = "helm.sh/release.v1"
	recordData   = "release"
	recordPage   = 20
	maxRecord    = 64 << 20 // bytes of one record, unpacked
	labelOwner   = "owner"
	labelName    = "name"
	labelStatus  = "status"
	labelVersion = "version"
	ownerHelm    = "helm"
)

// record is the part of a stored revision that Fleet reads. The templates of
// the chart are left out: they are most of it.
type record struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Version   int    `json:"version"`
	Manifest  string `json:"manifest"`

	Config map[string]any `json:"config"`
	Info   struct {
		Status       release.State `json:"status"`
		Description  string        `json:"description"`
		LastDeployed time.Time     `json:"last_deployed"`
	} `json:"info"`
	Chart struct {
		Metadata struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	} `json:"chart"`

	secret   string  // name of the Secret
	body     bodyRef // the part that is stored elsewhere
	readable bool
}

// decode reads a record. One that cannot be read keeps what its labels say.
func decode(s *corev1.Secret) record {
	r := record{Namespace: s.Namespace, secret: s.Name}
	err := unpack(s.Data[recordData], &r)
	ref, ok := bodyRefOf(s)
	r.body = ref
	r.readable = err == nil && ok && r.Info.Status != ""
	r.Namespace, r.Name = s.Namespace, s.Labels[labelName]
	if !r.readable {
		r.Version, _ = strconv.Atoi(s.Labels[labelVersion])
	}
	return r
}

func unpack(data []byte, into any) error {
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(data)))
	n, err := base64.StdEncoding.Decode(raw, data)
	if err != nil {
		return err
	}
	raw = raw[:n]
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b, 0x08}) {
		z, err := gzip.NewReader(bytes.NewReader(raw))
		if err != nil {
			return err
		}
		if raw, err = io.ReadAll(io.LimitReader(z, maxRecord)); err != nil {
			return err
		}
	}
	return json.Unmarshal(raw, into)
}

// A recordStore reads and changes Helm's records of releases, in the Secrets of the
// cluster.
type recordStore struct {
	admin          kubernetes.Interface
	bodies         *bodyCache
	agentNamespace string
	recordBytes    int // the longest record in one Secret
}

// records are all revisions of a release, oldest first. One whose body was found
// to be missing, and still is, is not readable.
func (s *recordStore) records(ctx context.Context, id release.ID) ([]record, error) {
	if checkID(id) != nil {
		return nil, nil // it cannot have been made
	}
	selector := labels.Set{labelOwner: ownerHelm, labelName: id.Name}.String()
	list, err := s.admin.CoreV1().Secrets(id.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("read release %s: %w", id, err)
	}
	out := make([]record, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].Type == recordType {
			out = append(out, decode(&list.Items[i]))
		}
	}
	sort.Slice(out, func(a, b int) bool { return out[a].Version < out[b].Version })
	for i := range out {
		if r := &out[i]; s.bodies.isUnreadable(r.body.digest) {
			if err := s.readBody(ctx, r); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// readBody reads the body of a record that has one elsewhere. A record whose body
// is not there is not readable from then on.
func (s *recordStore) readBody(ctx context.Context, r *record) error {
	if !r.readable || r.body == (bodyRef{}) {
		return nil
	}
	b, err := s.bodyStoreFor(s.admin, r.Namespace).get(ctx, r.Name, r.body)
	if errors.Is(err, errNoBody) {
		r.readable = false
		return nil
	}
	if err != nil {
		return fmt.Errorf("read revision %d of release %s/%s: %w", r.Version, r.Namespace, r.Name, err)
	}
	full := &helmrelease.Release{}
	if err := b.restoreInto(full); err != nil {
		r.readable = false
		return nil //nolint:nilerr // that is what it says
	}
	r.Manifest, r.Config = full.Manifest, full.Config
	return nil
}

// Observe reads what Helm's storage holds of a release. A release without a record is
// release.Absent and no error. It does not read the separate body of a large record;
// see Complete.
func (c *Client) Observe(ctx context.Context, id release.ID) (release.Observed, error) {
	list, err := c.store.records(ctx, id)
	if err != nil {
		return release.Observed{}, err
	}
	return observed(id, list), nil
}

// Complete reads what Observe left out of a large release: the manifest of its
// good revision, and the values of the newest. It does nothing for others.
func (c *Client) Complete(ctx context.Context, o *release.Observed) error {
	if !o.Large {
		return nil
	}
	list, err := c.store.records(ctx, o.ID)
	if err != nil {
		return err
	}
	for i := range list {
		r := &list[i]
		if r.Version != o.Good && r.Version != o.Revision {
			continue
		}
		if err := c.store.readBody(ctx, r); err != nil {
			return err
		}
		if !r.readable {
			return fmt.Errorf("read revision %d of release %s: %w", r.Version, o.ID, errNoBody)
		}
		if r.Version == o.Good {
			o.Manifest = r.Manifest
		}
		if r.Version == o.Revision {
			o.Values = r.Config
		}
	}
	o.Large = false
	return nil
}

// List reads all releases that the agent of this client's namespace made, in
// all namespaces, without their manifests. It reads every Helm record of the
// cluster, a few at a time, and is not for hot paths.
func (c *Client) List(ctx context.Context) ([]release.Observed, error) {
	groups := map[release.ID][]record{}
	err := c.store.eachRecord(ctx, func(r record) {
		r.Manifest, r.Config = "", nil
		id := release.ID{Namespace: r.Namespace, Name: r.Name}
		groups[id] = append(groups[id], r)
	})
	if err != nil {
		return nil, err
	}
	var out []release.Observed
	for id, list := range groups {
		sort.Slice(list, func(a, b int) bool { return list[a].Version < list[b].Version })
		if o := observed(id, list); o.Memory.Owner.AgentNamespace == c.cfg.AgentNamespace {
			out = append(out, o)
		}
	}
	sort.Slice(out, func(a, b int) bool { return out[a].ID.String() < out[b].ID.String() })
	return out, nil
}

// eachRecord calls f for every revision of every release in the cluster.
func (s *recordStore) eachRecord(ctx context.Context, f func(record)) error {
	opts := metav1.ListOptions{
		LabelSelector: labels.Set{labelOwner: ownerHelm}.String(),
		FieldSelector: "type=" + recordType,
		Limit:         recordPage,
	}
	for {
		list, err := s.admin.CoreV1().Secrets("").List(ctx, opts)
		if err != nil {
			return fmt.Errorf("list releases: %w", err)
		}
		for i := range list.Items {
			f(decode(&list.Items[i]))
		}
		if list.Continue == "" {
			return nil
		}
		opts.Continue = list.Continue
	}
}

// Forget removes the records of a release and leaves its objects alone.
func (c *Client) Forget(ctx context.Context, id release.ID) error {
	return c.store.removeRecords(ctx, id, func(record) bool { return true })
}

// Purge removes the records of a release that block it: those that cannot be read, and
// those of a release that was uninstalled.
func (c *Client) Purge(ctx context.Context, id release.ID) error {
	return c.store.removeRecords(ctx, id, func(r record) bool {
		return !r.readable || r.Info.Status == release.Uninstalled
	})
}

func (s *recordStore) removeRecords(ctx context.Context, id release.ID, which func(record) bool) error {
	list, err := s.records(ctx, id)
	if err != nil {
		return err
	}
	for _, r := range list {
		if !which(r) {
			continue
		}
		err := s.admin.CoreV1().Secrets(id.Namespace).Delete(ctx, r.secret, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove record %q of release %s: %w", r.secret, id, err)
		}
		if err := s.driver(ctx, s.admin, id.Namespace).dropBody(id.Name, r.body); err != nil {
			return fmt.Errorf("remove record %q of release %s: %w", r.secret, id, err)
		}
	}
	return nil
}

// rewriteStatus changes the status in the stored record of one revision.
func (s *recordStore) rewriteStatus(ctx context.Context, id release.ID, revision int, change func(*helmrelease.Release)) error {
	d := s.driver(ctx, s.admin, id.Namespace)
	d.lean = true
	store := storage.Init(d)
	r, err := store.Get(id.Name, revision)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read revision %d of release %s: %w", revision, id, err)
	}
	change(r)
	if err := store.Update(r); err != nil {
		return fmt.Errorf("write revision %d of release %s: %w", revision, id, err)
	}
	return nil
}

// storageOf is Helm's storage in a namespace, as seen by an identity.
func (s *recordStore) storageOf(ctx context.Context, client kubernetes.Interface, namespace string) *storage.Storage {
	return storage.Init(s.driver(ctx, client, namespace))
}

func (s *recordStore) driver(ctx context.Context, client kubernetes.Interface, namespace string) *secrets {
	return newSecrets(ctx, client.CoreV1().Secrets(namespace), s.bodyStoreFor(client, namespace))
}

func (s *recordStore) bodyStoreFor(client kubernetes.Interface, namespace string) *bodyStore {
	return &bodyStore{api: client.CoreV1().Secrets(namespace), agent: s.agentNamespace, memory: s.bodies, now: time.Now, recordBytes: s.recordBytes}
}
