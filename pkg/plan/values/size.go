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

// A valueSize is how large values are when they are printed: a shared value is measured each
// time it occurs.
type valueSize struct {
	bytes  int
	values int
	deep   bool // nested deeper than maxNesting: it may contain itself
}

// sizeOf measures values. It stops above limit bytes: what it returns then is
// larger than limit.
func sizeOf(limit int, list ...any) valueSize {
	var s valueSize
	for _, v := range list {
		if !s.addValue(v, limit, 0) {
			break
		}
	}
	return s
}

// addValue reports whether measuring goes on.
func (s *valueSize) addValue(v any, limit, depth int) bool {
	s.values++
	s.bytes += valueBytes
	switch t := v.(type) {
	case nil, bool, int, int64, float64, time.Time:
	case string:
		s.bytes += len(t)
	case []any:
		return s.enterLevel(depth) && s.addEach(len(t), limit, func(i int) bool { return s.addValue(t[i], limit, depth+1) })
	case map[string]any:
		if !s.enterLevel(depth) {
			return false
		}
		for key, value := range t {
			s.bytes += entryBytes + len(key)
			if !s.addValue(value, limit, depth+1) {
				return false
			}
		}
	case reflect.Value:
		return s.addReflected(t, limit, depth)
	default:
		return s.addReflected(reflect.ValueOf(v), limit, depth)
	}
	return s.bytes <= limit
}

// addReflected measures a value of a type that add does not know.
func (s *valueSize) addReflected(v reflect.Value, limit, depth int) bool {
	switch v.Kind() {
	case reflect.String:
		s.bytes += v.Len()
	case reflect.Slice, reflect.Array:
		return s.enterLevel(depth) && s.addEach(v.Len(), limit, func(i int) bool { return s.addValue(v.Index(i), limit, depth+1) })
	case reflect.Map:
		if !s.enterLevel(depth) {
			return false
		}
		for entry := v.MapRange(); entry.Next(); {
			s.bytes += entryBytes
			if !s.addValue(entry.Key(), limit, depth+1) || !s.addValue(entry.Value(), limit, depth+1) {
				return false
			}
		}
	case reflect.Struct:
		return s.enterLevel(depth) && s.addEach(v.NumField(), limit, func(i int) bool { return s.addValue(v.Field(i), limit, depth+1) })
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || s.enterLevel(depth) && s.addValue(v.Elem(), limit, depth+1)
	}
	return s.bytes <= limit
}

func (s *valueSize) enterLevel(depth int) bool {
	s.deep = s.deep || depth >= maxNesting
	return !s.deep
}

func (s *valueSize) addEach(n, limit int, add func(int) bool) bool {
	for i := range n {
		if !add(i) {
			return false
		}
	}
	return s.bytes <= limit
}
