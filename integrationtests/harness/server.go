package harness

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
)

// A Server is an API server that tests of a package share. It starts with the
// first of them; the zero Server is ready for use.
type Server struct {
	once    sync.Once
	cluster *cluster.Cluster
	folder  folder
	err     error
}

// Cluster is the control plane. prepare, where not nil, is called once, before
// any test has it. The test is skipped where Kubernetes is not built.
func (s *Server) Cluster(t testing.TB, name string, prepare func(*cluster.Cluster) error) *cluster.Cluster {
	t.Helper()
	binary := Kubernetes(t)
	s.once.Do(func() {
		if s.folder, s.err = newFolder(); s.err != nil {
			return
		}
		config := cluster.Config{Name: name, Dir: filepath.Join(s.folder.path, name), Binary: binary}
		if s.cluster, s.err = start(t.Context(), config); s.err == nil && prepare != nil {
			s.err = prepare(s.cluster)
		}
	})
	if s.err != nil {
		t.Fatalf("the shared API server did not start: %v", s.err)
	}
	return s.cluster
}

// Stop ends the API server, if one was started. It is for TestMain.
func (s *Server) Stop() {
	if s.cluster != nil {
		s.cluster.Stop()
	}
	if s.folder.path != "" {
		s.folder.remove()
	}
}
