package kubetest_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

func TestConformRights(t *testing.T) {
	s := kubetest.New(t)
	token := s.Guard()
	listening := httptest.NewServer(s.Handler())
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		s.Close() // ends the watches, which the listener waits for
		listening.Close()
	})
	go func() {
		for ctx.Err() == nil {
			s.FillAccountTokens()
			time.Sleep(10 * time.Millisecond) // how often the token controller looks
		}
	}()
	kubetest.ConformRights(t, &rest.Config{Host: listening.URL, BearerToken: token, QPS: -1})
}
