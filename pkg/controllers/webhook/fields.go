package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// fields names the fields of a payload that are read; the innermost ones have no fields.
// The same fields are read of each element of a list.
type fields map[string]fields

// Limits of what is read of a payload. Hosts announce a few branches in one push.
const (
	maxElements    = 100
	maxScalarBytes = 4 << 10
)

var errTooMuch = errors.New("the payload has too many branches, or too long texts")

// pick returns the JSON value raw with nothing but these fields. The types of the library
// have many more, and a small payload could make them fill the memory.
func (f fields) pick(raw json.RawMessage) (any, error) {
	raw = bytes.TrimSpace(raw)
	switch { // raw is not empty
	case len(f) > 0 && raw[0] == '{':
		return f.pickObject(raw)
	case len(f) > 0 && raw[0] == '[':
		return f.pickList(raw)
	case len(f) > 0, raw[0] == '{', raw[0] == '[':
		return nil, nil //nolint:nilnil // a value of another kind than expected counts as null
	case len(raw) > maxScalarBytes:
		return nil, errTooMuch
	}
	return raw, nil
}

func (f fields) pickObject(raw json.RawMessage) (any, error) {
	picked := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		name, ok := key.(string)
		sub, wanted := f[name]
		if !ok || !wanted {
			continue
		}
		if picked[name], err = sub.pick(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	_, err := dec.Token() // an object that does not end is an error
	return picked, err
}

func (f fields) pickList(raw json.RawMessage) (any, error) {
	picked := []any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	for dec.More() {
		if len(picked) == maxElements {
			return nil, errTooMuch
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		element, err := f.pick(value)
		if err != nil {
			return nil, err
		}
		picked = append(picked, element)
	}
	_, err := dec.Token()
	return picked, err
}

// decode reads these fields of a payload into the type T of the library.
func decode[T any](f fields, body []byte) (T, error) {
	var into T
	if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return into, errors.New("the payload is no JSON object")
	}
	picked, err := f.pick(body)
	if err != nil {
		return into, err
	}
	raw, err := json.Marshal(picked)
	if err != nil {
		return into, err
	}
	return into, json.Unmarshal(raw, &into)
}
