// Package dependency decides whether the bundles that a deployment depends on
// let it go, and says what it waits for: which bundle, in which state, or which
// bundles wait for each other.
package dependency

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/fault"
)

// Reasons of a deployment that does not go.
const (
	// ReasonNotReady: a dependency is not there, or in none of the accepted
	// states.
	ReasonNotReady = "DependenciesNotReady"
	// ReasonCycle: the deployment waits for itself, by way of others.
	ReasonCycle = "DependencyCycle"
	// ReasonInvalid: a selector cannot be read. Such an error is Permanent.
	ReasonInvalid = "InvalidDependency"
)

// How messages about dependencies that are not there end and begin.
const (
	thereIsNone  = " on this cluster, and there is none"
	thereAreNone = "depends on what is not on this cluster: "
)

// Missing reports whether the message of a Verdict says that a dependency is not on
// the cluster at all.
func Missing(message string) bool {
	return strings.HasPrefix(message, "depends on ") && strings.HasSuffix(message, thereIsNone) || strings.HasPrefix(message, thereAreNone)
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
	Reason  string // empty: it may
	Message string
}

// Judge decides whether n may go, with all deployments of its cluster, n among
// them or not. What is wrong for good, a selector that cannot be read, is an
// error: Permanent, InvalidDependency.
//
// A cycle counts only as far as it holds anybody up: bundles that depend on each
// other and are in accepted states go on.
func Judge(n Node, all []Node) (Verdict, error) {
	unmet, missing, err := obstacles(n, all)
	if err != nil {
		return Verdict{}, err
	}
	if ring := cycle(n, all); len(ring) > 0 {
		return Verdict{ReasonCycle, "dependsOn goes in a circle: " + strings.Join(ring, " -> ") + "; take out one of them"}, nil
	}
	switch {
	case len(missing) == 1:
		return Verdict{ReasonNotReady, "depends on " + missing[0] + thereIsNone}, nil
	case len(missing) > 1:
		return Verdict{ReasonNotReady, thereAreNone + list(missing)}, nil
	case len(unmet) > 0:
		return Verdict{ReasonNotReady, "depends on " + list(unmet)}, nil
	}
	return Verdict{}, nil
}

// Concerns tells whether a deployment depends on another one, whatever its
// state.
func Concerns(n, other Node) bool {
	for _, ref := range n.DependsOn {
		if m, err := matcher(n, ref); err != nil || m(other) {
			return true
		}
	}
	return false
}

// obstacles are the dependencies that are in no accepted state, each with its
// state, and those that are not there at all.
func obstacles(n Node, all []Node) (unmet, missing []string, err error) {
	for _, ref := range n.DependsOn {
		m, err := matcher(n, ref)
		if err != nil {
			return nil, nil, err
		}
		found := ref.Name == "" && ref.Selector == nil // names nothing
		for _, other := range all {
			if !m(other) {
				continue
			}
			found = true
			if !accepts(ref, other.State) {
				unmet = append(unmet, fmt.Sprintf("%s, which is %s%s", other.Name, other.State, accepted(ref)))
			}
		}
		if !found {
			missing = append(missing, named(ref))
		}
	}
	return tidy(unmet), tidy(missing), nil
}

// matcher tells which deployments a reference means: by the name of a Bundle of
// the same namespace, or by labels, whatever their namespace. A reference
// without either means none. By labels nobody means itself.
func matcher(n Node, ref fleet.BundleRef) (func(Node) bool, error) {
	selector := labels.Everything()
	if ref.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(ref.Selector); err != nil {
			return nil, fault.PermanentError(ReasonInvalid, fmt.Errorf("dependsOn: %w", err))
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
			if m(other) && !accepts(ref, other.State) {
				out = append(out, other)
			}
		}
	}
	slices.SortFunc(out, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func accepts(ref fleet.BundleRef, state fleet.BundleState) bool {
	if len(ref.AcceptedStates) == 0 {
		return state == fleet.Ready
	}
	return slices.Contains(ref.AcceptedStates, state)
}

// accepted says which states a reference accepts, where it says so itself.
func accepted(ref fleet.BundleRef) string {
	if len(ref.AcceptedStates) == 0 {
		return ""
	}
	words := make([]string, len(ref.AcceptedStates))
	for i, s := range ref.AcceptedStates {
		words[i] = string(s)
	}
	return " (accepted: " + strings.Join(words, ", ") + ")"
}

func named(ref fleet.BundleRef) string {
	switch {
	case ref.Name == "":
		return "bundles with labels " + metav1.FormatLabelSelector(ref.Selector)
	case ref.Selector != nil:
		return fmt.Sprintf("bundle %q with labels %s", ref.Name, metav1.FormatLabelSelector(ref.Selector))
	}
	return fmt.Sprintf("bundle %q", ref.Name)
}

// tidy is a list sorted and without repetitions.
func tidy(l []string) []string {
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
