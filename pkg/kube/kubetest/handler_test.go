package kubetest_test

import (
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

func TestConformRights(t *testing.T) {
	s := kubetest.New(t)
	token := s.Guard("admin")
	listening := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.Close() // ends the watches, which the listener waits for
		listening.Close()
	})
	kubetest.ConformRights(t, &rest.Config{Host: listening.URL, BearerToken: token, QPS: -1}, func() {
		s.FillAccountTokens()
		s.AggregateRoles()
	})
}
