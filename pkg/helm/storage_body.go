package helm

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"

	helmrelease "helm.sh/helm/v3/pkg/release"
)

const (
	// partBytes is how much of a body one Secret holds at most: as JSON, with base64, it
	// stays below 1 MiB.
	partBytes = 700 << 10
	// maxBody is how large a body may be, unpacked.
	maxBody = 256 << 20
	// maxBodyParts is in how many Secrets one may stand.
	maxBodyParts = 1024
	// partData is the key of a part in its Secret.
	partData = "part"
	// bodyMemory is for how long a body that was read is kept: one run of the agent
	// reads a release several times.
	bodyMemory = 10 * time.Second
)

// errNoBody says that a part of a body is not there, or is not what it was.
var errNoBody = errors.New("a part of the record is missing or damaged")

// A bodyRef names the body of a record: the part that is stored in further Secrets. The
// zero bodyRef is that of a record in a single Secret.
type bodyRef struct {
	digest string // of the body before packing, in hex
	parts  int
}

func (r bodyRef) String() string { return r.digest + "/" + strconv.Itoa(r.parts) }

// bodyRefOf reads the annotation of a record's Secret.
func bodyRefOf(m metav1.Object) (ref bodyRef, ok bool) {
	text, there := m.GetAnnotations()[fleet.AnnotationReleaseBody]
	if !there {
		return bodyRef{}, true
	}
	digest, count, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > maxBodyParts || len(digest) != hex.EncodedLen(sha256.Size) {
		return bodyRef{}, false
	}
	return bodyRef{digest, n}, true
}

// partName is the name of a Secret with a part of a body. Revisions with the same
// body share its parts.
func partName(releaseName string, ref bodyRef, i int) string {
	return fmt.Sprintf("fleet.release.%s.%s.%d", releaseName, ref.digest[:16], i)
}

// A body is the part of a record that is stored in further Secrets: a line of JSON and
// then the manifest as it is, so that it is never held twice.
type body struct {
	line     []byte // a bodyLine
	manifest string
}

type bodyLine struct {
	Chart         *chart.Chart        `json:"chart,omitempty"`
	Config        map[string]any      `json:"config,omitempty"`
	Hooks         []*helmrelease.Hook `json:"hooks,omitempty"`
	ManifestBytes int64               `json:"manifestBytes"`
}

// bodyOf returns the body of a release. Files and templates of the chart are left out:
// they are not read once it is rendered.
func bodyOf(r *helmrelease.Release) (body, error) {
	line := bodyLine{Config: r.Config, Hooks: r.Hooks, ManifestBytes: int64(len(r.Manifest))}
	if r.Chart != nil {
		line.Chart = &chart.Chart{Metadata: r.Chart.Metadata, Lock: r.Chart.Lock, Values: r.Chart.Values, Schema: r.Chart.Schema}
	}
	raw, err := json.Marshal(line)
	return body{line: append(raw, '\n'), manifest: r.Manifest}, err
}

// restoreInto puts a body back into the rest of its release.
func (b body) restoreInto(r *helmrelease.Release) error {
	var line bodyLine
	if err := json.Unmarshal(b.line, &line); err != nil {
		return fmt.Errorf("%w: %w", errNoBody, err)
	}
	r.Chart, r.Config, r.Hooks, r.Manifest = line.Chart, line.Config, line.Hooks, b.manifest
	return nil
}

func (b body) write(w io.Writer) error {
	if _, err := w.Write(b.line); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.manifest)
	return err
}

func (b body) digest() string {
	h := sha256.New()
	_ = b.write(h) // a hash takes every write
	return hex.EncodeToString(h.Sum(nil))
}

