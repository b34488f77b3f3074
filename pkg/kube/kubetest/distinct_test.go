package kubetest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// Two clusters are two identities.
func TestNewDistinct(t *testing.T) {
	identity := func() types.UID {
		spaces := kube.StoreOf[*corev1.Namespace](kubetest.NewDistinct(t).Connect("test"))
		return must[*corev1.Namespace](t)(spaces.Get(t.Context(), kube.Key{Name: metav1.NamespaceSystem})).UID
	}
	if one := identity(); one == identity() {
		t.Errorf("two clusters have the identity %s", one)
	}
}
