package workspace

import (
	"io"
	"testing"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// A Namespace is made without the labels that limit pods where Rancher's webhook or RBAC
// does not let the manager set them. A credential that is refused says nothing of labels.
func TestLabelsThatAreRefused(t *testing.T) {
	const label = "pod-security.kubernetes.io/enforce"
	named := kubetest.Match{Resource: "namespaces", Name: "team"}
	for name, c := range map[string]struct {
		fault       func(*kubetest.Server) *kubetest.Fault
		made, label bool
	}{
		"Denied":    {func(s *kubetest.Server) *kubetest.Fault { return s.Deny(1, named) }, true, false},
		"Forbidden": {func(s *kubetest.Server) *kubetest.Fault { return s.Forbid(1, named) }, true, false},
		"Refused":   {func(s *kubetest.Server) *kubetest.Fault { return s.Refuse(1, named) }, false, false},
		"Taken":     {func(*kubetest.Server) *kubetest.Fault { return nil }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := kubetest.New(t)
			client, log := s.Connect("test"), logrus.New()
			log.SetOutput(io.Discard)
			l := &namespaceLoop{
				eventReporter: eventReporter{log: logrus.NewEntry(log), events: kube.NewRecorder(client, process)},
				namespaces:    kube.StoreOf[*corev1.Namespace](client),
			}
			c.fault(s)
			want := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Labels: map[string]string{label: "baseline"}}}
			err := l.applyNamespace(t.Context(), &management.FleetWorkspace{ObjectMeta: metav1.ObjectMeta{Name: "team", UID: "u"}}, want)
			if (err == nil) != c.made || kube.IsUnauthorized(err) == c.made {
				t.Fatalf("got %v", err)
			}
			got, err := l.namespaces.Get(t.Context(), kube.Key{Name: "team"})
			if (err == nil) != c.made || c.made && (got.Labels[label] != "") != c.label {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}
