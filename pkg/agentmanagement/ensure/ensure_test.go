package ensure

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// An object that is there although no cache shows it gets the desired content, and keeps
// what others have added.
func TestObjectThatNoCacheShows(t *testing.T) {
	s := kubetest.New(t)
	s.MakeNamespace("ns")
	maps := kube.StoreOf[*corev1.ConfigMap](s.Connect("manager"))
	object := func(value string, labels map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm", Labels: labels}, Data: map[string]string{"key": value}}
	}
	if _, err := maps.Create(t.Context(), object("half made", map[string]string{"theirs": "1"})); err != nil {
		t.Fatal(err)
	}

	err := Object(t.Context(), Unseen[*corev1.ConfigMap]{}, maps, object("desired", map[string]string{"ours": "1"}),
		func(have, want *corev1.ConfigMap) { have.Data = want.Data })

	if err != nil {
		t.Fatal(err)
	}
	got, err := maps.Get(t.Context(), kube.Key{Namespace: "ns", Name: "cm"})
	if err != nil || got.Data["key"] != "desired" || got.Labels["ours"] != "1" || got.Labels["theirs"] != "1" {
		t.Errorf("want the desired content beside the labels of others, got %v, %v", got, err)
	}
}
