package store

import "testing"

func TestNamed(t *testing.T) {
	s := &Store{records: map[Key]held{}}
	for _, k := range []Key{{"n", "web"}, {"m", "web"}, {"m", "db"}} {
		s.records[k] = held{record: Record{Key: k}}
	}
	if got, ok := s.Named("web"); !ok || got.Key != (Key{"m", "web"}) {
		t.Errorf("want the first in order, got %v, %v", got.Key, ok)
	}
	if got, ok := s.Named("other"); ok {
		t.Errorf("want none, got %v", got.Key)
	}
}
