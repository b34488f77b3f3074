package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/provenance"
)

// helmDigest is the digest that Helm itself makes.
func helmDigest(t *testing.T, wanted, taken []*dependency) string {
	t.Helper()
	convert := func(list []*dependency) []*chart.Dependency {
		raw, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		var out []*chart.Dependency
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	raw, err := json.Marshal([2][]*chart.Dependency{convert(wanted), convert(taken)})
	if err != nil {
		t.Fatal(err)
	}
	digest, err := provenance.Digest(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return "sha256:" + digest
}

// archived are the names in a tgz.
func archived(t *testing.T, data []byte) []string {
	t.Helper()
	zip, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(zip)
	var names []string
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}