// headOf returns the part of a release that stays in Helm's own Secret: all
// that Helm and other programs list, in Helm's own format.
func headOf(r *helmrelease.Release) *helmrelease.Release {
	out := *r
	out.Config, out.Hooks = nil, nil
	out.Manifest = "# This manifest is larger than a Secret takes. The Fleet agent keeps it in further Secrets,\n# named fleet.release." + r.Name + ".*\n"
	if r.Chart != nil {
		out.Chart = &chart.Chart{Metadata: r.Chart.Metadata}
	}
	if r.Info != nil && len(r.Info.Notes) > partBytes/2 {
		info := *r.Info
		info.Notes = strings.ToValidUTF8(info.Notes[:partBytes/2], "") + "\n(shortened)"
		out.Info = &info
	}
	return &out
}

// A depot keeps bodies in the Secrets of one namespace, as seen by one identity.
type bodyStore struct {
	api    typedcorev1.SecretInterface
	agent  string // namespace of the agent, whose mark the parts bear
	memory *bodyCache
	now    func() time.Time

	recordBytes int // the longest record in one Secret
}

// bytesPerPart is how much of a body one Secret holds.
func (bs *bodyStore) bytesPerPart() int { return min(partBytes, bs.recordBytes/10*7) }

// put writes a body, unless it is stored already. It writes one part at a time; if that
// fails, the written parts stay, and are found again or swept.
func (bs *bodyStore) put(ctx context.Context, releaseName string, b body) (bodyRef, error) {
	w := &partWriter{ctx: ctx, depot: bs, release: releaseName, ref: bodyRef{digest: b.digest()}}
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return bodyRef{}, err
	}
	if err = b.write(z); err == nil {
		err = z.Close()
	}
	if err == nil {
		err = w.flush()
	}
	if err != nil {
		return bodyRef{}, fmt.Errorf("write parts of the record: %w", err)
	}
	bs.memory.keep(w.ref.digest, b)
	return w.ref, nil
}

// partWriter cuts what is written into Secrets.
type partWriter struct {
	ctx     context.Context
	depot   *bodyStore
	release string
	ref     bodyRef
	open    []byte
}

func (w *partWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(w.open) == w.depot.bytesPerPart() {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
		if w.open == nil {
			w.open = make([]byte, 0, w.depot.bytesPerPart())
		}
		take := min(len(p), w.depot.bytesPerPart()-len(w.open))
		w.open = append(w.open, p[:take]...)
		p = p[take:]
	}
	return n, nil
}

func (w *partWriter) flush() error {
	if w.ref.parts >= maxBodyParts {
		return fmt.Errorf("more than %d parts", maxBodyParts)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: partName(w.release, w.ref, w.ref.parts),
			Labels: map[string]string{
				fleet.LabelReleasePartOf:  w.release,
				fleet.LabelAgentNamespace: w.depot.agent,
			},
		},
		Type: fleet.SecretTypeReleasePart,
		Data: map[string][]byte{partData: w.open},
	}
	w.ref.parts++
	w.open = w.open[:0]
	return w.depot.putPart(w.ctx, secret)
}

// putPart writes a part. An existing part, from an attempt that was interrupted, is
// written again: that shows to the sweep that it is needed.
func (bs *bodyStore) putPart(ctx context.Context, secret *corev1.Secret) error {
	_, err := bs.api.Create(ctx, secret, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	secret.Annotations = map[string]string{fleet.AnnotationContentRenewed: bs.now().UTC().Format(time.RFC3339)}
	_, err = bs.api.Update(ctx, secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = bs.api.Create(ctx, secret, metav1.CreateOptions{})
	}
	return err
}

// get reads a body. One that is not there in full, or is not what it was, is
// errNoBody.
func (bs *bodyStore) get(ctx context.Context, releaseName string, ref bodyRef) (body, error) {
	if b, ok := bs.memory.find(ref.digest); ok {
		return b, nil
	}
	r := &partReader{ctx: ctx, depot: bs, release: releaseName, ref: ref}
	b, err := readBody(r, ref.digest)
	if r.err != nil {
		err = r.err // what the API said, and not what followed from it
	}
	bs.memory.setUnreadable(ref.digest, errors.Is(err, errNoBody))
	if err != nil {
		return body{}, fmt.Errorf("read parts of the record: %w", err)
	}
	bs.memory.keep(ref.digest, b)
	return b, nil
}

func readBody(r io.Reader, digest string) (body, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return body{}, fmt.Errorf("%w: %w", errNoBody, err)
	}
	sum := sha256.New()
	in := bufio.NewReader(io.TeeReader(io.LimitReader(z, maxBody), sum))
	line, err := in.ReadBytes('\n')
	if err != nil {
		return body{}, fmt.Errorf("%w: %w", errNoBody, err)
	}
	var size struct {
		ManifestBytes int64 `json:"manifestBytes"`
	}
	if err := json.Unmarshal(line, &size); err != nil {
		return body{}, fmt.Errorf("%w: %w", errNoBody, err)
	}
	var manifest strings.Builder
	if size.ManifestBytes > 0 && size.ManifestBytes <= maxBody {
		manifest.Grow(int(size.ManifestBytes))
	}
	if _, err := io.Copy(&manifest, in); err != nil {
		return body{}, fmt.Errorf("%w: %w", errNoBody, err)
	}
	if !matchesDigest(sum, digest) {
		return body{}, errNoBody
	}
	return body{line: bytes.Clone(line), manifest: manifest.String()}, nil
}

