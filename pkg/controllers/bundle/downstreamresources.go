package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Deployments may take Secrets and ConfigMaps along: downstreamResources, and
// the credentials for charts that agents pull. Each is copied into the namespace
// of a cluster before the deployment there that names it is written, and goes
// with the last one that does.

// Reasons of Bundles whose sources keep them.
const (
	reasonNoSource = deployment.ReasonNoSource
	reasonTaken    = "SecretTaken"
)

// copyGrace is how long a copy may exist without a deployment that names it, and a
// deployment without its copies: both are written one after the other.
const copyGrace = 5 * time.Second

// A sourceData is a source with its data, as it was read from the API server.
type sourceData struct {
	sourceVersion
	typ    corev1.SecretType
	data   map[string][]byte
	text   map[string]string
	secret bool
}

// sourceReads are the sources that were read for one decision.
type sourceReads struct {
	mu  sync.Mutex
	all map[deployment.Source]sourceData
}

// gatherSources finds the Secrets and ConfigMaps that deployments of a Bundle need in
// their clusters, and reads each of them once for each resourceVersion.
func (c *copyController) gatherSources(ctx context.Context, s *snapshot) error {
	list, err := deployment.Sources(&s.bundle.Spec)
	if err != nil {
		return err
	}
	c.sources.setUsed(s.key, list) // before reading: what changes after that wakes us up
	s.sources, s.loaded = map[deployment.Source]string{}, &sourceReads{all: map[deployment.Source]sourceData{}}
	if len(list) > 0 {
		s.secretUses = c.secretUses(s.key.Namespace)
	}
	var missing, refused []string
	for _, one := range list {
		f, ok := c.sources.read(sourceKey{s.key.Namespace, one})
		if !ok {
			l, err := c.readSource(ctx, s, one)
			if kube.IsGone(err) {
				missing = append(missing, one.String())
				continue
			}
			if err != nil {
				return err
			}
			f = l.sourceVersion
		}
		if why := c.withheldReason(s, one, f.origin); why != "" {
			refused = append(refused, why)
			c.sources.addRefused(s.key, one)
			continue
		}
		s.sources[one] = f.digest
	}
	if len(refused) > 0 {
		return withheldError(refused)
	}
	if len(missing) > 0 {
		return reconcile.RequeueError(reasonNoSource, 0, fmt.Errorf(
			"waits for %s in namespace %q, which the bundle takes along", strings.Join(missing[:min(3, len(missing))], ", "), s.key.Namespace))
	}
	return nil
}

// readSource reads a source from the API server, at most once for a decision.
func (c *copyController) readSource(ctx context.Context, s *snapshot, one deployment.Source) (sourceData, error) {
	s.loaded.mu.Lock()
	defer s.loaded.mu.Unlock()
	if l, ok := s.loaded.all[one]; ok {
		return l, nil
	}
	key := sourceKey{s.key.Namespace, one}
	var l sourceData
	var m metav1.Object
	if one.Kind == deployment.KindConfigMap {
		cm, err := c.configMaps.Get(ctx, key.key())
		if err != nil {
			return l, err
		}
		l.data, l.text, m = cm.BinaryData, cm.Data, cm
	} else {
		secret, err := c.secrets.Get(ctx, key.key())
		if err != nil {
			return l, err
		}
		l.secret, l.typ, l.data, m = true, secret.Type, secret.Data, secret
	}
	var err error
	if l.sourceVersion, err = l.versionOf(m); err != nil {
		return l, err
	}
	l.origin = deployment.OriginOf(m, l.typ)
	s.loaded.all[one] = l
	c.sources.setRead(key, l.sourceVersion)
	return l, nil
}

// versionOf returns the version and the digest of a source. Users who may not read a
// Secret can see the digest. It covers the UID of the Secret, so that these users
// cannot check a guess of its data.
func (s sourceData) versionOf(m metav1.Object) (sourceVersion, error) {
	raw, err := json.Marshal([]any{m.GetUID(), s.typ, s.data, s.text})
	if err != nil {
		return sourceVersion{}, err
	}
	sum := sha256.Sum256(raw)
	return sourceVersion{version: m.GetResourceVersion(), digest: hex.EncodeToString(sum[:16])}, nil
}

// sourcesDigest returns one digest of all sources of the Bundle.
func (s *snapshot) sourcesDigest() string {
	list := make([]deployment.Source, 0, len(s.sources))
	for one := range s.sources {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b deployment.Source) int { return strings.Compare(a.String(), b.String()) })
	return deployment.Digest(list, s.sources)
}

