package cache

// Either is the one of two that is there, the later before the earlier.
func Either[T any](old, changed *T) *T {
	if changed != nil {
		return changed
	}
	return old
}

// IfGone calls f for objects that are deleted.
func IfGone[T any](f func(*T)) func(old, changed *T) {
	return func(old, changed *T) {
		if changed == nil {
			f(old)
		}
	}
}

// IfNew calls f for objects that come.
func IfNew[T any](f func(*T)) func(old, changed *T) {
	return func(old, changed *T) {
		if old == nil {
			f(changed)
		}
	}
}

// IfNewOrGone calls f for objects that come or go, not for those that change.
func IfNewOrGone[T any](f func(*T)) func(old, changed *T) {
	return func(old, changed *T) {
		if old == nil || changed == nil {
			f(Either(old, changed))
		}
	}
}
