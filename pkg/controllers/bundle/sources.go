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

// sources follows the Secrets and ConfigMaps that Bundles take along: by their
// metadata, and only in namespaces that have such Bundles.
type sources struct {
	client *kube.Client
	wake   func(bundles []kube.Key)

	mu      sync.Mutex
	ctx     context.Context // of the watches; nil before run
	watched map[string]bool // namespaces
	facts   map[sourceKey]fact
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

// A fact is what was read of a source: the digest of its data in one version,
// and what decides whether it may go along.
type fact struct {
	version, digest string
	origin          deployment.Origin
}

func newSources(c *kube.Client, wake func([]kube.Key)) *sources {
	return &sources{
		client: c, wake: wake, watched: map[string]bool{}, facts: map[sourceKey]fact{},
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

// use notes what a Bundle takes along. From then on it is planned again when any
// of that changes.
func (s *sources) use(bundle kube.Key, list []deployment.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(bundle)
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

// forget ends the interest of a Bundle.
func (s *sources) forget(bundle kube.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(bundle)
}

func (s *sources) drop(bundle kube.Key) {
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

// refuse notes what a Bundle names that may not go along.
func (s *sources) refuse(bundle kube.Key, one deployment.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[bundle] = append(s.refused[bundle], one)
}

// refusedOf returns the sources that a Bundle names and may not take along.
func (s *sources) refusedOf(bundle kube.Key) []deployment.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused[bundle])
}

// judge plans the Bundles that name Secrets which are used for something else
// than before.
func (s *sources) judge(before, after []deployment.SecretUse) {
	var who []kube.Key
	s.mu.Lock()
	for _, use := range slices.Concat(before, after) {
		if slices.Contains(before, use) != slices.Contains(after, use) {
			key := sourceKey{use.Namespace, deployment.Source{Kind: deployment.KindSecret, Name: use.Name}}
			who = slices.AppendSeq(who, maps.Keys(s.users[key]))
		}
	}
	s.mu.Unlock()
	s.wake(who)
}

// watch follows the metadata of one namespace. The caller holds the lock.
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
		cache.OnError(func(error) {}) // tried again by the cache
		cache.OnChange(func(old, changed *metav1.PartialObjectMetadata) { s.changed(kind, old, changed) })
		ctx := s.ctx
		go func() { _ = cache.Run(ctx) }()
	}
}

func stripSource(m *metav1.PartialObjectMetadata) {
	m.Labels, m.Annotations, m.OwnerReferences, m.Finalizers = nil, nil, nil, nil
}

// changed plans the Bundles of a source that is another than the one that was
// read.
func (s *sources) changed(kind string, old, changed *metav1.PartialObjectMetadata) {
	m := either(old, changed)
	key := sourceKey{m.Namespace, deployment.Source{Kind: kind, Name: m.Name}}
	s.mu.Lock()
	known, ok := s.facts[key]
	if changed != nil && ok && known.version == changed.ResourceVersion {
		s.mu.Unlock()
		return
	}
	delete(s.facts, key)
	who := slices.Collect(maps.Keys(s.users[key]))
	s.mu.Unlock()
	s.wake(who)
}

func (s *sources) known(key sourceKey) (fact, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.facts[key]
	return f, ok
}

// same reports whether sources of a namespace are what they were.
func (s *sources) same(namespace string, were map[deployment.Source]string) bool {
	for one, digest := range were {
		if f, ok := s.known(sourceKey{namespace, one}); !ok || f.digest != digest {
			return false
		}
	}
	return true
}

// observe notes what was read of a source that is in use.
func (s *sources) observe(key sourceKey, f fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.users[key]) > 0 {
		s.facts[key] = f
	}
}
