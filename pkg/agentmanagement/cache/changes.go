package cache

// Either returns changed, or old if changed is nil: the object that a deletion reports.
func Either[T any](old, changed *T) *T {
	if changed != nil {
		return changed
	}
	return old
}

// IfGone returns a handler that calls f for deleted objects.
func IfGone[T any](f func(*T)) func(old, changed *T) {
	return func(old, changed *T) {
		if changed == nil {
			f(old)
		}
	}
}

// IfNew returns a handler that calls f for created objects.
func IfNew[T any](f func(*T)) func(old, changed *T) {
	return func(old, changed *T) {
		if old == nil {
			f(changed)
		}
	}
}

// IfNewOrGone returns a handler that calls f for created and deleted objects.
func IfNewOrGone[T any](f func(*T)) func(old, changed *T) {
	return func(old, changed *T) {
		if old == nil || changed == nil {
			f(Either(old, changed))
		}
	}
}
