package withdrawal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// byReference is a BundleDeployment as rancher/fleet's manager writes it.
func byReference(name string, change func(*fleet.BundleDeployment)) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), Finalizers: []string{fleet.FinalizerBundleDeployment},
		Labels: map[string]string{fleet.LabelManaged: "true", fleet.LabelBundleName: name, fleet.LabelCluster: "c1"},
	}}
	if change != nil {
		change(bd)
	}
	return bd
}

func byUs(bd *fleet.BundleDeployment) { bd.Labels[fleet.LabelBucket], bd.Finalizers = "a1", nil }

func TestWatchedDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		change func(*fleet.BundleDeployment)
		marks  bool
		want   bool
	}{
		"Reference": {why: "the reference's manager orders by deleting", want: true},
		"WayBack": {why: "a mark of a manager that is gone, on the Cluster or on the object, changes nothing", marks: true, want: true, change: func(bd *fleet.BundleDeployment) {
			bd.Finalizers, bd.Annotations = nil, map[string]string{fleet.AnnotationInputHash: "a.b"}
		}},
		"Ours":       {why: "ours orders by marks", change: byUs, marks: true},
		"OurShard":   {why: "also beside the reference, which manages the Cluster", change: byUs},
		"Unlabelled": {why: "what says nothing is kept under our manager", change: func(bd *fleet.BundleDeployment) { bd.Labels = nil }, marks: true},
		"Unmarked":   {why: "and goes under one that never gave a mark", change: func(bd *fleet.BundleDeployment) { bd.Labels = nil }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := WatchedDeletion(byReference("web", c.change), c.marks); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}

func TestLastStateOf(t *testing.T) {
	made := func(name string, at int64) *fleet.BundleDeployment {
		return byReference(name, func(bd *fleet.BundleDeployment) { bd.CreationTimestamp = metav1.Unix(at, 0) })
	}
	web, agent, old, ours := made("web", 1), made("agent", 3), made("old", 2), made("ours", 1)
	byUs(ours)
	leaving := made("leaving", 1)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)}
	list := []*fleet.BundleDeployment{web, agent, old, ours, leaving}
	for name, c := range map[string]struct {
		why    string
		bd     *fleet.BundleDeployment
		list   []*fleet.BundleDeployment
		before *LastState
		want   *LastState
	}{
		"Oldest":       {why: "the oldest other one of such a manager that stays", bd: web, list: list, want: &LastState{Witness: "old", WitnessUID: "uid-old"}},
		"Stays":        {why: "a witness is not changed", bd: web, list: list, before: &LastState{Witness: "agent", WitnessUID: "uid-agent"}, want: &LastState{Witness: "agent", WitnessUID: "uid-agent"}},
		"Another":      {why: "but one that was made again is", bd: web, list: list, before: &LastState{Witness: "agent", WitnessUID: "x"}, want: &LastState{Witness: "old", WitnessUID: "uid-old"}},
		"Alone":        {why: "there may be none", bd: web, list: list[:1], want: &LastState{}},
		"Deleted":      {why: "a deletion is kept", bd: leaving, want: &LastState{Deleted: true}},
		"Ours":         {why: "ours never goes by deletion", bd: ours, list: list},
		"OursDeleted":  {why: "not even then", bd: byReference("web", func(bd *fleet.BundleDeployment) { byUs(bd); bd.DeletionTimestamp = leaving.DeletionTimestamp })},
		"NoFinalizer":  {why: "without finalizer it may get lost", bd: byReference("web", func(bd *fleet.BundleDeployment) { bd.Finalizers = nil }), list: list},
		"WithoutLabel": {why: "it does not say who wrote it", bd: byReference("web", func(bd *fleet.BundleDeployment) { bd.Labels = nil }), list: list},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, LastStateOf(c.bd, func() []*fleet.BundleDeployment { return c.list }, c.before)); diff != "" {
				t.Errorf("%s: -want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestAbsence(t *testing.T) {
	for name, c := range map[string]struct {
		why    string
		change func(*Absence)
		want   bool
	}{
		"Finalizer":       {why: "its manager took the finalizer off, in this list", want: true},
		"Deleted":         {why: "a deletionTimestamp is never taken back", change: func(a *Absence) { *a = Absence{Last: &LastState{Deleted: true}} }, want: true},
		"Nothing":         {why: "nothing was kept", change: func(a *Absence) { a.Last = nil }},
		"EmptyList":       {why: "an empty list is another list", change: func(a *Absence) { a.Witness = nil }},
		"NoWitness":       {why: "there never was another one", change: func(a *Absence) { *a = Absence{Last: &LastState{}, Version: "5", ListVersion: "9"} }},
		"AnotherManager":  {why: "another list has others of that name", change: func(a *Absence) { a.Witness.UID = "x" }},
		"OursNow":         {why: "the manager orders by marks by now", change: func(a *Absence) { byUs(a.Witness) }},
		"Restored":        {why: "a restored manager may not know it", change: func(a *Absence) { a.Restored = true }},
		"OlderList":       {why: "the list is from before the object", change: func(a *Absence) { a.ListVersion = "4" }},
		"SameVersion":     {why: "and this one would have it", change: func(a *Absence) { a.ListVersion = "5" }},
		"UnknownVersion":  {why: "versions that are no numbers say nothing", change: func(a *Absence) { a.Version = "" }},
		"UnknownVersion2": {why: "neither does that of the list", change: func(a *Absence) { a.ListVersion = "x" }},
	} {
		t.Run(name, func(t *testing.T) {
			a := Absence{
				Last: &LastState{Witness: "agent", WitnessUID: "uid-agent"}, Version: "5", ListVersion: "9", Witness: byReference("agent", nil),
			}
			if c.change != nil {
				c.change(&a)
			}
			if got := a.Ordered(); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}
