package differential_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var brakeKey = kube.Key{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapBrake}

// An edit is one line of a script.
type edit struct {
	text string
	do   func(w *world) error
}

// A model is what the script wants there to be. It depends on the seed alone.
type model struct {
	rng      *rand.Rand
	calm     bool // no restart is near: edits that only a running manager can see are allowed
	count    int  // of versions, so that none comes twice
	bundles  map[string]*fleet.Bundle
	withheld map[string]bool // Bundles whose values were not written yet
	clusters map[string]*machine
	groups   map[string]bool
	repos    map[string]bool
	braked   bool
}

// A machine is a cluster of the model.
type machine struct {
	cluster *fleet.Cluster
	leaving bool // it is being deleted
	joined  bool // its agent has reported
}

func newModel(seed uint64) *model {
	return &model{rng: rand.New(rand.NewPCG(seed, 1)), bundles: map[string]*fleet.Bundle{}, withheld: map[string]bool{},
		clusters: map[string]*machine{}, groups: map[string]bool{}, repos: map[string]bool{}}
}

// one is one of several things.
func one[T any](m *model, list ...T) T { return list[m.rng.IntN(len(list))] }

// some is a number of a name: some("b", 3) is b0, b1 or b2.
func (m *model) some(prefix string, n int) string { return fmt.Sprintf("%s%d", prefix, m.rng.IntN(n)) }

// percent is true in so many of a hundred cases.
func (m *model) percent(n int) bool { return m.rng.IntN(100) < n }

const (
	maxBundles  = 6
	maxClusters = 6
	maxGroups   = 3
	maxRepos    = 2
)

// next is a random edit.
func (m *model) next() edit {
	kinds := []struct {
		weight int
		make   func() edit
	}{
		{4, m.newBundle}, {12, m.tweakBundle}, {2, m.deleteBundle}, {3, m.bringValues},
		{7, m.relabel}, {4, m.changeCluster}, {3, m.moveCluster}, {3, m.joinCluster},
		{8, m.changeGroup}, {2, m.changeRepo}, {10, m.changeMood}, {8, m.meddle}, {3, m.dropContent}, {1, m.pullBrake},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := m.rng.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			return k.make()
		}
	}
	panic("unreachable")
}

func jsonOf(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// short is a Bundle in one line.
func short(b *fleet.Bundle) string {
	spec := b.Spec.DeepCopy()
	version := spec.Resources[0].Content
	spec.Resources = nil
	return fmt.Sprintf("%s labels %s %s", version, jsonOf(b.Labels), jsonOf(spec))
}

// newBundle makes a Bundle, or changes everything about one.
func (m *model) newBundle() edit {
	b := m.bundle(m.some("b", maxBundles))
	return m.putBundle(b, "")
}

// putBundle writes a Bundle with its values; sometimes the values come later.
func (m *model) putBundle(b *fleet.Bundle, aspect string) edit {
	withheld := m.percent(8)
	m.bundles[b.Name], m.withheld[b.Name] = b, withheld
	text := fmt.Sprintf("bundle %s %s= %s", b.Name, aspect, short(b))
	if withheld {
		text += " (its values come later)"
	}
	return edit{text, func(w *world) error { return w.putBundle(b, withheld) }}
}

func (w *world) putBundle(b *fleet.Bundle, withheld bool) error {
	w.budget.strategy(b.Name, b.Spec.RolloutStrategy)
	b = b.DeepCopy()
	b.Namespace = w.workspace
	data, err := options.BundleValuesSecretData(b.Spec)
	if err != nil {
		return err
	}
	if len(data) > 0 {
		b.Spec.ValuesHash = options.BundleValuesHash(data)
		options.StripBundleValues(&b.Spec)
		if !withheld {
			if err := w.putValues(b.Name, data); err != nil {
				return err
			}
		}
	}
	err = update(w, kube.KeyOf(b), func(old *fleet.Bundle) { old.Spec, old.Labels = b.Spec, b.Labels })
	if kube.IsGone(err) {
		_, err = kube.StoreOf[*fleet.Bundle](w.admin).Create(w.t.Context(), b)
	}
	return err
}

// putValues writes the values of a Bundle.
func (w *world) putValues(name string, data map[string][]byte) error {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: name,
		Labels: map[string]string{fleet.LabelManaged: "true"}}, Type: fleet.SecretTypeBundleValues, Data: data}
	store := kube.StoreOf[*corev1.Secret](w.admin)
	_, err := store.Create(w.t.Context(), s)
	if kube.IsExists(err) {
		err = update(w, kube.KeyOf(s), func(old *corev1.Secret) { old.Data = data })
	}
	return err
}

// bringValues writes values that were held back.
func (m *model) bringValues() edit {
	for _, name := range slices.Sorted(maps.Keys(m.withheld)) {
		b := m.bundles[name]
		if !m.withheld[name] || b == nil {
			continue
		}
		m.withheld[name] = false
		return edit{"values of bundle " + name + " come", func(w *world) error {
			data, err := options.BundleValuesSecretData(b.Spec)
			if err != nil || len(data) == 0 {
				return err
			}
			return w.putValues(name, data)
		}}
	}
	return m.changeMood()
}

