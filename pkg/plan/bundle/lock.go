package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	sigyaml "sigs.k8s.io/yaml"
)

// lockTime stands in Chart.lock for the time it was made. Helm writes the time,
// and so would make another bundle of the same files every time.
const lockTime = "1970-01-01T00:00:00Z"

// A dependency is one entry in Chart.yaml. Names and order of the fields are
// Helm's (pkg/chart.Dependency): the digest in Chart.lock is made of them.
type dependency struct {
	Name         string   `json:"name"`
	Version      string   `json:"version,omitempty"`
	Repository   string   `json:"repository"`
	Condition    string   `json:"condition,omitempty"`
	Tags         []string `json:"tags,omitempty"`
	Enabled      bool     `json:"enabled,omitempty"`
	ImportValues []any    `json:"import-values,omitempty"`
	Alias        string   `json:"alias,omitempty"`
}

// A lock is a Chart.lock.
type lock struct {
	Dependencies []*dependency `json:"dependencies"`
	Digest       string        `json:"digest"`
	Generated    string        `json:"generated"`
}

// newLock is the Chart.lock of dependencies and what was taken for them.
func newLock(wanted, taken []*dependency) (lock, error) {
	raw, err := json.Marshal([2][]*dependency{wanted, taken})
	if err != nil {
		return lock{}, err
	}
	sum := sha256.Sum256(raw)
	return lock{Dependencies: taken, Digest: "sha256:" + hex.EncodeToString(sum[:]), Generated: lockTime}, nil
}

func (l lock) encode() ([]byte, error) { return sigyaml.Marshal(l) }
