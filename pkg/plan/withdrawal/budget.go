package withdrawal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// A Budget is how much one change may remove without being approved. The zero
// Budget is none: only LeastBudget.
type Budget struct {
	percent int
	count   int
	fixed   bool // count is used, and not percent
	off     bool
}

// LeastBudget is the least number that a share gives.
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

// FirstBudget returns the first of texts that is a budget: a GitRepo's precedes its
// workspace's. Without any it returns otherwise. The error is about those before it that
// cannot be read.
func FirstBudget(otherwise Budget, texts ...string) (Budget, error) {
	var unread []error
	for _, text := range texts {
		if text == "" {
			continue
		}
		b, err := ParseBudget(text)
		if err == nil {
			return b, errors.Join(unread...)
		}
		unread = append(unread, err)
	}
	return otherwise, errors.Join(unread...)
}

// ReasonInvalidBudget is the reason of a deletion budget that is not used.
const ReasonInvalidBudget = "InvalidDeletionBudget"

// DefaultBudgets says which budgets apply where none can be read.
func DefaultBudgets() string {
	return fmt.Sprintf("the default counts: 20%% of the bundles of the GitRepo, 10%% of the deployments of the workspace, at least %d", LeastBudget)
}

// SharedBudgetFault says, for a GitRepo without a readable budget, that the budget of its
// workspace cannot be read, and what applies instead. It is empty where that is not so.
func SharedBudgetFault(own, namespace, shared string) string {
	if _, err := ParseBudget(own); err == nil || shared == "" {
		return ""
	}
	if _, err := ParseBudget(shared); err != nil {
		return fmt.Sprintf("namespace %s: %v; it is not used, and %s", namespace, err, DefaultBudgets())
	}
	return ""
}

// IsOff reports whether nothing is ever held.
func (b Budget) IsOff() bool { return b.off }

// Allowed returns how many of total may go at once: a share is rounded down and at least
// LeastBudget.
func (b Budget) Allowed(total int) int {
	switch {
	case b.off:
		return total
	case b.fixed:
		return b.count
	}
	return max(LeastBudget, total*b.percent/100)
}

// An Item is one object that a change would remove, or whose releases it would
// replace.
type Item struct {
	Name        string       // as people know it: of a Bundle, or of a Cluster
	UID         types.UID    // of the object itself, so that no other one is meant
	DataObjects []DataObject // that go along
	// Replaced are the releases that others take the place of, as Replacement.String
	// names them, each once. It is empty where the object itself is removed.
	Replaced []string
	// Protected is true where the object bears AnnotationProtect: it is removed only with
	// an approval.
	Protected bool
}

// A Removal is all that one change would remove of one owner.
type Removal struct {
	// Unit is the kind of the items: "bundle" or "deployment".
	Unit string
	// Items may come in any order.
	Items []Item
	// Total is the number of all objects, removed or not, that Items are taken
	// from.
	Total int
	// Also is how many others the same change removes. Those that are gone already are
	// not counted in Total.
	Also int
	// Budget is how many may be removed without an approval.
	Budget Budget
	// Approved is the hash of the list that a person has approved, or empty.
	Approved string
	// Deleted is the UID of the object that was deleted, of which Items are parts;
	// empty where a change removes Items.
	Deleted types.UID
}

// A Verdict is whether a removal may go on, and what it would remove.
type Verdict struct {
	// Held reports that it waits to be approved.
	Held bool
	// Approved reports that it would be held if it were not.
	Approved bool
	// Hash identifies this list, whatever its order.
	Hash string
	// Summary says in a few words what would be removed.
	Summary string
	// List names the objects to be removed, precious ones first, sorted.
	List []string
	// Protected is true where a protected object was deleted.
	Protected bool
}

// DecideRemoval decides whether a removal may go on: it may within its budget if it
// takes nothing precious or protected along, or if exactly this list was approved.
func DecideRemoval(r Removal) Verdict {
	protected := r.protected() > 0
	if len(r.Items) == 0 || r.Budget.off && !protected {
		return Verdict{}
	}
	things := 0
	for _, item := range r.Items {
		things += len(item.DataObjects)
	}
	over := r.isOverBudget()
	if !over && things == 0 && !protected {
		return Verdict{}
	}
	v := Verdict{Hash: Hash(r), Summary: r.summary(over), List: r.list()}
	v.Approved = r.Approved == v.Hash
	v.Held = !v.Approved
	return v
}

