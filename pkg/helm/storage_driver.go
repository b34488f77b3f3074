package helm

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"

	helmrelease "helm.sh/helm/v3/pkg/release"
)

const (
	// recordLimit is the longest record, as Helm writes it, that is kept in one Secret:
	// the size limit of a Secret, less its metadata, so that no object is above 1 MiB.
	recordLimit = 1<<20 - 16<<10
	// recordSmall is below which length a record is not measured: it fits in any case.
	recordSmall = 128 << 10
)

// secrets is Helm's storage in Secrets for records of any size. Helm's own driver
// writes a record that fits into a Secret, byte for byte. For a larger one, Helm's
// Secret holds what lists show, in Helm's format, and further Secrets hold the rest,
// its body.
//
// The parts of a body are written before the Secret that names them and removed after
// it, so a process may be killed between any two requests: an existing record is
// complete. Leftover parts are swept (see SweepParts).
type secrets struct {
	*driver.Secrets
	ctx   context.Context // Helm's storage has none
	api   typedcorev1.SecretInterface
	depot *bodyStore
	lean  bool                 // Get leaves out bodies; for changes of the status
	known map[string]knownBody // by name of the record's Secret

	// before is asked before a new record is written, if set: its error says why not.
	beforeCreate func(*helmrelease.Release) error

	last    *helmrelease.Release // that was written last, as Helm goes on changing it
	lastKey string
}

// A knownBody is a body as it was last read or written here, so that a change of
// the status alone does not write it again.
type knownBody struct {
	ref     bodyRef
	release *helmrelease.Release // nil if it was not read
	line    []byte
}

// errNoRecord says that a record cannot be read at all.
var errNoRecord = errors.New("the record is damaged")

var _ driver.Driver = (*secrets)(nil)

func newSecrets(ctx context.Context, api typedcorev1.SecretInterface, d *bodyStore) *secrets {
	return &secrets{Secrets: driver.NewSecrets(api), ctx: ctx, api: api, depot: d, known: map[string]knownBody{}}
}

// Get reads one record.
func (s *secrets) Get(key string) (*helmrelease.Release, error) {
	secret, err := s.api.Get(s.ctx, key, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, driver.ErrReleaseNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	r, err := s.decode(secret, !s.lean)
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	return r, nil
}

// decode reads a record, with its body if full is set.
func (s *secrets) decode(secret *corev1.Secret, full bool) (*helmrelease.Release, error) {
	r := &helmrelease.Release{}
	if err := unpack(secret.Data[recordData], r); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoRecord, err)
	}
	r.Labels = userLabels(secret.Labels)
	ref, ok := bodyRefOf(secret)
	if !ok {
		return nil, errNoRecord
	}
	if ref == (bodyRef{}) {
		return r, nil
	}
	if !full {
		s.known[secret.Name] = knownBody{ref: ref}
		return r, nil
	}
	b, err := s.depot.get(s.ctx, r.Name, ref)
	if err != nil {
		return nil, err
	}
	if err := b.restoreInto(r); err != nil {
		return nil, err
	}
	seen := *r
	s.known[secret.Name] = knownBody{ref: ref, release: &seen, line: b.line}
	return r, nil
}

// userLabels are the labels of a record that are not Helm's own.
func userLabels(all map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range all {
		if !driver.ContainsSystemLabels(map[string]string{k: v}) {
			out[k] = v
		}
	}
	return out
}

// List reads all records of the namespace.
func (s *secrets) List(filter func(*helmrelease.Release) bool) ([]*helmrelease.Release, error) {
	list, err := s.query(labels.Set{labelOwner: ownerHelm})
	if err != nil {
		return nil, err
	}
	var out []*helmrelease.Release
	for _, r := range list {
		if filter(r) {
			out = append(out, r)
		}
	}
	return out, nil
}

// Query reads all records with these labels.
func (s *secrets) Query(want map[string]string) ([]*helmrelease.Release, error) {
	out, err := s.query(want)
	if err == nil && len(out) == 0 {
		return nil, driver.ErrReleaseNotFound
	}
	return out, err
}

