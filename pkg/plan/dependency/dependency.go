// Package dependency decides whether a deployment may start although it depends on
// other bundles, and says what it waits for: which bundle, in which state, or which
// bundles wait for each other.
package dependency

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Reasons of a deployment that does not go.
const (
	// ReasonNotReady: a dependency is not there, or in none of the accepted
	// states.
	ReasonNotReady = "DependenciesNotReady"
	// ReasonCycle: the deployment waits for itself, by way of others.
	ReasonCycle = "DependencyCycle"
	// ReasonInvalid: a selector cannot be read. Such an error is Terminal.
	ReasonInvalid = "InvalidDependency"
)

// How the messages of rancher/fleet begin: about a dependency that is not there, and about
// those that are in no accepted state, of which the names follow in brackets.
const (
	noBundles = "list bundledeployments: no bundles matching labels "
	notReady  = "dependent bundle(s) are not ready: "
)

// dependsOn is how the words of a Verdict begin that follow notReady.
const dependsOn = "depends on "

// circle is how the words of a Verdict begin where the deployment waits for itself.
const circle = "dependsOn goes in a circle: "

// absent is what stands in the message of a Verdict before the dependencies that are not on
// the cluster, and lacks how PlainMessage begins then.
const (
	absent = "; not on this cluster: "
	lacks  = "waits for what is not on this cluster: "
)

// IsMissingMessage reports whether a message, of a Verdict, of PlainMessage or of an agent of rancher/fleet,
// says that a dependency is not on the cluster at all.
func IsMissingMessage(message string) bool {
	return strings.HasPrefix(message, noBundles) || strings.HasPrefix(message, lacks)
}

// IsUnreadyMessage reports whether a message, of a Verdict, of PlainMessage or of an agent of rancher/fleet,
// says that dependencies are on the cluster and in no accepted state.
func IsUnreadyMessage(message string) bool {
	text := PlainMessage(message)
	return strings.HasPrefix(text, dependsOn) || strings.HasPrefix(text, notReady)
}

// IsCyclicMessage reports whether a message, of a Verdict or of PlainMessage, says that the deployment waits
// for itself, by way of others.
func IsCyclicMessage(message string) bool { return strings.HasPrefix(PlainMessage(message), circle) }

// PlainMessage returns a message of a Verdict without rancher/fleet's text where this project's
// text follows, which names the dependencies too.
func PlainMessage(message string) string {
	switch {
	case strings.HasPrefix(message, noBundles):
		if _, own, found := strings.Cut(message, absent); found {
			return lacks + own
		}
	case strings.HasPrefix(message, notReady):
		if _, own, found := strings.Cut(message, "]; "); found {
			return own
		}
	}
	return message
}

// A Node is one deployment of a cluster.
type Node struct {
	Name      string // of the BundleDeployment
	Labels    map[string]string
	State     fleet.BundleState
	DependsOn []fleet.BundleRef
}

// bundle is the Bundle that a deployment was made of.
func (n Node) bundle() (namespace, name string) {
	return n.Labels[fleet.LabelBundleNamespace], n.Labels[fleet.LabelBundleName]
}

// A Verdict says whether a deployment may go. The zero Verdict lets it go.
type Verdict struct {
	Reason string // empty: it may
	// Message is rancher/fleet's text, followed by this project's.
	Message string
}

// Check decides whether the agent may deploy n now. all are the deployments of its cluster, with or without
// n. A selector that cannot be read is a terminal error with the reason InvalidDependency.
//
// A cycle blocks n only while one of its dependencies is in no accepted state: bundles that
// depend on each other and are in accepted states are deployed.
func Check(n Node, all []Node) (Verdict, error) {
	unmet, missing, err := obstacles(n, all)
	if err != nil {
		return Verdict{}, err
	}
	ring := cycle(n, all)
	switch {
	case len(missing) > 0 && len(ring) == 0:
		return Verdict{ReasonNotReady, missingText(n, missing)}, nil
	case len(unmet) == 0:
		return Verdict{}, nil
	}
	names, texts := make([]string, len(unmet)), make([]string, len(unmet))
	for i, o := range unmet {
		names[i], texts[i] = o.name, o.text
	}
	message := fmt.Sprintf("%s%v; ", notReady, names)
	if len(ring) > 0 {
		return Verdict{ReasonCycle, message + circle + strings.Join(ring, " -> ") + "; take out one of them"}, nil
	}
	return Verdict{ReasonNotReady, message + dependsOn + list(sortedUnique(texts))}, nil
}

// An obstacle is a dependency that is in no accepted state.
type obstacle struct {
	name string // of the BundleDeployment
	text string // the name, and the state
}

// missingText says which dependencies are not there: the first one in the words of the
// reference, with the labels of its selector and the namespace of the Bundle, then all of
// them by their names.
func missingText(n Node, missing []fleet.BundleRef) string {
	namespace, _ := n.bundle()
	first := missing[0].Selector.DeepCopy()
	if first == nil {
		first = &metav1.LabelSelector{}
	}
	if name := missing[0].Name; name != "" {
		first = metav1.AddLabelToSelector(first, fleet.LabelBundleName, name)
		first = metav1.AddLabelToSelector(first, fleet.LabelBundleNamespace, namespace)
	}
	names := make([]string, len(missing))
	for i, ref := range missing {
		names[i] = refText(ref)
	}
	return noBundles + selectorText(first) + " in namespace " + namespace + absent + list(sortedUnique(names))
}

