package schedule

import (
	"cmp"
	"errors"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// Freeze is the value of AnnotationOutsideWindows that asks for it.
const Freeze = "freeze"

// local is the location that stands for that of the manager, as the empty one does.
const local = "Local"

// A Rule is a Schedule as it applies to clusters. It is never changed.
type Rule struct {
	// Problem is why the Schedule cannot be used; nil if it can. It opens no windows then.
	Problem error

	definition Definition
	schedule   *Schedule // nil with Problem
	targets    []target.Filter
	everything bool // a target cannot be read
}

// NewRule compiles a Schedule. location is the time zone of a Schedule without one.
//
// Changes wait where a Schedule cannot be used: it applies to its clusters and opens no
// windows. If one of its targets cannot be read, it applies to all clusters of its namespace.
func NewRule(s *fleet.Schedule, location string) *Rule {
	r := &Rule{definition: Definition{Name: s.Name, Freeze: s.Annotations[fleet.AnnotationOutsideWindows] == Freeze}}
	d := r.definition
	d.Cron, d.Location = s.Spec.Schedule, s.Spec.Location
	if d.Location == "" || d.Location == local {
		d.Location = cmp.Or(location, "UTC")
	}
	if s.Spec.Duration != nil {
		d.Duration = s.Spec.Duration.Duration.String()
	}
	parsed, err := Parse(d)
	if err == nil {
		err = parsed.Check()
	}
	if err == nil {
		r.definition, r.schedule = d, parsed
	}
	problems := []error{err}
	for i, t := range s.Spec.Targets.Clusters {
		f, err := target.NewFilter(target.Criteria{
			Name: t.Name, ClusterName: t.ClusterName, ClusterSelector: t.ClusterSelector,
			ClusterGroup: t.ClusterGroup, ClusterGroupSelector: t.ClusterGroupSelector,
		}, "target", i)
		if err != nil {
			problems, r.everything = append(problems, err), true
			continue
		}
		r.targets = append(r.targets, f)
	}
	r.Problem = errors.Join(problems...)
	return r
}

// Schedule returns when the windows are open; nil if none ever opens.
func (r *Rule) Schedule() *Schedule { return r.schedule }

// Location returns the time zone of the windows.
func (r *Rule) Location() string { return cmp.Or(r.definition.Location, "UTC") }

// Selects reports whether the Schedule applies to a cluster of its namespace.
func (r *Rule) Selects(c *target.Cluster) bool {
	if r.everything {
		return true
	}
	for _, f := range r.targets {
		if f.Selects(c) {
			return true
		}
	}
	return false
}

// ForCluster returns the windows that rules give a cluster of their namespace, as the text
// that Decode reads; empty if none applies to it.
func ForCluster(rules map[string]*Rule, c *target.Cluster) string {
	var list []Definition
	for _, r := range rules {
		if r.Selects(c) {
			list = append(list, r.definition)
		}
	}
	return Encode(list)
}
