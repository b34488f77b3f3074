package docs

import (
	"os"
	"path/filepath"
	"testing"
)

// page is the text of a page below docs.
func page(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
