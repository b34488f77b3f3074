package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckSpace(t *testing.T) {
	list := []folder{
		{what: "the folder for temporary files", path: "/tmp", needBytes: 3 << 30, remedy: "delete what is old"},
		{what: "Go's build cache", path: "/cache", needBytes: 5 << 29, remedy: "run go clean -cache"},
	}
	cases := map[string]struct {
		why  string
		free map[string]int64
		want string
	}{
		"Enough": {why: "exactly what is needed is enough", free: map[string]int64{"/tmp": 3 << 30, "/cache": 5 << 29}},
		"Temporary": {
			why: "the user learns how much is free, how much is needed and what to delete", free: map[string]int64{"/tmp": 3<<30 - 1<<28, "/cache": 9 << 30},
			want: "the folder for temporary files /tmp has 2.8 GiB free, the tests need 3.0 GiB: delete what is old",
		},
		"Cache": {
			why: "each folder may be on a disk of its own", free: map[string]int64{"/tmp": 9 << 30, "/cache": 1 << 30},
			want: "Go's build cache /cache has 1.0 GiB free, the tests need 2.5 GiB: run go clean -cache",
		},
		"Unknown": {why: "a system that does not say how much is free must not keep tests from running", free: nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := checkSpace(list, func(path string) (int64, bool) { n, ok := c.free[path]; return n, ok }); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// The folders are those of this machine: what is measured exists, or is made by go. A
// run that builds Kubernetes needs more.
func TestFolders(t *testing.T) {
	with, err := folders(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	without, err := folders(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if with[0].path != os.TempDir() || with[1].path == "" {
		t.Errorf("folders %q and %q", with[0].path, with[1].path)
	}
	if with[0] != without[0] || with[1].needBytes <= without[1].needBytes {
		t.Errorf("with Kubernetes %+v, without %+v", with, without)
	}
}
