package bundle

import (
	"context"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
)

// sources watches the Secrets and ConfigMaps that Bundles name as downstream resources:
// only their metadata, and only in namespaces with such Bundles.
type sources struct {
	client  *kube.Client
	enqueue func(bundles []kube.Key)

	mu      sync.Mutex
	ctx     context.Context // of the watches; nil before run
	watched map[string]bool // namespaces
	facts   map[sourceKey]sourceVersion
	users   map[sourceKey]map[kube.Key]bool
	uses    map[kube.Key][]sourceKey
	refused map[kube.Key][]deployment.Source // what must not be copied
}

// A sourceKey is a source and the namespace that it is in.
type sourceKey struct {
	namespace string
	deployment.Source
}

func (k sourceKey) key() kube.Key { return kube.Key{Namespace: k.namespace, Name: k.Name} }

// A sourceVersion is what the manager has read of a source: the digest of its data at a
// resourceVersion, and its origin, which decides whether it may be copied to clusters.
type sourceVersion struct {
	version, digest string
	origin          deployment.Origin
}

func newSources(c *kube.Client, wake func([]kube.Key)) *sources {
	return &sources{
		client: c, enqueue: wake, watched: map[string]bool{}, facts: map[sourceKey]sourceVersion{},
		users: map[sourceKey]map[kube.Key]bool{}, uses: map[kube.Key][]sourceKey{},
		refused: map[kube.Key][]deployment.Source{},
	}
}

// run watches until ctx ends.
func (s *sources) run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	for namespace := range s.watched {
		s.watch(namespace)
	}
	s.mu.Unlock()
	<-ctx.Done()
	return nil
}

// setUsed records the sources that a Bundle names. Each change of one of them enqueues
// the Bundle.
func (s *sources) setUsed(bundle kube.Key, list []deployment.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeUser(bundle)
	for _, one := range list {
		key := sourceKey{bundle.Namespace, one}
		if s.users[key] == nil {
			s.users[key] = map[kube.Key]bool{}
		}
		s.users[key][bundle] = true
		s.uses[bundle] = append(s.uses[bundle], key)
	}
	if len(list) > 0 && !s.watched[bundle.Namespace] {
		s.watched[bundle.Namespace] = true
		if s.ctx != nil {
			s.watch(bundle.Namespace)
		}
	}
}

// forget drops the record of a Bundle.
func (s *sources) forget(bundle kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeUser(bundle)
}

// removeUser drops the record of a Bundle. The caller holds the lock.
func (s *sources) removeUser(bundle kube.Key) {
	for _, key := range s.uses[bundle] {
		delete(s.users[key], bundle)
		if len(s.users[key]) == 0 {
			delete(s.users, key)
			delete(s.facts, key)
		}
	}
	delete(s.uses, bundle)
	delete(s.refused, bundle)
}

// addRefused records that a Bundle names a source that must not be copied to clusters.
func (s *sources) addRefused(bundle kube.Key, one deployment.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[bundle] = append(s.refused[bundle], one)
}

// refusedOf returns the sources that a Bundle names and that must not be copied to
// clusters.
func (s *sources) refusedOf(bundle kube.Key) []deployment.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused[bundle])
}

// onSecretUse enqueues the Bundles that name a Secret whose use by other objects has
// changed: a Secret that is a credential must not be copied.
func (s *sources) onSecretUse(before, after []deployment.SecretUse) {
	var who []kube.Key
	s.mu.Lock()
	for _, use := range slices.Concat(before, after) {
		if slices.Contains(before, use) != slices.Contains(after, use) {
			key := sourceKey{use.Namespace, deployment.Source{Kind: deployment.KindSecret, Name: use.Name}}
			who = slices.AppendSeq(who, maps.Keys(s.users[key]))
		}
	}
	s.mu.Unlock()
	s.enqueue(who)
}

// watch watches the metadata of one namespace. The caller holds the lock.
func (s *sources) watch(namespace string) {
	for kind, w := range map[string]kube.Watch{
		deployment.KindSecret: {
			Namespace: namespace, Labels: fleet.LabelManaged + "!=true",
			Fields: "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token",
		},
		deployment.KindConfigMap: {Namespace: namespace},
	} {
		gvk := corev1.SchemeGroupVersion.WithKind("Secret")
		if kind == deployment.KindConfigMap {
			gvk.Kind = "ConfigMap"
		}
		cache := kube.NewMetaCache(s.client, gvk, w, stripSource)
		cache.OnError(func(error) {}) // the cache tries again
		cache.OnChange(func(old, changed *metav1.PartialObjectMetadata) { s.onChange(kind, old, changed) })
		ctx := s.ctx
		go func() { _ = cache.Run(ctx) }()
	}
}

func stripSource(m *metav1.PartialObjectMetadata) {
	m.Labels, m.Annotations, m.OwnerReferences, m.Finalizers = nil, nil, nil, nil
}

// onChange enqueues the Bundles that name a source, unless the watch reports the
// version that was read.
func (s *sources) onChange(kind string, old, onChange *metav1.PartialObjectMetadata) {
	m := orOld(old, onChange)
	key := sourceKey{m.Namespace, deployment.Source{Kind: kind, Name: m.Name}}
	s.mu.Lock()
	known, ok := s.facts[key]
	if onChange != nil && ok && known.version == onChange.ResourceVersion {
		s.mu.Unlock()
		return
	}
	delete(s.facts, key)
	who := slices.Collect(maps.Keys(s.users[key]))
	s.mu.Unlock()
	s.enqueue(who)
}

// read returns what was read of a source, if it is current.
func (s *sources) read(key sourceKey) (sourceVersion, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.facts[key]
	return f, ok
}

// unchanged reports whether sources of a namespace still have the given digests.
func (s *sources) unchanged(namespace string, were map[deployment.Source]string) bool {
	for one, digest := range were {
		if f, ok := s.read(sourceKey{namespace, one}); !ok || f.digest != digest {
			return false
		}
	}
	return true
}

// setRead records what was read of a source that a Bundle names.
func (s *sources) setRead(key sourceKey, f sourceVersion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.users[key]) > 0 {
		s.facts[key] = f
	}
}
