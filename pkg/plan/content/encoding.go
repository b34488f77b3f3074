package content

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Compress packs raw with gzip. The same bytes always give the same result: no
// name and no time is stored.
func Compress(raw []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(raw)
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // memory takes every write
	}
	return out.Bytes()
}

// Decompress unpacks gzip. It reads at most maxBytes and fails with ErrTooLarge
// if there are more.
func Decompress(packed []byte, maxBytes int64) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if n > maxBytes {
		return nil, fmt.Errorf("decompress: %w: more than %d bytes", ErrTooLarge, maxBytes)
	}
	return out.Bytes(), nil
}

// Resource makes a file part of a bundle. Data that is no valid text is always
// stored compressed, other data if compress is set. It fails with ErrTooLarge
// if ResourceBytes would not return the data.
func Resource(name string, data []byte, compress bool) (fleet.BundleResource, error) {
	if len(data) > MaxBytes {
		return fleet.BundleResource{}, fmt.Errorf("resource %q: %w: %d bytes", name, ErrTooLarge, len(data))
	}
	if !compress && utf8.Valid(data) {
		return fleet.BundleResource{Name: name, Content: string(data)}, nil
	}
	return fleet.BundleResource{
		Name:     name,
		Content:  base64.StdEncoding.EncodeToString(Compress(data)),
		Encoding: fleet.EncodingBase64Gzip,
	}, nil
}

// ResourceBytes returns the data of a file of a bundle, at most MaxBytes.
func ResourceBytes(r fleet.BundleResource) ([]byte, error) {
	data, err := resourceBytes(r)
	if err != nil {
		return nil, fmt.Errorf("resource %q: %w", r.Name, err)
	}
	return data, nil
}

func resourceBytes(r fleet.BundleResource) ([]byte, error) {
	switch r.Encoding {
	case fleet.EncodingPlain:
		return []byte(r.Content), nil
	case fleet.EncodingBase64:
		return base64.StdEncoding.DecodeString(r.Content)
	case fleet.EncodingBase64Gzip:
		packed, err := base64.StdEncoding.DecodeString(r.Content)
		if err != nil {
			return nil, err
		}
		return Decompress(packed, MaxBytes)
	}
	return nil, fmt.Errorf("unknown encoding %q", r.Encoding)
}