// selectorText is a selector that matcher has read, as Kubernetes writes it.
func selectorText(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return err.Error()
	}
	return selector.String()
}

// DependsOn reports whether a deployment depends on another one, whatever its
// state.
func DependsOn(n, other Node) bool {
	for _, ref := range n.DependsOn {
		if m, err := matcher(n, ref); err != nil || m(other) {
			return true
		}
	}
	return false
}

// obstacles are the dependencies that are in no accepted state, by entry of dependsOn and
// by name, and those that are not there at all, in their order.
func obstacles(n Node, all []Node) (unmet []obstacle, missing []fleet.BundleRef, err error) {
	for _, ref := range n.DependsOn {
		m, err := matcher(n, ref)
		if err != nil {
			return nil, nil, err
		}
		found := ref.Name == "" && ref.Selector == nil // names nothing
		first := len(unmet)
		for _, other := range all {
			if !m(other) {
				continue
			}
			found = true
			if !acceptsState(ref, other.State) {
				unmet = append(unmet, obstacle{other.Name, fmt.Sprintf("%s, which is %s%s", other.Name, other.State, acceptedStatesText(ref))})
			}
		}
		slices.SortFunc(unmet[first:], func(a, b obstacle) int { return strings.Compare(a.name, b.name) })
		if !found {
			missing = append(missing, ref)
		}
	}
	return unmet, missing, nil
}

// matcher reports which deployments a reference means: by the name of a Bundle of the same
// namespace, or by labels, whatever their namespace. A reference without either means none.
// A reference by labels never means n itself.
func matcher(n Node, ref fleet.BundleRef) (func(Node) bool, error) {
	selector := labels.Everything()
	if ref.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
			return nil, reconcile.TerminalError(ReasonInvalid, fmt.Errorf("dependsOn: %w", err))
		}
	}
	namespace, _ := n.bundle()
	return func(other Node) bool {
		in, name := other.bundle()
		switch {
		case ref.Name == "" && ref.Selector == nil:
			return false
		case ref.Name == "" && other.Name == n.Name:
			return false
		case ref.Name != "" && (name != ref.Name || in != namespace):
			return false
		}
		return selector.Matches(labels.Set(other.Labels))
	}, nil
}

// cycle is the way from n back to itself over dependencies that are not met,
// as names; nil if there is none.
func cycle(n Node, all []Node) []string {
	seen := map[string]bool{}
	var walk func(at Node) []string
	walk = func(at Node) []string {
		for _, next := range blockers(at, all) {
			if next.Name == n.Name {
				return []string{at.Name, n.Name}
			}
			if seen[next.Name] {
				continue
			}
			seen[next.Name] = true
			if rest := walk(next); rest != nil {
				return append([]string{at.Name}, rest...)
			}
		}
		return nil
	}
	return walk(n)
}

// blockers are the deployments that hold one up, by name.
func blockers(n Node, all []Node) []Node {
	var out []Node
	for _, ref := range n.DependsOn {
		m, err := matcher(n, ref)
		if err != nil {
			continue
		}
		for _, other := range all {
			if m(other) && !acceptsState(ref, other.State) {
				out = append(out, other)
			}
		}
	}
	slices.SortFunc(out, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func acceptsState(ref fleet.BundleRef, state fleet.BundleState) bool {
	if len(ref.AcceptedStates) == 0 {
		return state == fleet.Ready
	}
	return slices.Contains(ref.AcceptedStates, state)
}

// acceptedStatesText says which states a reference accepts, where it says so itself.
func acceptedStatesText(ref fleet.BundleRef) string {
	if len(ref.AcceptedStates) == 0 {
		return ""
	}
	words := make([]string, len(ref.AcceptedStates))
	for i, s := range ref.AcceptedStates {
		words[i] = string(s)
	}
	return " (accepted: " + strings.Join(words, ", ") + ")"
}

func refText(ref fleet.BundleRef) string {
	switch {
	case ref.Name == "":
		return "bundles with labels " + metav1.FormatLabelSelector(ref.Selector)
	case ref.Selector != nil:
		return fmt.Sprintf("bundle %q with labels %s", ref.Name, metav1.FormatLabelSelector(ref.Selector))
	}
	return fmt.Sprintf("bundle %q", ref.Name)
}

// sortedUnique is a list sorted and without repetitions.
func sortedUnique(l []string) []string {
	slices.Sort(l)
	return slices.Compact(l)
}

// list is at most three of many texts.
func list(l []string) string {
	if len(l) > 3 {
		return fmt.Sprintf("%s and %d more", strings.Join(l[:3], "; "), len(l)-3)
	}
	return strings.Join(l, "; ")
}