func matchesDigest(sum hash.Hash, digest string) bool {
	return hex.EncodeToString(sum.Sum(nil)) == digest
}

// partReader reads the parts of a body one after the other.
type partReader struct {
	ctx     context.Context
	depot   *bodyStore
	release string
	ref     bodyRef
	next    int
	open    []byte
	err     error // of the API; errNoBody for a part that is not there
}

func (r *partReader) Read(p []byte) (int, error) {
	for len(r.open) == 0 {
		if r.next == r.ref.parts {
			return 0, io.EOF
		}
		secret, err := r.depot.api.Get(r.ctx, partName(r.release, r.ref, r.next), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			err = errNoBody
		}
		if err != nil {
			r.err = err
			return 0, err
		}
		r.open = secret.Data[partData]
		r.next++
	}
	n := copy(p, r.open)
	r.open = r.open[n:]
	return n, nil
}

// remove removes the parts of a body, if they are there.
func (bs *bodyStore) remove(ctx context.Context, releaseName string, ref bodyRef) error {
	for i := range ref.parts {
		err := bs.api.Delete(ctx, partName(releaseName, ref, i), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove parts of the record: %w", err)
		}
	}
	return nil
}

// bodyCache remembers bodies for a moment. Their bytes are large and not worth
// more.
type bodyCache struct {
	mu         sync.Mutex
	known      map[string]*cachedBody
	unreadable map[string]bool // bodies that were not there in full when read last
}

type cachedBody struct {
	body  body
	timer *time.Timer
}

func newBodies() *bodyCache {
	return &bodyCache{known: map[string]*cachedBody{}, unreadable: map[string]bool{}}
}

// setUnreadable notes whether a body could not be read for what it is.
func (bc *bodyCache) setUnreadable(digest string, yes bool) {
	bc.mu.Lock()
	defer bc.mu.Unlock()
	if yes {
		bc.unreadable[digest] = true
		return
	}
	delete(bc.unreadable, digest)
}

func (bc *bodyCache) isUnreadable(digest string) bool {
	bc.mu.Lock()
	defer bc.mu.Unlock()
	return bc.unreadable[digest]
}

func (bc *bodyCache) find(digest string) (body, bool) {
	bc.mu.Lock()
	defer bc.mu.Unlock()
	r, ok := bc.known[digest]
	if !ok {
		return body{}, false
	}
	r.timer.Reset(bodyMemory)
	return r.body, true
}

func (bc *bodyCache) keep(digest string, b body) {
	bc.mu.Lock()
	defer bc.mu.Unlock()
	if r, ok := bc.known[digest]; ok {
		r.timer.Reset(bodyMemory)
		return
	}
	bc.known[digest] = &cachedBody{b, time.AfterFunc(bodyMemory, func() {
		bc.mu.Lock()
		defer bc.mu.Unlock()
		delete(bc.known, digest)
	})}
}
