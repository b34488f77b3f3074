package store

// Named returns the record of a deployment by name only; of records of several
// managers, the first in order.
func (s *Store) Named(name string) (Record, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out Record
	found := false
	for key, h := range s.records {
		if key.Name == name && (!found || key.Manager < out.Key.Manager) {
			out, found = h.record, true
		}
	}
	return out, found
}
