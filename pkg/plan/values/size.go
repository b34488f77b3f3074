package values

import (
	"reflect"
	"time"
)

const (
	// valueBytes is the size of each value besides its text: what it takes in a list.
	valueBytes = 16
	// entryBytes is the size of an entry of a map besides its key and value.
	entryBytes = 64
	// maxNesting is how deep the lists and maps of a template may be nested.
	maxNesting = 64
)

// A size is how large values are when they are printed: a shared value is measured each
// time it occurs.
type size struct {
	bytes  int
	values int
	deep   bool // nested deeper than maxNesting: it may contain itself
}

// sizeOf measures values. It stops above limit bytes: what it returns then is
// larger than limit.
func sizeOf(limit int, list ...any) size {
	var s size
	for _, v := range list {
		if !s.add(v, limit, 0) {
			break
		}
	}
	return s
}

// add reports whether measuring goes on.
func (s *size) add(v any, limit, depth int) bool {
	s.values++
	s.bytes += valueBytes
	switch t := v.(type) {
	case nil, bool, int, int64, float64, time.Time:
	case string:
		s.bytes += len(t)
	case []any:
		return s.enter(depth) && s.each(len(t), limit, func(i int) bool { return s.add(t[i], limit, depth+1) })
	case map[string]any:
		if !s.enter(depth) {
			return false
		}
		for key, value := range t {
			s.bytes += entryBytes + len(key)
			if !s.add(value, limit, depth+1) {
				return false
			}
		}
	case reflect.Value:
		return s.reflected(t, limit, depth)
	default:
		return s.reflected(reflect.ValueOf(v), limit, depth)
	}
	return s.bytes <= limit
}

// reflected measures a value of a type that add does not know.
func (s *size) reflected(v reflect.Value, limit, depth int) bool {
	switch v.Kind() {
	case reflect.String:
		s.bytes += v.Len()
	case reflect.Slice, reflect.Array:
		return s.enter(depth) && s.each(v.Len(), limit, func(i int) bool { return s.add(v.Index(i), limit, depth+1) })
	case reflect.Map:
		if !s.enter(depth) {
			return false
		}
		for entry := v.MapRange(); entry.Next(); {
			s.bytes += entryBytes
			if !s.add(entry.Key(), limit, depth+1) || !s.add(entry.Value(), limit, depth+1) {
				return false
			}
		}
	case reflect.Struct:
		return s.enter(depth) && s.each(v.NumField(), limit, func(i int) bool { return s.add(v.Field(i), limit, depth+1) })
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || s.enter(depth) && s.add(v.Elem(), limit, depth+1)
	}
	return s.bytes <= limit
}

func (s *size) enter(depth int) bool {
	s.deep = s.deep || depth >= maxNesting
	return !s.deep
}

func (s *size) each(n, limit int, add func(int) bool) bool {
	for i := range n {
		if !add(i) {
			return false
		}
	}
	return s.bytes <= limit
}
