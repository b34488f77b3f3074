package withdrawal

import (
	"strings"
	"testing"
	"time"
)

// day is a time of these tests.
func day(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }

func stands(name string, from int) Lifetime { return Lifetime{Name: name, Created: day(from)} }

func ends(name string, from, to int) Lifetime {
	return Lifetime{Name: name, Created: day(from), Deleted: day(to)}
}

func TestUnordered(t *testing.T) {
	cases := map[string]struct {
		why    string
		origin Origin
		want   string
	}{
		"ByHand": {"a person has deleted the Bundle",
			Origin{stands("n", 1), stands("bundles", 1), stands("gitrepos", 1)}, ""},
		"WithoutOwner": {"a Bundle of no repository does not depend on that kind",
			Origin{Namespace: stands("n", 1), Kind: stands("bundles", 1)}, ""},
		"Namespace": {"the namespace takes all Bundles along",
			Origin{ends("n", 1, 4), stands("bundles", 1), stands("gitrepos", 1)}, "n is being deleted"},
		"NamespaceLater": {"it is not known who has deleted the Bundle before its namespace",
			Origin{ends("n", 1, 9), stands("bundles", 1), stands("gitrepos", 1)}, "n is being deleted"},
		"NamespaceGone": {"finalizers were removed by hand",
			Origin{Lifetime{Name: "n", Absent: true}, stands("bundles", 1), stands("gitrepos", 1)}, "n is gone"},
		"Kind": {"the kind takes all Bundles along",
			Origin{stands("n", 1), ends("bundles", 1, 4), stands("gitrepos", 1)}, "bundles is being deleted"},
		"OwnerKind": {"GitRepos that go with their kind delete their Bundles",
			Origin{stands("n", 1), stands("bundles", 1), ends("gitrepos", 1, 4)}, "gitrepos is being deleted"},
		"OwnerKindGone": {"the manager was down until the kind was gone",
			Origin{stands("n", 1), stands("bundles", 1), Lifetime{Name: "gitrepos", Absent: true}}, "gitrepos is gone"},
		"OwnerKindAgain": {"the manager was down until the kind was there again",
			Origin{stands("n", 1), stands("bundles", 1), stands("gitrepos", 6)}, "gitrepos was deleted and made again"},
		"OwnerKindSameSecond": {"a resolution of a second is not enough to decide",
			Origin{stands("n", 1), stands("bundles", 1), stands("gitrepos", 5)}, "gitrepos was deleted and made again"},
		"AfterOwnerKindAgain": {"a person has deleted the Bundle since",
			Origin{stands("n", 1), stands("bundles", 1), stands("gitrepos", 4)}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.origin.Unordered(day(5)); got != c.want {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
		})
	}
}

func TestLost(t *testing.T) {
	cases := map[string]struct {
		why    string
		origin Origin
		want   string
	}{
		"Both":           {"both are older than the deployment", Origin{Namespace: stands("n", 1), Kind: stands("k", 1)}, ""},
		"NamespaceEnds":  {"it has taken the Bundle along", Origin{Namespace: ends("n", 1, 6), Kind: stands("k", 1)}, "n is being deleted"},
		"NamespaceAgain": {"the earlier one has", Origin{Namespace: stands("n", 6), Kind: stands("k", 1)}, "n was deleted and made again"},
		"KindGone":       {"it has", Origin{Namespace: stands("n", 1), Kind: Lifetime{Name: "k", Absent: true}}, "k is gone"},
		"KindAgain":      {"the earlier one has", Origin{Namespace: stands("n", 1), Kind: stands("k", 6)}, "k was deleted and made again"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.origin.LostText(day(5)); got != c.want {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
		})
	}
}

func TestMisled(t *testing.T) {
	cases := map[string]struct {
		why  string
		p    Placement
		want string
	}{
		"Change":        {"labels, or a group, were changed", Placement{Namespace: stands("n", 1), Groups: stands("g", 1), Missing: true}, ""},
		"NoGroups":      {"groups do not matter here", Placement{Namespace: stands("n", 1), Missing: true}, ""},
		"Namespace":     {"groups go before Bundles", Placement{Namespace: ends("n", 1, 5)}, "n is being deleted"},
		"GroupsEnd":     {"no group is there for want of the kind", Placement{Namespace: stands("n", 1), Groups: ends("g", 1, 5)}, "g is being deleted"},
		"GroupsGone":    {"the same", Placement{Namespace: stands("n", 1), Groups: Lifetime{Name: "g", Absent: true}}, "g is gone"},
		"GroupsAgain":   {"the group was not made again yet", Placement{Namespace: stands("n", 1), Groups: stands("g", 6), Missing: true}, "g was deleted and made again"},
		"GroupThere":    {"the group is there again, and says otherwise", Placement{Namespace: stands("n", 1), Groups: stands("g", 6)}, ""},
		"MappingsGone":  {"the mapping went with its kind", Placement{Namespace: stands("n", 1), Mappings: Lifetime{Name: "m", Absent: true}}, "m is gone"},
		"MappingsAgain": {"it was not made again yet", Placement{Namespace: stands("n", 1), Mappings: stands("m", 6)}, "m was deleted and made again"},
		"MappingEdited": {"a person has", Placement{Namespace: stands("n", 1), Mappings: stands("m", 1)}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.p.MisledText(day(5)); got != c.want {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
		})
	}
}

func TestJudgeUnordered(t *testing.T) {
	r := Removal{Unit: "bundle", Items: []Item{{Name: "web", UID: "1"}}, Total: 1000, Budget: Budget{off: true}}
	v := DecideUnordered(r, "it rains")
	if !v.Held || v.Summary != "would remove 1 of 1000 bundles: it rains" {
		t.Errorf("no budget lets go what was not ordered: %+v", v)
	}
	r.Approved = v.Hash
	if v := DecideUnordered(r, "it rains"); v.Held || !v.Approved {
		t.Errorf("a person has approved this list: %+v", v)
	}
	r.Items = append(r.Items, Item{Name: "db", UID: "2"})
	if v := DecideUnordered(r, "it rains"); !v.Held {
		t.Errorf("this list is another one: %+v", v)
	}
	r.Items = nil
	if v := DecideUnordered(r, "it rains"); v.Held || v.Approved {
		t.Errorf("nothing is removed: %+v", v)
	}
}

// The command is in the message whatever else is: a person copies it.
func TestMessageHoldsTheCommand(t *testing.T) {
	r := Removal{Unit: "bundle", Items: []Item{{Name: "web", UID: "1"}}, Total: 1}
	command := "fleet approve workspace/" + strings.Repeat("w", 63) + " 0123456789abcdef, or --keep"
	for _, why := range []string{"it rains", strings.Repeat("because ", 40)} {
		got := DecideUnordered(r, why).Message(command)
		if !strings.HasSuffix(got, "; to go on: "+command) || !strings.HasPrefix(got, "would remove 1 of 1 bundle") {
			t.Errorf("got %q", got)
		}
	}
}