// query reads records. The bodies of those that were replaced by others are left out:
// only Get goes back to them. As with Helm, records that cannot be read at all are left
// out as well. A record that lacks its body is an error, so that no caller takes it for
// missing.
func (s *secrets) query(want labels.Set) ([]*helmrelease.Release, error) {
	list, err := s.api.List(s.ctx, metav1.ListOptions{LabelSelector: want.AsSelector().String()})
	if err != nil {
		return nil, fmt.Errorf("list records: %w", err)
	}
	newest := map[string]int{}
	for i := range list.Items {
		name := list.Items[i].Labels[labelName]
		newest[name] = max(newest[name], revisionOf(&list.Items[i]))
	}
	var out []*helmrelease.Release
	for i := range list.Items {
		secret := &list.Items[i]
		last := revisionOf(secret) == newest[secret.Labels[labelName]]
		replaced := secret.Labels[labelStatus] == string(helmrelease.StatusSuperseded)
		r, err := s.decode(secret, last || !replaced)
		if errors.Is(err, errNoRecord) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r.Labels = secret.Labels
		out = append(out, r)
	}
	return out, nil
}

// Create writes a new record. Rollbacks are marked as Fleet's.
func (s *secrets) Create(key string, r *helmrelease.Release) error {
	if r.Info.Status == helmrelease.StatusPendingRollback {
		r.Info.Description = release.RollbackText(r.Info.Description)
	}
	if s.beforeCreate != nil {
		if err := s.beforeCreate(r); err != nil {
			return err
		}
	}
	s.last, s.lastKey = r, key
	inner, head, err := s.splitBody(key, r)
	if err != nil {
		return fmt.Errorf("create %q: %w", key, err)
	}
	return inner.Create(key, head)
}

// Update writes a record again. The parts of a body that it does not have any more are
// removed.
func (s *secrets) Update(key string, r *helmrelease.Release) error {
	s.last, s.lastKey = r, key
	before := s.known[key].ref
	inner, head, err := s.splitBody(key, r)
	if err != nil {
		return fmt.Errorf("update %q: %w", key, err)
	}
	if err := inner.Update(key, head); err != nil {
		return err
	}
	if before != s.known[key].ref {
		return s.dropBody(r.Name, before)
	}
	return nil
}

