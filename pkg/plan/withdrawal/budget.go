package withdrawal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Budget is how much one change may remove without being approved. The zero
// Budget is none: only LeastBudget.
type Budget struct {
	percent int
	count   int
	fixed   bool // count counts, and not percent
	off     bool
}

// LeastBudget is what a share of few comes to at least.
const LeastBudget = 3

// The budgets where nothing is said: a fifth of a GitRepo's Bundles for a change
// of its repository, a tenth of a workspace's deployments for one of targets.
var (
	BundleBudget     = Budget{percent: 20}
	DeploymentBudget = Budget{percent: 10}
)

// ParseBudget reads AnnotationDeletionBudget: a share of 0 to 100 ("20%"), a
// number of 0 or more ("15"), or "off", with which nothing is held.
func ParseBudget(text string) (Budget, error) {
	text = strings.TrimSpace(text)
	if text == "off" {
		return Budget{off: true}, nil
	}
	number, share := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || share && n > 100 {
		return Budget{}, fmt.Errorf("deletion budget %q: want a share such as 20%%, a number, or off", text)
	}
	if share {
		return Budget{percent: n}, nil
	}
	return Budget{count: n, fixed: true}, nil
}

// FirstBudget reads the first of texts that says something: a GitRepo's comes
// before its workspace's. Without any it is otherwise, and with one that cannot
// be read it is that, too, beside the error.
func FirstBudget(otherwise Budget, texts ...string) (Budget, error) {
	text := cmp.Or(texts...)
	if text == "" {
		return otherwise, nil
	}
	b, err := ParseBudget(text)
	if err != nil {
		return otherwise, err
	}
	return b, nil
}

// Of is how many of total may go at once: a share is rounded down and at least
// LeastBudget.
func (b Budget) Of(total int) int {
	switch {
	case b.off:
		return total
	case b.fixed:
		return b.count
	}
	return max(LeastBudget, total*b.percent/100)
}

const kindCRD = "CustomResourceDefinition"

// precious are the kinds that hold what no deployment brings back.
var precious = []string{"PersistentVolumeClaim", "Namespace", kindCRD}

// Precious tells whether objects of a kind go only with an approval.
func Precious(kind string) bool { return slices.Contains(precious, kind) }

// A Thing is one precious object that a removal takes along.
type Thing struct {
	Kind, Namespace, Name string
	Cluster               string // "<namespace>/<name>" of the Cluster
}

// String is "PersistentVolumeClaim pos/data on fleet-default/c1".
func (t Thing) String() string {
	name := t.Name
	if t.Namespace != "" {
		name = t.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s on %s", t.Kind, name, t.Cluster)
}

// Things are the precious objects of a deployment that go with it. With
// keepResources nothing does, and CRDs do only with deleteCRDResources.
func Things(cluster string, bd *fleet.BundleDeployment) []Thing {
	if bd.Spec.Options.KeepResources {
		return nil
	}
	return slices.DeleteFunc(Claims(cluster, bd), func(t Thing) bool {
		return t.Kind == kindCRD && !bd.Spec.Options.DeleteCRDResources
	})
}

// Claims are all precious objects that a deployment has.
func Claims(cluster string, bd *fleet.BundleDeployment) []Thing {
	var out []Thing
	for _, o := range bd.Status.Resources {
		if Precious(o.Kind) {
			out = append(out, Thing{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Cluster: cluster})
		}
	}
	return out
}

// Unclaimed are those of things that nobody who stays claims.
func Unclaimed(things []Thing, claimed map[Thing]bool) []Thing {
	var out []Thing
	for _, t := range things {
		if !claimed[t] {
			out = append(out, t)
		}
	}
	return out
}

// An Item is one object that a change would remove.
type Item struct {
	Name   string    // as people know it: of a Bundle, or of a Cluster
	UID    types.UID // of the object itself, so that no other one is meant
	Things []Thing
}

// A Removal is all that one change would remove of one owner.
type Removal struct {
	// Unit is what items are: "bundle" or "deployment".
	Unit string
	// Items may come in any order.
	Items []Item
	// Total is how many there are of what Items are some of.
	Total int
	// Also is how many others the same change removes, counted in Total too.
	Also int
	// Budget is what may go without an approval.
	Budget Budget
	// Approved is the hash of the list that a person has approved, or empty.
	Approved string
}

// A Verdict is whether a removal may go on, and what it would remove.
type Verdict struct {
	// Held tells that it waits to be approved.
	Held bool
	// Approved tells that it would be held if it were not.
	Approved bool
	// Hash tells this list from every other, in whatever order.
	Hash string
	// Summary says in a few words what would be removed.
	Summary string
	// List is what would be removed, precious objects first, sorted.
	List []string
}

// Judge decides whether a removal may go on: it may within its budget if it
// takes nothing precious along, or if exactly this list was approved.
func Judge(r Removal) Verdict {
	if len(r.Items) == 0 || r.Budget.off {
		return Verdict{}
	}
	things := 0
	for _, item := range r.Items {
		things += len(item.Things)
	}
	over := len(r.Items)+r.Also > r.Budget.Of(r.Total)
	if !over && things == 0 {
		return Verdict{}
	}
	v := Verdict{Hash: Hash(r), Summary: r.summary(over), List: r.list()}
	v.Approved = r.Approved == v.Hash
	v.Held = !v.Approved
	return v
}

// hashBytes is how much of the digest is shown: people copy it.
const hashBytes = 8

// Hash tells lists of items apart: by what is removed and what goes along, and
// not by their order.
func Hash(r Removal) string {
	var parts []string
	for _, item := range r.Items {
		parts = append(parts, strings.Join([]string{"item", r.Unit, item.Name, string(item.UID)}, "\x00"))
		for _, t := range item.Things {
			parts = append(parts, strings.Join([]string{"thing", item.Name, t.Kind, t.Namespace, t.Name, t.Cluster}, "\x00"))
		}
	}
	slices.Sort(parts)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(parts), "\x01")))
	return hex.EncodeToString(sum[:hashBytes])
}

// summary is "would remove 40 of 50 bundles (budget 10)", and what is precious.
func (r Removal) summary(over bool) string {
	text := fmt.Sprintf("would remove %d of %s", len(r.Items), counted(r.Total, r.Unit))
	if r.Also > 0 {
		text = fmt.Sprintf("would remove %s, with others %d of %d", counted(len(r.Items), r.Unit), len(r.Items)+r.Also, r.Total)
	}
	if over {
		text += fmt.Sprintf(" (budget %d)", r.Budget.Of(r.Total))
	}
	var kinds []string
	for _, kind := range precious {
		n := 0
		for _, item := range r.Items {
			for _, t := range item.Things {
				if t.Kind == kind {
					n++
				}
			}
		}
		if n > 0 {
			kinds = append(kinds, counted(n, kind))
		}
	}
	if len(kinds) > 0 {
		text += " with " + strings.Join(kinds, ", ")
	}
	return text
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// list names what would be removed: precious objects by kind, then the items.
func (r Removal) list() []string {
	var things []Thing
	var items []string
	for _, item := range r.Items {
		things = append(things, item.Things...)
		items = append(items, item.Name)
	}
	slices.SortFunc(things, func(a, b Thing) int {
		return cmp.Or(slices.Index(precious, a.Kind)-slices.Index(precious, b.Kind), strings.Compare(a.String(), b.String()))
	})
	slices.Sort(items)
	out := make([]string, 0, len(things)+len(items))
	for _, t := range things {
		out = append(out, t.String())
	}
	for _, name := range items {
		out = append(out, r.Unit+" "+name)
	}
	return slices.Compact(out)
}
