package harness

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
)

// sharedHub is the real control plane that the tests of this process share. It starts with
// the first test that asks for it.
var sharedHub struct {
	once    sync.Once
	cluster *cluster.Cluster
	folder  folder
	err     error
}

// SharedHub is NewHub on one real control plane for all tests of a package that ask for it:
// to start one takes more processor time than most tests. A test uses namespaces, and names
// of what is in no namespace, of its own. StopSharedHub stops the control plane.
func SharedHub(t testing.TB) *Hub {
	t.Helper()
	binary := Kubernetes(t)
	var hub *Hub
	sharedHub.once.Do(func() {
		if sharedHub.folder, sharedHub.err = newFolder(); sharedHub.err != nil {
			return
		}
		dir := filepath.Join(sharedHub.folder.path, "shared")
		if sharedHub.cluster, sharedHub.err = start(t.Context(), cluster.Config{Name: "shared", Dir: dir, Binary: binary}); sharedHub.err == nil {
			hub = NewHub(t, sharedHub.cluster)
		}
	})
	if sharedHub.err != nil {
		t.Fatalf("the shared control plane did not start: %v", sharedHub.err)
	}
	if hub == nil {
		hub = ConnectHub(t, sharedHub.cluster)
	}
	return hub
}

// StopSharedHub stops the control plane of SharedHub, if there is one. Parallel calls it
// after the tests; what runs tests without Parallel calls it.
func StopSharedHub() {
	if sharedHub.cluster != nil {
		sharedHub.cluster.Stop()
	}
	if sharedHub.folder.path != "" {
		sharedHub.folder.remove()
	}
}
