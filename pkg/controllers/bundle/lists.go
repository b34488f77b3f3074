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

// lists shares equal data of deployments: lists of deployed objects, and texts, which
// are the same in every deployment of a Bundle.
type lists struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte][]fleet.BundleDeploymentResource
	texts map[string]string
	names map[string]*fleet.HelmOptions
}

func newLists() *lists {
	return &lists{
		known: map[[sha256.Size]byte][]fleet.BundleDeploymentResource{}, texts: map[string]string{},
		names: map[string]*fleet.HelmOptions{},
	}
}

// named returns Helm options with a release name, or nil.
func (s *lists) named(o *fleet.HelmOptions) *fleet.HelmOptions {
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

// deployment shares the texts of a deployment that no other code has seen yet.
func (s *lists) deployment(bd *fleet.BundleDeployment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bd.Labels, bd.Annotations = s.pairs(bd.Labels), s.pairs(bd.Annotations)
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

// cluster shares the texts of a Cluster that no other code has seen yet.
func (s *lists) cluster(c *fleet.Cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.Labels = s.pairs(c.Labels)
	c.Namespace = s.text(c.Namespace)
	s.conditions(c.Status.Conditions)
}

func (s *lists) conditions(list []fleet.Condition) {
	for i := range list {
		c := &list[i]
		for _, text := range []*string{&c.Type, &c.Reason, &c.Message, &c.LastUpdateTime, &c.LastTransitionTime} {
			*text = s.text(*text)
		}
		c.Status = corev1.ConditionStatus(s.text(string(c.Status)))
	}
}

// pairs is a map equal to m whose texts are shared.
func (s *lists) pairs(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[s.text(k)] = s.text(v)
	}
	return out
}

// text is the first of all texts that equal t.
func (s *lists) text(t string) string {
	if first, ok := s.texts[t]; ok {
		return first
	}
	if len(s.texts) >= maxTexts {
		clear(s.texts)
	}
	s.texts[t] = t
	return t
}

// share returns a list equal to l except for the creation times, which differ on every
// cluster and are not read here. l must not be used afterwards.
func (s *lists) share(l []fleet.BundleDeploymentResource) []fleet.BundleDeploymentResource {
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
