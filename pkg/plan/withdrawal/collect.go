package withdrawal

import "time"

// An Orphan is a deployment that runs on a cluster and that the manager does not
// have any more, without having ordered to remove it.
type Orphan struct {
	// Grace is for how long it must have been missing; 0: orphans are kept.
	Grace time.Duration
	// Missing is for how long every list of the manager lacked it, without a gap
	// in which the manager was away.
	Missing time.Duration
	// Orders reports that the manager gives orders, and so would have given one.
	Orders bool
	// Own reports that this very manager, in its present epoch, made it.
	Own bool
	// Restored reports that the manager has become older than it was.
	Restored bool
	// Confirmed reports that a user has confirmed that what the manager lacks now is not
	// wanted.
	Confirmed bool
}

// Collect reports whether an orphan is to be uninstalled, and if not, what it is
// kept for.
func Collect(o Orphan) (collect bool, reason string) {
	switch {
	case o.Grace <= 0:
		return false, "orphans are kept"
	case !o.Orders:
		return false, "the manager does not say who it is"
	case o.Missing < o.Grace:
		return false, "it is not missing for long enough"
	case o.Confirmed:
		return true, "a person has confirmed that it is not wanted"
	case !o.Own:
		return false, "another manager made it, or this one before it was copied or restored: a person must confirm that it is not wanted"
	case o.Restored:
		return false, "the manager was restored from a backup: a person must confirm that it is not wanted"
	}
	return true, "the manager has not had it for " + o.Grace.String()
}
