// Package preflight decides whether a manager may start beside other managers of the
// same API: two that write the same objects undo each other's work.
//
// In one namespace they exclude each other, because all of them, rancher/fleet's too,
// work under leases of the same names. In different namespaces no lease excludes them.
package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Self is the manager that wants to start.
type Self struct {
	Namespace      string
	Implementation string // as its chart writes it, see fleet.AnnotationImplementation
	// Shard: it works on the objects of a shard, which every manager without that
	// shard leaves alone, rancher/fleet's too. It may begin beside any.
	Shard bool
	// Limited: it works in some workspaces only. It may begin beside others of its
	// implementation, among which people divide the work; others know no such limit.
	Limited bool
	// Takeover: a person wants it to replace whatever is there.
	Takeover bool
}

// A Manager is what is known of the manager of one namespace, which may be Self's own.
type Manager struct {
	Namespace string
	// Configured: there is a ConfigMap fleet-controller.
	Configured bool
	// Version and Implementation are what that ConfigMap says it was written for;
	// empty: it says nothing. The reference names its version only.
	Version        string
	Implementation string
	// Ready is how many pods of the Deployment fleet-controller are ready.
	Ready int
	// Leases are those that managers work under.
	Leases []Lease
}

// A Lease is one of a role of a manager.
type Lease struct {
	Name    string
	Holder  string        // empty: none
	Renewed time.Duration // how long ago
	Holds   time.Duration // how long from a renewal
}

// IsHeld reports whether a manager holds the lease.
func (l Lease) IsHeld() bool { return l.Holder != "" && l.Renewed < l.Holds }

// A Verdict is what a manager is to do.
type Verdict int

const (
	// Begin to work.
	Begin Verdict = iota
	// Wait for the end of another manager, and look again.
	Wait
	// Refuse to start.
	Refuse
)

// Decide reports whether a manager may begin. The text says why not; it is the same as
// long as the same managers are seen.
func Decide(self Self, seen []Manager) (Verdict, string) {
	if self.Shard {
		return Begin, ""
	}
	seen = slices.SortedFunc(slices.Values(seen), func(a, b Manager) int { return strings.Compare(a.Namespace, b.Namespace) })
	for _, m := range seen {
		switch {
		case m.Namespace == self.Namespace:
			if m.isForeign(self.Implementation) && !self.Takeover {
				return Refuse, fmt.Sprintf("start in namespace %q: the manager that is installed here is another implementation "+
					"(ConfigMap fleet-controller was written for %s): upgrade its releases with the charts of this one (docs/charts.md), "+
					"or start with --takeover", m.Namespace, m.Version)
			}
		case self.Limited && !m.isForeign(self.Implementation):
		case m.isRunning() && self.Takeover:
			return Wait, fmt.Sprintf("begin in namespace %q: waits for the end of %s: kubectl -n %s scale deployment --replicas=0 fleet-controller gitjob",
				self.Namespace, m.describe(self.Implementation), m.Namespace)
		case m.isRunning():
			return Refuse, fmt.Sprintf("start in namespace %q: another manager of the same API is at work, and two would undo each other's work: %s: "+
				"end that one first, or start with --takeover (chart value takeover) to begin as soon as it has ended; docs/takeover.md",
				self.Namespace, m.describe(self.Implementation))
		}
	}
	return Begin, ""
}

// isForeign reports whether a manager was installed by other charts than those of an
// implementation. One that does not say what it is may have been made by hand.
func (m Manager) isForeign(implementation string) bool {
	return m.Configured && m.Implementation != implementation && (m.Implementation != "" || m.Version != "")
}

// isRunning reports whether a manager is at work: it holds a lease, or it has pods. A
// lease alone may be held by a program that runs outside of the cluster, and pods
// alone may do without leases.
func (m Manager) isRunning() bool {
	return m.Configured && m.Ready > 0 || slices.ContainsFunc(m.Leases, Lease.IsHeld)
}

// describe names a manager and what shows that it is at work.
func (m Manager) describe(ours string) string {
	who := fmt.Sprintf("the manager in namespace %q", m.Namespace)
	switch {
	case m.isForeign(ours):
		who += fmt.Sprintf(" (another implementation, version %s)", orUnknown(m.Version))
	case m.Version != "":
		who += fmt.Sprintf(" (version %s)", m.Version)
	}
	var signs []string
	if m.Configured && m.Ready > 0 {
		signs = append(signs, "Deployment fleet-controller has ready pods")
	}
	for _, l := range slices.SortedFunc(slices.Values(m.Leases), func(a, b Lease) int { return strings.Compare(a.Name, b.Name) }) {
		if l.IsHeld() {
			signs = append(signs, fmt.Sprintf("lease %s is held by %q", l.Name, l.Holder))
		}
	}
	return who + ", " + strings.Join(signs, ", ")
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
