package harness

import (
	"os"
	"testing"

	"golang.org/x/sync/errgroup"
)

// Packages that start at once do not take each other's folders for those of processes
// that were killed.
func TestFoldersAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var all errgroup.Group
	for range 8 {
		all.Go(func() error {
			for range 100 {
				f, err := newFolder()
				if err != nil {
					return err
				}
				if err := os.Mkdir(f.path+"/c1", 0o700); err != nil {
					return err
				}
				f.remove()
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
}