// Delete removes a record and what belongs to it. The result lacks the body.
func (s *secrets) Delete(key string) (*helmrelease.Release, error) {
	secret, err := s.api.Get(s.ctx, key, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, driver.ErrReleaseNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	r, err := s.decode(secret, false)
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	if err := s.api.Delete(s.ctx, key, metav1.DeleteOptions{}); err != nil {
		return r, err
	}
	delete(s.known, key)
	ref, _ := bodyRefOf(secret)
	return r, s.dropBody(r.Name, ref)
}

// dropBody removes the parts of a body that no record names.
func (s *secrets) dropBody(releaseName string, ref bodyRef) error {
	if ref == (bodyRef{}) {
		return nil
	}
	selector := labels.Set{labelOwner: ownerHelm, labelName: releaseName}.String()
	list, err := s.api.List(s.ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("list records: %w", err)
	}
	for i := range list.Items {
		if other, _ := bodyRefOf(&list.Items[i]); other.digest == ref.digest {
			return nil
		}
	}
	return s.depot.remove(s.ctx, releaseName, ref)
}

// splitBody writes the body of a record that is too large for one Secret. It
// returns what is left for Helm's driver to write, and that driver.
func (s *secrets) splitBody(key string, r *helmrelease.Release) (*driver.Secrets, *helmrelease.Release, error) {
	ref, same := s.storedBody(key, r)
	if !same {
		small, err := fitsSecret(r, s.depot.recordBytes)
		if err != nil {
			return nil, nil, err
		}
		if small {
			delete(s.known, key)
			return s.Secrets, r, nil
		}
		b, err := bodyOf(r)
		if err != nil {
			return nil, nil, err
		}
		if ref, err = s.depot.put(s.ctx, r.Name, b); err != nil {
			return nil, nil, err
		}
		seen := *r
		s.known[key] = knownBody{ref: ref, release: &seen, line: b.line}
	}
	return driver.NewSecrets(annotated{s.api, ref}), headOf(r), nil
}

// storedBody reports whether the body of a record is known to be stored already: it
// equals the one that was read under the same name, or that of another revision of the
// release.
func (s *secrets) storedBody(key string, r *helmrelease.Release) (bodyRef, bool) {
	k, ok := s.known[key]
	if ok && k.release == nil && r.Manifest == headOf(r).Manifest {
		return k.ref, true // read without its body
	}
	for _, k := range s.known {
		if k.release == nil || k.release.Name != r.Name || k.release.Manifest != r.Manifest {
			continue
		}
		if b, err := bodyOf(r); err == nil && string(b.line) == string(k.line) {
			seen := *r
			s.known[key] = knownBody{ref: k.ref, release: &seen, line: k.line}
			return k.ref, true
		}
	}
	return bodyRef{}, false
}

// annotated names the body on every Secret that Helm's driver writes.
type annotated struct {
	typedcorev1.SecretInterface
	ref bodyRef
}

func (a annotated) Create(ctx context.Context, secret *corev1.Secret, o metav1.CreateOptions) (*corev1.Secret, error) {
	secret.Annotations = withEntries(secret.Annotations, map[string]string{fleet.AnnotationReleaseBody: a.ref.String()})
	return a.SecretInterface.Create(ctx, secret, o)
}

func (a annotated) Update(ctx context.Context, secret *corev1.Secret, o metav1.UpdateOptions) (*corev1.Secret, error) {
	secret.Annotations = withEntries(secret.Annotations, map[string]string{fleet.AnnotationReleaseBody: a.ref.String()})
	return a.SecretInterface.Update(ctx, secret, o)
}

// fitsSecret reports whether a record, as Helm's driver writes it, is at most
// longest long.
func fitsSecret(r *helmrelease.Release, longest int) (bool, error) {
	size := len(r.Manifest)
	for _, h := range r.Hooks {
		size += len(h.Manifest)
	}
	if r.Chart != nil {
		size += len(r.Chart.Schema)
		for _, f := range r.Chart.Templates {
			size += len(f.Data)
		}
		for _, f := range r.Chart.Files {
			size += len(f.Data)
		}
	}
	values, err := json.Marshal([]any{r.Config, r.Info})
	if err != nil {
		return false, err
	}
	if size+len(values) < min(recordSmall, longest/8) {
		return true, nil
	}
	limit := int64(longest / 4 * 3) // before base64
	if n, err := packedSize(limit+limit/8, func(w io.Writer) error { _, err := io.WriteString(w, r.Manifest); return err }); err != nil || n > limit+limit/8 {
		return false, err // there is no need to make the JSON of all
	}
	n, err := packedSize(limit, func(w io.Writer) error { return json.NewEncoder(w).Encode(r) })
	return n <= limit && base64.StdEncoding.EncodedLen(int(n)) <= longest, err
}

// errLong ends a measurement: it is more than what matters.
var errLong = errors.New("long enough")

// packedSize is how long the gzip is of what write writes, or something above
// limit if it is longer than that.
func packedSize(limit int64, write func(io.Writer) error) (int64, error) {
	n := countingWriter{limit: limit}
	z, err := gzip.NewWriterLevel(&n, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	if err = write(z); err == nil {
		err = z.Close()
	}
	if errors.Is(err, errLong) {
		err = nil
	}
	return n.bytes, err
}

type countingWriter struct{ bytes, limit int64 }

func (c *countingWriter) Write(p []byte) (int, error) {
	if c.bytes += int64(len(p)); c.bytes > c.limit {
		return 0, errLong
	}
	return len(p), nil
}

// revisionOf is the revision of a record, by its label.
func revisionOf(secret *corev1.Secret) int {
	n, err := strconv.Atoi(secret.Labels[labelVersion])
	if err != nil {
		return 0
	}
	return n
}
