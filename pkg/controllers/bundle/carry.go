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

// carriedGrace is how long copies and deployments that do not fit together may
// be on their way.
const carriedGrace = 5 * time.Second

// A load is a source with its data.
type load struct {
	fact
	typ    corev1.SecretType
	data   map[string][]byte
	text   map[string]string
	secret bool
}

// loads are the sources that one decision has read.
type loads struct {
	mu  sync.Mutex
	all map[deployment.Source]load
}

// gatherSources finds out what deployments of a Bundle take along. Each source
// is read once for each of its versions.
func (e *copyController) gatherSources(ctx context.Context, s *snapshot) error {
	list, err := deployment.Sources(&s.bundle.Spec)
	if err != nil {
		return err
	}
	e.sources.use(s.key, list) // before reading: what changes after that wakes us up
	s.sources, s.loaded = map[deployment.Source]string{}, &loads{all: map[deployment.Source]load{}}
	if len(list) > 0 {
		s.secretUses = e.secretUses(s.key.Namespace)
	}
	var missing, refused []string
	for _, one := range list {
		f, ok := e.sources.known(sourceKey{s.key.Namespace, one})
		if !ok {
			l, err := e.load(ctx, s, one)
			if kube.IsGone(err) {
				missing = append(missing, one.String())
				continue
			}
			if err != nil {
				return err
			}
			f = l.fact
		}
		if why := e.withheld(s, one, f.origin); why != "" {
			refused = append(refused, why)
			e.sources.refuse(s.key, one)
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

// load reads a source, once for a decision.
func (e *copyController) load(ctx context.Context, s *snapshot, one deployment.Source) (load, error) {
	s.loaded.mu.Lock()
	defer s.loaded.mu.Unlock()
	if l, ok := s.loaded.all[one]; ok {
		return l, nil
	}
	key := sourceKey{s.key.Namespace, one}
	var l load
	var m metav1.Object
	if one.Kind == deployment.KindConfigMap {
		cm, err := e.configMaps.Get(ctx, key.key())
		if err != nil {
			return l, err
		}
		l.data, l.text, m = cm.BinaryData, cm.Data, cm
	} else {
		secret, err := e.secrets.Get(ctx, key.key())
		if err != nil {
			return l, err
		}
		l.secret, l.typ, l.data, m = true, secret.Type, secret.Data, secret
	}
	var err error
	if l.fact, err = l.seal(m); err != nil {
		return l, err
	}
	l.origin = deployment.OriginOf(m, l.typ)
	s.loaded.all[one] = l
	e.sources.observe(key, l.fact)
	return l, nil
}

// seal returns the fact by which a source is remembered. Users who may not read the
// data can see the digest; with the UID in it they cannot compare it with guesses.
func (l load) seal(m metav1.Object) (fact, error) {
	raw, err := json.Marshal([]any{m.GetUID(), l.typ, l.data, l.text})
	if err != nil {
		return fact{}, err
	}
	sum := sha256.Sum256(raw)
	return fact{version: m.GetResourceVersion(), digest: hex.EncodeToString(sum[:16])}, nil
}

// allSources is a digest of all that deployments of the Bundle may take along.
func (s *snapshot) allSources() string {
	list := make([]deployment.Source, 0, len(s.sources))
	for one := range s.sources {
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b deployment.Source) int { return strings.Compare(a.String(), b.String()) })
	return deployment.Digest(list, s.sources)
}

// work works a pair out, with what it takes along.
func (s *snapshot) work(p *pair) (deployment.Version, error) {
	v, err := s.compiled.Render(p.verdict, p.place)
	if err != nil {
		return v, err
	}
	return v.With(deployment.Digest(deployment.CarriedBy(&v.Options, s.compiled.Chart()), s.sources)), nil
}

// carry copies what a deployment takes along into the namespace of its cluster.
func (e *copyController) carry(ctx context.Context, s *snapshot, p *pair) error {
	options := &p.version.Options
	for _, one := range deployment.CarriedBy(options, s.compiled.Chart()) {
		key := kube.Key{Namespace: p.place.Namespace, Name: one.Name}
		if there, ok := e.copies(one.Kind).Get(key); ok && isCarried(there) && there.Annotations[fleet.AnnotationInputHash] == s.sources[one] {
			continue
		}
		l, err := e.load(ctx, s, one)
		if kube.IsGone(err) {
			return reconcile.RequeueError(reasonNoSource, namespaceRetry, fmt.Errorf("waits for %s, which was there a moment ago", one))
		}
		if err != nil {
			return err
		}
		if why := e.withheld(s, one, l.origin); why != "" { // it has changed since
			return withheldError([]string{why})
		}
		if only := one.Kind == deployment.KindSecret && !named(options, one); only {
			l.typ = fleet.SecretTypeHelmOpsAccess
		}
		if err := e.putCarried(ctx, key, l); err != nil {
			return fmt.Errorf("take %s along: %w", one, err)
		}
	}
	return nil
}

// named reports whether options name a source, or it is there for the chart alone.
func named(o *fleet.BundleDeploymentOptions, one deployment.Source) bool {
	return slices.Contains(deployment.CarriedBy(o, nil), one)
}

// copies is the cache of the copies of one kind.
func (e *copyController) copies(kind string) *kube.Cache[*metav1.PartialObjectMetadata] {
	if kind == deployment.KindConfigMap {
		return e.cache.configMaps
	}
	return e.cache.secrets
}

func isCarried(m *metav1.PartialObjectMetadata) bool {
	return m != nil && m.Labels[fleet.LabelCarried] == "true"
}

// putCarried writes one copy.
func (e *copyController) putCarried(ctx context.Context, key kube.Key, l load) error {
	meta := metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name,
		Labels:      map[string]string{fleet.LabelManaged: "true", fleet.LabelCarried: "true"},
		Annotations: map[string]string{fleet.AnnotationInputHash: l.digest},
	}
	if l.secret {
		if l.typ == fleet.SecretTypeHelmOpsAccess {
			meta.Labels[fleet.LabelInternalSecret] = "true"
		}
		return overwrite(ctx, e.secrets, &corev1.Secret{ObjectMeta: meta, Type: l.typ, Data: l.data}, func(s *corev1.Secret) bool { return s.Type == l.typ })
	}
	return overwrite(ctx, e.configMaps, &corev1.ConfigMap{ObjectMeta: meta, Data: l.text, BinaryData: l.data}, func(*corev1.ConfigMap) bool { return true })
}

// overwrite brings a copy up to date. It leaves an object alone that is no copy, and
// replaces one whose kind of data cannot be changed.
func overwrite[P kube.Object](ctx context.Context, store *kube.Store[P], want P, changeable func(P) bool) error {
	_, err := store.Create(ctx, want)
	if !kube.IsExists(err) {
		return err
	}
	there, err := store.Get(ctx, kube.KeyOf(want))
	if err != nil {
		return err
	}
	if there.GetLabels()[fleet.LabelCarried] != "true" && !ofDeployment(there) {
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

// ofDeployment reports whether an object belongs to a deployment, as the copies of
// the reference do, and is not one of Fleet's other Secrets.
func ofDeployment(o metav1.Object) bool {
	if o.GetLabels()[fleet.LabelBundleName] != "" {
		return false
	}
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "BundleDeployment" })
}
