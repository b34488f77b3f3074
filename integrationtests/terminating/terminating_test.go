package terminating

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A mistake is what a person deletes, and how that is repaired.
type mistake struct {
	name   string
	delete func(*world)
	// again makes what was deleted again, once a person has decided.
	again func(*world)
}

// mistakes are one with a namespace and, after it, those with kinds.
var mistakes = []mistake{
	{"Namespace", func(w *world) { w.deleteNamespace(workspace) }, (*world).fleet},
	{"KindBundles", func(w *world) { w.deleteKinds("bundles") }, func(w *world) { w.kindsAgain(); w.bundles() }},
	{"KindGitRepos", func(w *world) { w.deleteKinds("gitrepos") }, func(w *world) { w.kindsAgain(); w.repository(); w.bundles() }},
}

// What goes with its namespace or its kind is kept until a person has decided: with the
// manager up, and with one that is started later. What the person keeps is adopted by
// what is made again, and what the person approves is removed.
func TestDeletedByMistake(t *testing.T) {
	t.Parallel()
	t.Run("Namespaces", func(t *testing.T) { t.Parallel(); deletedByMistake(t, mistakes[:1]) })
	t.Run("Kinds", func(t *testing.T) { t.Parallel(); deletedByMistake(t, mistakes[1:]) })
}

func deletedByMistake(t *testing.T, mistakes []mistake) {
	all := newWorld(t, fromFiles(t))
	for _, m := range mistakes {
		for _, down := range []bool{false, true} {
			name := m.name + "/Up"
			if down {
				name = m.name + "/Down"
			}
			t.Run(name, func(t *testing.T) {
				w := all.in(t)
				before := w.objects()
				if down {
					w.stop()
				}
				m.delete(w)
				if down {
					w.start()
				}
				w.hash()
				w.unharmed(before)
				w.say(fleet.ApproveKeep)
				w.gone()
				m.again(w)
				w.ready()
				w.unharmed(before)
				w.decided()
				all.tokens, all.down = w.tokens, w.down
			})
		}
	}
	for _, m := range mistakes {
		t.Run(m.name+"/Approved", func(t *testing.T) {
			w := all.in(t)
			m.delete(w)
			w.say(w.hash())
			w.gone()
			w.until("everything is removed", func() bool { return len(w.objects()) == 0 })
			m.again(w)
			w.ready()
			w.decided()
			all.tokens = w.tokens
		})
	}
}

// A GitRepo that a person deletes removes all that it deployed, without a question.
func TestDeletedByHand(t *testing.T) {
	w := newWorld(t, fromFiles(t))
	w.must(kube.StoreOf[*fleet.GitRepo](w.hub.Admin).Delete(w.Context(), kube.Key{Namespace: workspace, Name: repo}, kube.Precondition{}))
	w.gone()
	w.until("everything is removed", func() bool { return len(w.objects()) == 0 })
	ns, _ := harness.Read[*corev1.Namespace](w, w.hub, "", workspace)
	if text := ns.Annotations[fleet.AnnotationDeletionHeld]; text != "" {
		t.Errorf("it was held: %s", text)
	}
}

// Where no BundleDeployment is left that could be marked, nothing is to be decided: all kinds,
// each of those that Bundles and GitRepos only need, and the namespaces that the manager
// makes.
func TestOthersDeleted(t *testing.T) {
	t.Parallel()
	var every []string
	for _, info := range fleet.Kinds() {
		plural, _, _ := fleet.Resource(info.Kind)
		every = append(every, plural)
	}
	kinds := func(plurals ...string) func(*world) { return func(w *world) { w.deleteKinds(plurals...) } }
	ofKinds := map[string]func(*world){
		"All": kinds(every...), "BundleDeployments": kinds("bundledeployments"), "Contents": kinds("contents"), "ClusterGroups": kinds("clustergroups"),
		"Mappings": kinds("bundlenamespacemappings"), "Clusters": kinds("clusters"),
		"Registrations": kinds("clusterregistrations", "clusterregistrationtokens"),
	}
	ofNamespaces := map[string]func(*world){
		"ClusterNamespace": func(w *world) { w.loseNamespace(w.clusterNamespace()) },
		"SystemNamespace": func(w *world) {
			w.loseNamespace(registration.System{Namespace: fleet.NamespaceSystem}.RegistrationNamespace())
		},
	}
	t.Run("Namespaces", func(t *testing.T) { t.Parallel(); othersDeleted(t, ofNamespaces) })
	t.Run("Kinds", func(t *testing.T) { t.Parallel(); othersDeleted(t, ofKinds) })
}

func othersDeleted(t *testing.T, cases map[string]func(*world)) {
	all := newWorld(t, fromFiles(t))
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		for _, down := range []bool{false, true} {
			way := name + "/Up"
			if down {
				way = name + "/Down"
			}
			t.Run(way, func(t *testing.T) {
				w := all.in(t)
				defer func() { all.tokens, all.down = w.tokens, w.down }()
				before := w.objects()
				if down {
					w.stop()
				}
				cases[name](w)
				if down {
					w.start()
				}
				w.kindsAgain()
				w.unharmed(before)
				w.fleet()
				w.connected()
				w.ready()
				w.unharmed(before)
			})
		}
	}
}

// A Bundle that goes to a group keeps its one deployment, which is within every budget,
// when the kind of groups is deleted, and until the group is there again.
func TestGroupsDeleted(t *testing.T) {
	w := newWorld(t, fromFiles(t))
	const name = "web"
	key := kube.Key{Namespace: workspace, Name: name}
	group := func() {
		ensure(w, &fleet.ClusterGroup{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "prod"},
			Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{}}})
	}
	held := func() string {
		c := condition.Find(w.bundle(name).Status.Conditions, fleet.ConditionDeletionHeld)
		if c == nil {
			return ""
		}
		return c.Message
	}
	group()
	harness.Revise(w, w.hub.Admin, key, func(b *fleet.Bundle) { b.Spec.Targets = []fleet.BundleTarget{{Name: "all", ClusterGroup: "prod"}} })
	w.until("the Bundle goes to the group", func() bool {
		b := w.bundle(name)
		return b.Status.ObservedGeneration == b.Generation && b.Status.Summary.DesiredReady == 1
	})
	w.ready()
	before := w.objects()

	w.deleteKinds("clustergroups")
	w.until("it is held", func() bool { return strings.Contains(held(), `: kind "clustergroups.fleet.cattle.io" is `) })
	w.stop()
	w.kindsAgain()
	w.start()
	w.until("it is held for the group that is missing", func() bool { return strings.Contains(held(), "was deleted and made again") })
	w.unharmed(before)
	group()
	w.until("it goes to the group again", func() bool { return held() == "" && w.bundle(name).Status.Summary.DesiredReady == 1 })
	w.ready()
	w.unharmed(before)
}