// tweakBundle changes one thing about a Bundle.
func (m *model) tweakBundle() edit {
	name := m.some("b", maxBundles)
	if m.bundles[name] == nil {
		return m.newBundle()
	}
	b := m.bundles[name].DeepCopy()
	aspect := one(m, "targets", "targets", "values", "rollout", "resources", "resources", "paused", "labels", "options", "dependsOn")
	switch fresh := m.bundle(name); aspect {
	case "targets":
		b.Spec.Targets, b.Spec.TargetRestrictions = fresh.Spec.Targets, fresh.Spec.TargetRestrictions
		b.Spec.TargetCustomizationMode = fresh.Spec.TargetCustomizationMode
	case "values":
		b.Spec.Helm = fresh.Spec.Helm
	case "rollout":
		b.Spec.RolloutStrategy = m.rollout()
	case "resources":
		b.Spec.Resources = fresh.Spec.Resources
	case "paused":
		b.Spec.Paused = !b.Spec.Paused
	case "labels":
		b.Labels = fresh.Labels
	case "options":
		b.Spec.DefaultNamespace, b.Spec.CorrectDrift = fresh.Spec.DefaultNamespace, fresh.Spec.CorrectDrift
		b.Spec.NamespaceLabels = fresh.Spec.NamespaceLabels
	case "dependsOn":
		b.Spec.DependsOn = []fleet.BundleRef{{Name: m.some("b", maxBundles)}}
	}
	return m.putBundle(b, aspect+" ")
}

func (m *model) deleteBundle() edit {
	name := m.some("b", maxBundles)
	m.bundles[name] = nil
	return edit{"bundle " + name + " deleted", func(w *world) error { return remove[*fleet.Bundle](w, w.in(name)) }}
}

// changeGroup makes, changes or deletes a cluster group.
func (m *model) changeGroup() edit {
	name := one(m, m.some("g", maxGroups), "default")
	if m.groups[name] && m.percent(35) {
		m.groups[name] = false
		return edit{"group " + name + " deleted", func(w *world) error { return remove[*fleet.ClusterGroup](w, w.in(name)) }}
	}
	m.groups[name] = true
	g := &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": one(m, "gold", "tin")}},
		Spec: fleet.ClusterGroupSpec{Selector: m.selector()}}
	if m.percent(5) {
		g.Spec.Selector = nil
	}
	text := fmt.Sprintf("group %s = labels %s %s", name, jsonOf(g.Labels), jsonOf(g.Spec))
	return edit{text, func(w *world) error {
		err := update(w, w.in(name), func(old *fleet.ClusterGroup) { old.Labels, old.Spec = g.Labels, g.Spec })
		if kube.IsGone(err) {
			made := g.DeepCopy()
			made.Namespace = w.workspace
			_, err = kube.StoreOf[*fleet.ClusterGroup](w.admin).Create(w.t.Context(), made)
		}
		return err
	}}
}

// changeRepo makes, reads or deletes a GitRepo, as its user and its reader do.
func (m *model) changeRepo() edit {
	name := m.some("r", maxRepos)
	if m.repos[name] && m.percent(30) {
		m.repos[name] = false
		return edit{"gitrepo " + name + " deleted", func(w *world) error { return remove[*fleet.GitRepo](w, w.in(name)) }}
	}
	m.repos[name] = true
	m.count++
	commit, read := fmt.Sprintf("commit%d", m.count), m.percent(80)
	return edit{fmt.Sprintf("gitrepo %s at %s, read %t", name, commit, read), func(w *world) error {
		repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: w.workspace, Name: name}, Spec: fleet.GitRepoSpec{Repo: "https://example.com/" + commit}}
		err := update(w, w.in(name), func(old *fleet.GitRepo) { old.Spec = repo.Spec })
		if kube.IsGone(err) {
			_, err = kube.StoreOf[*fleet.GitRepo](w.admin).Create(w.t.Context(), repo)
		}
		if err != nil || !read {
			return err
		}
		return setStatus(w, w.in(name), func(r *fleet.GitRepo) {
			r.Status.Commit, r.Status.GitJobStatus, r.Status.ObservedGeneration = commit, "Current", r.Generation
		})
	}}
}

// changeMood changes how the agent of a cluster answers, for all or for one.
func (m *model) changeMood() edit {
	cluster, bundle, mood := m.some("c", maxClusters), "", one(m, moods...)
	if c := m.clusters[cluster]; c == nil || !c.joined {
		return m.joinCluster()
	}
	text := "all"
	if m.percent(50) {
		bundle = m.some("b", maxBundles)
		text = bundle
	}
	return edit{fmt.Sprintf("agent of %s answers %s for %s", cluster, mood, text), func(w *world) error {
		w.agents.set(place{naming.ClusterNamespace(w.workspace, cluster), bundle}, mood)
		return nil
	}}
}

// pullBrake puts the brake on, or takes it off.
func (m *model) pullBrake() edit {
	m.braked = !m.braked
	brake := view.GlobalPause{On: m.braked, Reason: "a test", By: "the script"}
	return edit{fmt.Sprintf("brake on %t", m.braked), func(w *world) error { return w.setBrake(brake) }}
}

func (w *world) setBrake(brake view.GlobalPause) error {
	err := update(w, brakeKey, func(old *corev1.ConfigMap) { old.Data = brake.Data() })
	if kube.IsGone(err) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: brakeKey.Namespace, Name: brakeKey.Name}, Data: brake.Data()}
		_, err = kube.StoreOf[*corev1.ConfigMap](w.admin).Create(w.t.Context(), cm)
	}
	return err
}
