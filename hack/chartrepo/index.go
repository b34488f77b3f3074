package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/repo"
)

// indexFile is the name that Helm and Rancher look for.
const indexFile = "index.yaml"

// writeIndex writes the index of all packages in a folder. What the last index
// says about packages that are as they were, when they were made above all,
// stays.
func writeIndex(dir, url string, at time.Time) error {
	last, err := repo.LoadIndexFile(filepath.Join(dir, indexFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the last index: %w", err)
	}
	index, err := repo.IndexDirectory(dir, strings.TrimSuffix(url, "/"))
	if err != nil {
		return fmt.Errorf("read the packages: %w", err)
	}
	index.Generated = at
	for name, versions := range index.Entries {
		for _, v := range versions {
			v.Created = at
			if last == nil || !last.Has(name, v.Version) {
				continue
			}
			if old, err := last.Get(name, v.Version); err == nil && old.Version == v.Version && old.Digest == v.Digest {
				v.Created = old.Created
			}
		}
	}
	index.SortEntries()
	return index.WriteFile(filepath.Join(dir, indexFile), 0o644)
}
