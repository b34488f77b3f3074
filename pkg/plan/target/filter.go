package target

// A Filter reports which clusters one block of criteria selects.
type Filter struct{ b block }

// NewFilter compiles criteria. kind says in errors what the block is ("partition"),
// index where it stands in its list. A selector that cannot be read is a
// permanent fault.
func NewFilter(c Criteria, kind string, index int) (Filter, error) {
	b, err := compile(c, kind, index)
	return Filter{b: b}, err
}

// Selects reports whether all criteria hold for the cluster through one of its
// groups.
func (f Filter) Selects(c *Cluster) bool { return f.b.matchesAny(c) }

// Refusal says what the criteria want, and what a cluster has that they do not
// select: "wants env=prod, c1 has env=dev".
func (f Filter) Refusal(c *Cluster) string { return f.b.refusal(c) }
