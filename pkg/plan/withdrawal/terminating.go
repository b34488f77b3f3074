package withdrawal

import "time"

// A Lifetime is from when to when something exists that other objects need: their
// namespace, or their kind, which is a CustomResourceDefinition.
type Lifetime struct {
	// Name is in words: `namespace "fleet-default"`.
	Name    string
	Created time.Time
	// Deleted is zero while it is not being deleted.
	Deleted time.Time
	// Absent is true where there is none.
	Absent bool
}

// EndText says in words that it is being deleted or gone; empty where it stays.
// The zero Lifetime is of nothing that objects need, and stays.
func (l Lifetime) EndText() string {
	switch {
	case l.Absent:
		return l.Name + " is gone"
	case !l.Deleted.IsZero():
		return l.Name + " is being deleted"
	}
	return ""
}

// Replaced says in words that what existed at a time is gone and that this one was
// made later; empty where this one existed then. API servers count in seconds: what
// is of the same second may have been replaced.
func (l Lifetime) Replaced(at time.Time) string {
	if l.Name == "" || l.Absent || at.After(l.Created) {
		return ""
	}
	return l.Name + " was deleted and made again"
}

// An Origin is what has to exist for a Bundle to exist.
type Origin struct {
	Namespace Lifetime // of the Bundle
	Kind      Lifetime // Bundles
	Owner     Lifetime // the kind of the object that the Bundle was made for; zero where it has none
}

// Unordered says in words why the deletion of a Bundle at a time is no order to
// remove what it deployed: it goes with its namespace, with its kind, or with the
// kind of its owner. It is empty where a person, or its repository, has ordered it.
func (o Origin) Unordered(deleted time.Time) string {
	for _, l := range []Lifetime{o.Namespace, o.Kind, o.Owner} {
		if why := l.EndText(); why != "" {
			return why
		}
	}
	return o.Owner.Replaced(deleted)
}

// LostText says in words that the Bundle of a deployment that was made at a time is gone
// because its namespace or its kind was deleted. It is empty where both exist since
// before the deployment.
func (o Origin) LostText(made time.Time) string {
	for _, l := range []Lifetime{o.Namespace, o.Kind} {
		if why := l.EndText(); why != "" {
			return why
		}
		if why := l.Replaced(made); why != "" {
			return why
		}
	}
	return ""
}

// A Placement is what decides to which clusters a Bundle goes, beside the Clusters
// and the Bundle themselves.
type Placement struct {
	Namespace Lifetime // of the Bundle
	Groups    Lifetime // the kind ClusterGroup; zero where no target names or selects a group
	// Missing is true where a target names a group that is not there, or selects none.
	Missing  bool
	Mappings Lifetime // the kind BundleNamespaceMapping; zero for clusters of the Bundle's namespace
}

// MisledText says in words why targets that do not match a cluster any more are no order
// to remove a deployment that was made at a time: what decides about targets was
// deleted with its namespace or its kind.
func (p Placement) MisledText(made time.Time) string {
	for _, l := range []Lifetime{p.Namespace, p.Groups, p.Mappings} {
		if why := l.EndText(); why != "" {
			return why
		}
	}
	if why := p.Groups.Replaced(made); p.Missing && why != "" {
		return why
	}
	return p.Mappings.Replaced(made)
}

// DecideUnordered decides about a removal without an order: it is held, however
// little it is and whatever the budget, until exactly this list is approved. why says
// what was deleted instead.
func DecideUnordered(r Removal, why string) Verdict {
	if len(r.Items) == 0 {
		return Verdict{}
	}
	v := Verdict{Hash: Hash(r), Summary: r.summary(false) + ": " + why, List: r.list()}
	v.Approved = r.Approved == v.Hash
	v.Held = !v.Approved
	return v
}
