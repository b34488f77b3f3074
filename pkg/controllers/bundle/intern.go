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
func (it *interner) helmOptions(o *fleet.HelmOptions) *fleet.HelmOptions {
	if o == nil || o.ReleaseName == "" {
		return nil
	}
	it.mu.Lock()
	defer it.mu.Unlock()
	if first, ok := it.names[o.ReleaseName]; ok {
		return first
	}
	if len(it.names) >= maxLists {
		clear(it.names)
	}
	only := &fleet.HelmOptions{ReleaseName: o.ReleaseName}
	it.names[o.ReleaseName] = only
	return only
}

// deployment replaces the texts of a deployment by shared ones. The caller must be the
// only one who uses the deployment.
func (it *interner) deployment(bd *fleet.BundleDeployment) {
	it.mu.Lock()
	defer it.mu.Unlock()
	bd.Labels, bd.Annotations = it.stringMap(bd.Labels), it.stringMap(bd.Annotations)
	for _, text := range []*string{
		&bd.Name, &bd.Kind, &bd.APIVersion, &bd.Spec.DeploymentID, &bd.Spec.StagedDeploymentID, &bd.Spec.ValuesHash,
		&bd.Spec.Options.TargetNamespace, &bd.Spec.Options.DefaultNamespace,
		&bd.Status.AppliedDeploymentID, &bd.Status.Release,
		&bd.Status.Display.Deployed, &bd.Status.Display.Monitored, &bd.Status.Display.State,
	} {
		*text = it.text(*text)
	}
	it.conditions(bd.Status.Conditions)
}

// cluster replaces the texts of a Cluster by shared ones. The caller must be the only
// one who uses the Cluster.
func (it *interner) cluster(c *fleet.Cluster) {
	it.mu.Lock()
	defer it.mu.Unlock()
	c.Labels = it.stringMap(c.Labels)
	c.Namespace = it.text(c.Namespace)
	it.conditions(c.Status.Conditions)
}

func (it *interner) conditions(list []fleet.Condition) {
	for i := range list {
		c := &list[i]
		for _, text := range []*string{&c.Type, &c.Reason, &c.Message, &c.LastUpdateTime, &c.LastTransitionTime} {
			*text = it.text(*text)
		}
		c.Status = corev1.ConditionStatus(it.text(string(c.Status)))
	}
}

// stringMap returns a copy of m with shared texts.
func (it *interner) stringMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[it.text(k)] = it.text(v)
	}
	return out
}

// text returns the shared text that equals t.
func (it *interner) text(t string) string {
	if first, ok := it.texts[t]; ok {
		return first
	}
	if len(it.texts) >= maxTexts {
		clear(it.texts)
	}
	it.texts[t] = t
	return t
}

// resources returns a shared list that equals l without the creation times, which
// differ on every cluster and are not used. The caller must not use l afterwards.
func (it *interner) resources(l []fleet.BundleDeploymentResource) []fleet.BundleDeploymentResource {
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
	it.mu.Lock()
	defer it.mu.Unlock()
	if first, ok := it.known[key]; ok {
		return first
	}
	if len(it.known) >= maxLists {
		clear(it.known)
	}
	it.known[key] = l
	return l
}
