package withdrawal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// bundles are n items b0, b1, ...
func bundles(n int) []Item {
	var out []Item
	for i := range n {
		out = append(out, Item{Name: fmt.Sprintf("b%d", i), UID: types.UID(fmt.Sprintf("uid-%d", i))})
	}
	return out
}

// moving are n items whose releases are replaced.
func moving(n int) []Item {
	out := bundles(n)
	for i := range out {
		out[i].Replaced = []string{"release a/x becomes b/x", "release a/x becomes c/x"}
	}
	return out
}

var claim = DataObject{Kind: "PersistentVolumeClaim", Namespace: "pos", Name: "data", Cluster: "w/c1"}

func TestJudge(t *testing.T) {
	one := bundles(1)
	one[0].DataObjects = []DataObject{claim}
	mixed := bundles(4)
	mixed[2].DataObjects = []DataObject{{Kind: "CustomResourceDefinition", Name: "x.example", Cluster: "w/c1"}, {Kind: "Namespace", Name: "pos", Cluster: "w/c1"}, claim,
		{Kind: "PersistentVolumeClaim", Namespace: "pos", Name: "log", Cluster: "w/c2"}}
	parsed := func(text string) Budget {
		b, err := ParseBudget(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cases := map[string]struct {
		why     string
		removal Removal
		want    string // the summary where it is held
		list    string
	}{
		"Nothing":     {why: "nothing goes", removal: Removal{Unit: "bundle", Total: 50, Budget: BundleBudget}},
		"Fifth":       {why: "a fifth is within the budget", removal: Removal{Unit: "bundle", Items: bundles(10), Total: 50, Budget: BundleBudget}},
		"AboveFifth":  {why: "one more is not", removal: Removal{Unit: "bundle", Items: bundles(11), Total: 50, Budget: BundleBudget}, want: "would remove 11 of 50 bundles (budget 10)"},
		"RoundedDown": {why: "4 of 19 are more than a fifth", removal: Removal{Unit: "bundle", Items: bundles(4), Total: 19, Budget: BundleBudget}, want: "would remove 4 of 19 bundles (budget 3)"},
		"Three":       {why: "of few, three may go", removal: Removal{Unit: "bundle", Items: bundles(3), Total: 3, Budget: BundleBudget}},
		"FourOfFour":  {why: "but not four", removal: Removal{Unit: "bundle", Items: bundles(4), Total: 4, Budget: BundleBudget}, want: "would remove 4 of 4 bundles (budget 3)", list: "bundle b0, bundle b1, bundle b2, bundle b3"},
		"Deployments": {why: "of deployments it is a tenth", removal: Removal{Unit: "deployment", Items: bundles(41), Total: 400, Budget: DeploymentBudget}, want: "would remove 41 of 400 deployments (budget 40)"},
		"WithOthers":  {why: "what else the change removes counts", removal: Removal{Unit: "deployment", Items: bundles(3), Also: 38, Total: 400, Budget: DeploymentBudget}, want: "would remove 3 deployments, with others 41 of 400 (budget 40)"},
		"AlsoGone":    {why: "of the others some are gone already", removal: Removal{Unit: "deployment", Items: bundles(2), Also: 6, Total: 7, Budget: DeploymentBudget}, want: "would remove 2 deployments, with others 8 of 8 (budget 3)"},
		"OneAmong":    {why: "in singular", removal: Removal{Unit: "deployment", Items: bundles(1), Also: 3, Total: 4, Budget: DeploymentBudget}, want: "would remove 1 deployment, with others 4 of 4 (budget 3)"},
		"Precious":    {why: "one volume is too much", removal: Removal{Unit: "bundle", Items: one, Total: 50, Budget: BundleBudget}, want: "would remove 1 of 50 bundles with 1 PersistentVolumeClaim", list: "PersistentVolumeClaim pos/data on w/c1, bundle b0"},
		"Mixed": {why: "each kind is counted, what is worst comes first", removal: Removal{Unit: "bundle", Items: mixed, Total: 8, Budget: BundleBudget},
			want: "would remove 4 of 8 bundles (budget 3) with 2 PersistentVolumeClaims, 1 Namespace, 1 CustomResourceDefinition",
			list: "PersistentVolumeClaim pos/data on w/c1, PersistentVolumeClaim pos/log on w/c2, Namespace pos on w/c1, CustomResourceDefinition x.example on w/c1, bundle b0, bundle b1, bundle b2, bundle b3"},
		"Replaced": {why: "another release in the place of one is a removal", removal: Removal{Unit: "bundle", Items: moving(4), Total: 5, Budget: BundleBudget},
			want: "would replace the release of 4 of 5 bundles (budget 3)",
			list: "bundle b0: release a/x becomes b/x, bundle b0: release a/x becomes c/x, bundle b1: release a/x becomes b/x, bundle b1: release a/x becomes c/x, " +
				"bundle b2: release a/x becomes b/x, bundle b2: release a/x becomes c/x, bundle b3: release a/x becomes b/x, bundle b3: release a/x becomes c/x"},
		"ReplacedWithOthers": {why: "both count", removal: Removal{Unit: "bundle", Items: moving(1), Also: 3, Total: 5, Budget: BundleBudget},
			want: "would replace the release of 1 bundle, with others 4 of 5 (budget 3)"},
		"RemovedAndReplaced": {why: "one change does both", removal: Removal{Unit: "bundle", Items: append(bundles(2), moving(5)[2:]...), Total: 9, Budget: BundleBudget},
			want: "would remove 2 and replace the release of 3 of 9 bundles (budget 3)"},
		"WholeNamespace": {why: "a namespace counts with all that is in it", removal: Removal{Unit: "bundle", Total: 1, Budget: BundleBudget,
			Items: []Item{{Name: "b0", DataObjects: []DataObject{{Kind: "Namespace", Name: "pos", Cluster: "w/c1", Whole: true}}}}},
			want: "would remove 1 of 1 bundle with 1 Namespace", list: "Namespace pos with everything in it on w/c1, bundle b0"},
		"Off":      {why: "who has switched it off is not asked", removal: Removal{Unit: "bundle", Items: one, Total: 1, Budget: parsed("off")}},
		"Number":   {why: "a number is no share", removal: Removal{Unit: "bundle", Items: bundles(2), Total: 100, Budget: parsed("1")}, want: "would remove 2 of 100 bundles (budget 1)"},
		"Zero":     {why: "0 holds everything", removal: Removal{Unit: "bundle", Items: bundles(1), Total: 100, Budget: parsed("0")}, want: "would remove 1 of 100 bundles (budget 0)"},
		"Half":     {why: "a share of one's own", removal: Removal{Unit: "bundle", Items: bundles(25), Total: 50, Budget: parsed(" 50% ")}},
		"All":      {why: "100% is never too many, but a volume is", removal: Removal{Unit: "bundle", Items: append(bundles(9)[1:], one...), Total: 9, Budget: parsed("100%")}, want: "would remove 9 of 9 bundles with 1 PersistentVolumeClaim"},
		"Approved": {why: "a person has said so", removal: Removal{Unit: "bundle", Items: one, Total: 1, Budget: BundleBudget, Approved: Hash(Removal{Unit: "bundle", Items: one})}},
		"Other":    {why: "of another list", removal: Removal{Unit: "bundle", Items: one, Total: 1, Budget: BundleBudget, Approved: Hash(Removal{Unit: "bundle", Items: mixed})}, want: "would remove 1 of 1 bundle with 1 PersistentVolumeClaim"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := DecideRemoval(c.removal)
			got := ""
			if v.Held {
				got = v.Summary
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if diff := cmp.Diff(c.list, strings.Join(v.List, ", ")); c.list != "" && diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestParseBudget(t *testing.T) {
	for _, text := range []string{"", "%", "-1", "101%", "-5%", "1.5%", "none", "10 %", "Off"} {
		if _, err := ParseBudget(text); err == nil {
			t.Errorf("%q is no budget", text)
		}
	}
}

// An approval approves exactly the list that was shown, in whatever order it
// comes again, and no other.
func TestApprovalIsOfThisList(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 29))
		random := func() Removal {
			out := Removal{Unit: []string{"bundle", "deployment"}[r.IntN(2)], Total: 1 + r.IntN(6)}
			for i := range r.IntN(4) {
				item := Item{Name: fmt.Sprintf("b%d", i), UID: types.UID(fmt.Sprint(r.IntN(2)))}
				for range r.IntN(3) {
					item.DataObjects = append(item.DataObjects, DataObject{Kind: kindsWithData[r.IntN(3)], Name: fmt.Sprint(r.IntN(2)), Cluster: fmt.Sprintf("w/c%d", r.IntN(2))})
				}
				for range r.IntN(2) {
					item.Replaced = append(item.Replaced, fmt.Sprint("release ", r.IntN(2)))
				}
				out.Items = append(out.Items, item)
			}
			return out
		}
		shown, later := random(), random()
		if r.IntN(3) == 0 { // often enough the same, in another order
			later = Removal{Unit: shown.Unit, Total: 9, Items: slices.Clone(shown.Items)}
			r.Shuffle(len(later.Items), func(i, j int) { later.Items[i], later.Items[j] = later.Items[j], later.Items[i] })
			for i := range later.Items {
				things := slices.Clone(later.Items[i].DataObjects)
				slices.Reverse(things)
				later.Items[i].DataObjects = things
			}
		}
		later.Approved = Hash(shown)
		v := DecideRemoval(later)
		same := meaning(shown) == meaning(later)
		if v.Held && same || v.Approved && !same {
			t.Fatalf("seed %d: same=%v, held=%v, approved=%v\nshown %+v\nlater %+v", seed, same, v.Held, v.Approved, shown, later)
		}
		if v.Held && len(v.List) == 0 {
			t.Fatalf("seed %d: held without a list", seed)
		}
	}
}

// meaning writes out all that a removal removes.
func meaning(r Removal) string {
	var all []string
	for _, item := range r.Items {
		all = append(all, r.Unit+" "+item.Name+" "+string(item.UID))
		for _, thing := range item.DataObjects {
			all = append(all, item.Name+": "+thing.String())
		}
		for _, text := range item.Replaced {
			all = append(all, item.Name+" gives up "+text)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "\n")
}

// What is held is listed in a condition, with the command that approves it, and
// in full elsewhere; both are bounded.
func TestTexts(t *testing.T) {
	long := strings.Repeat("x", 63)
	var wide []Item
	for i := range 5000 {
		wide = append(wide, Item{Name: fmt.Sprintf("%s-%d", long, i), DataObjects: []DataObject{claim}})
	}
	cases := map[string]struct {
		items   []Item
		message string
	}{
		"Few": {bundles(4), "would remove 4 of 4 bundles (budget 3): bundle b0, bundle b1, bundle b2, bundle b3; to go on: fleet approve -n w repo/r 0123456789abcdef"},
		"Many": {bundles(400), "would remove 400 of 400 bundles (budget 80): bundle b0, bundle b1, bundle b10, bundle b100, bundle b101, bundle b102, bundle b103 and 393 more" +
			"; to go on: fleet approve -n w repo/r 0123456789abcdef"},
		"Long": {wide, "would remove 5000 of 5000 bundles (budget 1000) with 5000 PersistentVolumeClaims: PersistentVolumeClaim pos/data on w/c1 and 5000 more" +
			"; to go on: fleet approve -n w repo/r 0123456789abcdef"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			v := DecideRemoval(Removal{Unit: "bundle", Items: c.items, Total: len(c.items), Budget: BundleBudget})
			got := v.Message("fleet approve -n w repo/r 0123456789abcdef")
			if diff := cmp.Diff(c.message, got); diff != "" {
				t.Error(diff)
			}
			if n := utf8.RuneCountInString(got); n > condition.MessageLimit {
				t.Errorf("%d characters", n)
			}
			text := v.Text()
			if len(text) > 17<<10 {
				t.Errorf("%d bytes", len(text))
			}
			hash, summary, lines := ReadText(text)
			if hash != v.Hash || summary != v.Summary || len(lines) == 0 || len(lines) > 201 {
				t.Errorf("read %q, %q, %d lines", hash, summary, len(lines))
			}
			if last := lines[len(lines)-1]; len(c.items) > 200 && !strings.HasSuffix(last, " more") {
				t.Errorf("what is left out is not said: %q", last)
			}
		})
	}
	if tight := (Verdict{Summary: "would remove 4 of 4 bundles (budget 3)", List: []string{"bundle b0"}}).Message(strings.Repeat("y", 150)); strings.Contains(tight, "b0") {
		t.Errorf("the command goes before names: %q", tight)
	}
	if hash, _, lines := ReadText(""); hash != "" || lines != nil {
		t.Error("nothing is held")
	}
}

func TestPruneMark(t *testing.T) {
	b := func(name, uid, mark string) *fleet.Bundle {
		return &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Annotations: map[string]string{fleet.AnnotationPrune: mark}}}
	}
	two := []*fleet.Bundle{b("a", "1", ""), b("b", "2", "")}
	mark := PruneMark(two)
	if mark != PruneMark([]*fleet.Bundle{two[1], two[0]}) || mark == PruneMark(two[:1]) || mark == PruneMark([]*fleet.Bundle{two[0], b("b", "3", "")}) {
		t.Errorf("a mark is that of these Bundles in any order: %q", mark)
	}
	cases := map[string]struct {
		why  string
		mark string
		list []*fleet.Bundle
		want int
		all  bool
	}{
		"NotAsked":  {"marks without a request are none", "", []*fleet.Bundle{b("a", "1", mark)}, 0, true},
		"Whole":     {"both are marked", mark, []*fleet.Bundle{b("a", "1", mark), b("b", "2", mark), b("c", "3", "")}, 2, true},
		"Part":      {"a part is not taken for the whole", mark, []*fleet.Bundle{b("a", "1", mark), b("b", "2", "")}, 1, false},
		"OlderMark": {"what was asked before is not asked now", mark, []*fleet.Bundle{b("a", "1", "1-x"), b("b", "2", mark)}, 1, false},
		"Nonsense":  {"a user wrote it by hand", "yes", []*fleet.Bundle{b("a", "1", "yes")}, 0, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, all := MarkedBundles(c.mark, c.list)
			if len(got) != c.want || all != c.all {
				t.Errorf("%s: got %d, %v", c.why, len(got), all)
			}
		})
	}
	if PruneMark(nil) != "" {
		t.Error("nothing is marked")
	}
}