// renderVersion renders the version of a pair. The id of the version covers the sources
// that are copied with it.
func (s *snapshot) renderVersion(p *pair) (deployment.Version, error) {
	v, err := s.compiled.Render(p.verdict, p.place)
	if err != nil {
		return v, err
	}
	return v.WithCarried(deployment.Digest(deployment.CarriedBy(&v.Options, s.compiled.Chart()), s.sources)), nil
}

// copySources copies the sources that a deployment names into the namespace of its
// cluster.
func (c *copyController) copySources(ctx context.Context, s *snapshot, p *pair) error {
	options := &p.version.Options
	for _, one := range deployment.CarriedBy(options, s.compiled.Chart()) {
		key := kube.Key{Namespace: p.place.Namespace, Name: one.Name}
		if there, ok := c.copyCache(one.Kind).Get(key); ok && isCopy(there) && there.Annotations[fleet.AnnotationInputHash] == s.sources[one] {
			continue
		}
		l, err := c.readSource(ctx, s, one)
		if kube.IsGone(err) {
			return reconcile.RequeueError(reasonNoSource, namespaceRetry, fmt.Errorf("waits for %s, which was there a moment ago", one))
		}
		if err != nil {
			return err
		}
		if why := c.withheldReason(s, one, l.origin); why != "" { // it has changed since
			return withheldError([]string{why})
		}
		if only := one.Kind == deployment.KindSecret && !namesSource(options, one); only {
			l.typ = fleet.SecretTypeHelmOpsAccess
		}
		if err := c.writeCopy(ctx, key, l); err != nil {
			return fmt.Errorf("take %s along: %w", one, err)
		}
	}
	return nil
}

// namesSource reports whether options name a source. Otherwise only the chart needs it.
func namesSource(o *fleet.BundleDeploymentOptions, one deployment.Source) bool {
	return slices.Contains(deployment.CarriedBy(o, nil), one)
}

// copyCache returns the cache that holds the copies of a kind.
func (c *copyController) copyCache(kind string) *kube.Cache[*metav1.PartialObjectMetadata] {
	if kind == deployment.KindConfigMap {
		return c.cache.configMaps
	}
	return c.cache.secrets
}

// isCopy reports whether an object is a copy that the copyController has made.
func isCopy(m *metav1.PartialObjectMetadata) bool {
	return m != nil && m.Labels[fleet.LabelCarried] == "true"
}

// writeCopy writes one copy.
func (c *copyController) writeCopy(ctx context.Context, key kube.Key, l sourceData) error {
	meta := metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name,
		Labels:      map[string]string{fleet.LabelManaged: "true", fleet.LabelCarried: "true"},
		Annotations: map[string]string{fleet.AnnotationInputHash: l.digest},
	}
	if l.secret {
		if l.typ == fleet.SecretTypeHelmOpsAccess {
			meta.Labels[fleet.LabelInternalSecret] = "true"
		}
		return overwrite(ctx, c.secrets, &corev1.Secret{ObjectMeta: meta, Type: l.typ, Data: l.data}, func(s *corev1.Secret) bool { return s.Type == l.typ })
	}
	return overwrite(ctx, c.configMaps, &corev1.ConfigMap{ObjectMeta: meta, Data: l.text, BinaryData: l.data}, func(*corev1.ConfigMap) bool { return true })
}

// overwrite creates a copy, or updates it. An object of the same name that is not a
// copy is an error. changeable reports whether the API server accepts an update of the
// existing copy; otherwise overwrite deletes and creates it.
func overwrite[P kube.Object](ctx context.Context, store *kube.Store[P], want P, changeable func(P) bool) error {
	_, err := store.Create(ctx, want)
	if !kube.IsExists(err) {
		return err
	}
	there, err := store.Get(ctx, kube.KeyOf(want))
	if err != nil {
		return err
	}
	if there.GetLabels()[fleet.LabelCarried] != "true" && !belongsToDeployment(there) {
		return reconcile.TerminalError(reasonTaken, fmt.Errorf(
			"%q exists in the namespace of the cluster and is something else; take another name", kube.KeyOf(want)))
	}
	if !changeable(there) {
		if err := store.Delete(ctx, kube.KeyOf(want), kube.Precondition{UID: there.GetUID()}); err != nil {
			return err
		}
		_, err = store.Create(ctx, want)
		return err
	}
	want.SetResourceVersion(there.GetResourceVersion())
	_, err = store.Update(ctx, want)
	return err
}

// belongsToDeployment reports whether an object is a copy that rancher/fleet has made:
// its owner is a BundleDeployment, and it does not hold the values of one.
func belongsToDeployment(o metav1.Object) bool {
	if o.GetLabels()[fleet.LabelBundleName] != "" {
		return false
	}
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "BundleDeployment" })
}
