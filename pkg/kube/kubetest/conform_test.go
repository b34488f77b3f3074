package kubetest_test

import (
	"testing"

	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// The server in memory does what real API servers do; integrationtests runs the same
// on a real one.
func TestConform(t *testing.T) {
	s := kubetest.New(t)
	kubetest.Conform(t, s.REST(), func() {
		s.FillAccountTokens()
		s.CollectGarbage()
	})
}