// An approval holds for the objects that a person has seen, and for no others.
func TestHashNamesEveryThing(t *testing.T) {
	claim := DataObject{Kind: "PersistentVolumeClaim", Namespace: "shop", Name: "data", Cluster: "w/c1"}
	removal := func(change func(*DataObject)) Removal {
		one := claim
		change(&one)
		return Removal{Unit: "bundle", Items: []Item{{Name: "shop", UID: "u", DataObjects: []DataObject{one}}}}
	}
	shown := Hash(removal(func(*DataObject) {}))
	for what, change := range map[string]func(*DataObject){
		"Kind":      func(one *DataObject) { one.Kind = "Namespace" },
		"Namespace": func(one *DataObject) { one.Namespace = "bank" },
		"Name":      func(one *DataObject) { one.Name = "logs" },
		"Cluster":   func(one *DataObject) { one.Cluster = "w/c2" },
		"Whole":     func(one *DataObject) { one.Whole = true },
	} {
		if Hash(removal(change)) == shown {
			t.Errorf("%s: the hash is that of another object", what)
		}
	}
}

// A budget that cannot be read hides no other one, and is reported.
func TestFirstBudget(t *testing.T) {
	cases := map[string]struct {
		own, shared string
		want        Budget
		faults      string
	}{
		"None":        {"", "", BundleBudget, ""},
		"Own":         {"15", "50%", Budget{count: 15, fixed: true}, ""},
		"Shared":      {"", "50%", Budget{percent: 50}, ""},
		"OwnWrong":    {"50pct", "50%", Budget{percent: 50}, "50pct"},
		"SharedWrong": {"15", "50pct", Budget{count: 15, fixed: true}, ""},
		"BothWrong":   {"half", "50pct", BundleBudget, "half 50pct"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := FirstBudget(BundleBudget, c.own, c.shared)
			if got != c.want || (err != nil) != (c.faults != "") {
				t.Errorf("got %+v, %v", got, err)
			}
			for _, text := range strings.Fields(c.faults) {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%v does not name %s", err, text)
				}
			}
		})
	}
}

// A GitRepo that has a budget of its own is not concerned by that of its workspace.
func TestSharedBudgetFault(t *testing.T) {
	const fault = `namespace shops: deletion budget "50pct": want a share such as 20%, a number, or off; it is not used, and the default counts: ` +
		`20% of the bundles of the GitRepo, 10% of the deployments of the workspace, at least 3`
	cases := map[string]struct{ own, shared, want string }{
		"None": {"", "", ""}, "Good": {"", "50%", ""}, "Wrong": {"", "50pct", fault}, "Own": {"15", "50pct", ""}, "BothWrong": {"half", "50pct", fault},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := SharedBudgetFault(c.own, "shops", c.shared); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