// isOverBudget reports whether a removal is above its budget.
func (r Removal) isOverBudget() bool { return len(r.Items)+r.Also > r.Budget.Allowed(r.Total) }

// protected is how many protected objects would be removed.
func (r Removal) protected() (n int) {
	for _, item := range r.Items {
		if item.Protected {
			n++
		}
	}
	return n
}

// hashBytes is how much of the digest is shown: people copy it.
const hashBytes = 8

// Hash identifies a list of items by what is removed and what goes along, and not by their
// order.
func Hash(r Removal) string {
	var parts []string
	if r.Deleted != "" {
		parts = append(parts, "deleted\x00"+string(r.Deleted))
	}
	for _, item := range r.Items {
		parts = append(parts, strings.Join([]string{"item", r.Unit, item.Name, string(item.UID)}, "\x00"))
		for _, t := range item.DataObjects {
			parts = append(parts, strings.Join([]string{t.hashPart(), item.Name, t.Kind, t.Namespace, t.Name, t.Cluster}, "\x00"))
		}
		for _, text := range item.Replaced {
			parts = append(parts, strings.Join([]string{"replaced", item.Name, text}, "\x00"))
		}
	}
	slices.Sort(parts)
	sum := sha256.Sum256([]byte(strings.Join(slices.Compact(parts), "\x01")))
	return hex.EncodeToString(sum[:hashBytes])
}

// summary is "would remove 40 of 50 bundles (budget 10)", and what is precious.
func (r Removal) summary(over bool) string {
	text := fmt.Sprintf("%s of %s", r.verbText(), countText(r.Total, r.Unit))
	if r.Also > 0 && over {
		unit := strings.TrimPrefix(countText(len(r.Items), r.Unit), strconv.Itoa(len(r.Items)))
		all := len(r.Items) + r.Also
		text = fmt.Sprintf("%s%s, with others %d of %d", r.verbText(), unit, all, max(all, r.Total))
	}
	if over {
		text += fmt.Sprintf(" (budget %d)", r.Budget.Allowed(r.Total))
	}
	var kinds []string
	for _, kind := range kindsWithData {
		n := 0
		for _, item := range r.Items {
			for _, t := range item.DataObjects {
				if t.Kind == kind {
					n++
				}
			}
		}
		if n > 0 {
			kinds = append(kinds, countText(n, kind))
		}
	}
	if n := r.protected(); n > 0 {
		kinds = append(kinds, fmt.Sprintf("%d protected", n))
	}
	if len(kinds) > 0 {
		text += " with " + strings.Join(kinds, ", ")
	}
	return text
}

// verbText is "would remove 2", "would replace the release of 3", or both.
func (r Removal) verbText() string {
	replaced := 0
	for _, item := range r.Items {
		if len(item.Replaced) > 0 {
			replaced++
		}
	}
	removed := len(r.Items) - replaced
	switch {
	case replaced == 0:
		return fmt.Sprintf("would remove %d", removed)
	case removed == 0:
		return fmt.Sprintf("would replace the release of %d", replaced)
	}
	return fmt.Sprintf("would remove %d and replace the release of %d", removed, replaced)
}

func countText(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// list names what would be removed: precious objects by kind, then the items.
func (r Removal) list() []string {
	var things []DataObject
	var items []string
	for _, item := range r.Items {
		things = append(things, item.DataObjects...)
		if len(item.Replaced) == 0 {
			items = append(items, r.Unit+" "+item.Name)
		}
		for _, text := range item.Replaced {
			items = append(items, fmt.Sprintf("%s %s: %s", r.Unit, item.Name, text))
		}
	}
	slices.SortFunc(things, func(a, b DataObject) int {
		return cmp.Or(slices.Index(kindsWithData, a.Kind)-slices.Index(kindsWithData, b.Kind), strings.Compare(a.String(), b.String()))
	})
	slices.Sort(items)
	out := make([]string, 0, len(things)+len(items))
	for _, t := range things {
		out = append(out, t.String())
	}
	return slices.Compact(append(out, items...))
}
