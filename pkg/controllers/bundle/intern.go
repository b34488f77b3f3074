package bundle

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxLists and maxTexts are how many distinct lists, and texts, are kept for sharing;
// then sharing begins again. Shared values in use stay in memory.
const (
	maxLists = 2048
	maxTexts = 8192
)

// An interner shares equal data of cached objects to save memory: texts, and lists of
// deployed objects, which are the same in most deployments of a Bundle.
type interner struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte][]fleet.BundleDeploymentResource
	texts map[string]string
	names map[string]*fleet.HelmOptions
}

func newInterner() *interner {
	return &interner{
		known: map[[sha256.Size]byte][]fleet.BundleDeploymentResource{}, texts: map[string]string{},
		names: map[string]*fleet.HelmOptions{},
	}
}

// helmOptions returns shared Helm options that hold only the release name; nil if there
// is none.
func (s *interner) helmOptions(o *fleet.HelmOptions) *fleet.HelmOptions {
	if o == nil || o.ReleaseName == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.names[o.ReleaseName]; ok {
		return first
	}
	if len(s.names) >= maxLists {
		clear(s.names)
	}
	only := &fleet.HelmOptions{ReleaseName: o.ReleaseName}
	s.names[o.ReleaseName] = only
	return only
}

// deployment replaces the texts of a deployment by shared ones. The caller must be the
// only one who uses the deployment.
func (s *interner) deployment(bd *fleet.BundleDeployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bd.Labels, bd.Annotations = s.stringMap(bd.Labels), s.stringMap(bd.Annotations)
	for _, text := range []*string{
		&bd.Name, &bd.Kind, &bd.APIVersion, &bd.Spec.DeploymentID, &bd.Spec.StagedDeploymentID, &bd.Spec.ValuesHash,
		&bd.Spec.Options.TargetNamespace, &bd.Spec.Options.DefaultNamespace,
		&bd.Status.AppliedDeploymentID, &bd.Status.Release,
		&bd.Status.Display.Deployed, &bd.Status.Display.Monitored, &bd.Status.Display.State,
	} {
		*text = s.text(*text)
	}
	s.conditions(bd.Status.Conditions)
}

// cluster replaces the texts of a Cluster by shared ones. The caller must be the only
// one who uses the Cluster.
func (s *interner) cluster(c *fleet.Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Labels = s.stringMap(c.Labels)
	c.Namespace = s.text(c.Namespace)
	s.conditions(c.Status.Conditions)
}

func (s *interner) conditions(list []fleet.Condition) {
	for i := range list {
		c := &list[i]
		for _, text := range []*string{&c.Type, &c.Reason, &c.Message, &c.LastUpdateTime, &c.LastTransitionTime} {
			*text = s.text(*text)
		}
		c.Status = corev1.ConditionStatus(s.text(string(c.Status)))
	}
}

// stringMap returns a copy of m with shared texts.
func (s *interner) stringMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[s.text(k)] = s.text(v)
	}
	return out
}

// text returns the shared text that equals t.
func (s *interner) text(t string) string {
	if first, ok := s.texts[t]; ok {
		return first
	}
	if len(s.texts) >= maxTexts {
		clear(s.texts)
	}
	s.texts[t] = t
	return t
}

// resources returns a shared list that equals l without the creation times, which
// differ on every cluster and are not used. The caller must not use l afterwards.
func (s *interner) resources(l []fleet.BundleDeploymentResource) []fleet.BundleDeploymentResource {
	if len(l) == 0 {
		return nil
	}
	for i := range l {
		l[i].CreatedAt = metav1.Time{}
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return l
	}
	key := sha256.Sum256(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.known[key]; ok {
		return first
	}
	if len(s.known) >= maxLists {
		clear(s.known)
	}
	s.known[key] = l
	return l
}
