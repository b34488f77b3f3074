package kubetest_test

import (
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// The server in memory does what real API servers do; integrationtests runs the same
// on a real one.
func TestConform(t *testing.T) {
	s := kubetest.New(t)
	kubetest.Conform(t, s.REST(), func() {
		s.FillAccountTokens()
		kubetest.RunPods(s)
		s.CollectGarbage()
		s.RunWorkloads()
	})
}

// A server that serves Fleet's kinds by their definitions does the same.
func TestServeByDefinition(t *testing.T) {
	s := kubetest.New(t)
	s.ServeByDefinition()
	ctx := t.Context()
	clusters := kube.StoreOf[*fleet.Cluster](s.Connect("test"))
	if _, err := clusters.List(ctx, "", ""); !apierrors.IsNotFound(err) {
		t.Errorf("want no Clusters without their definition, got %v", err)
	}
	files, err := filepath.Glob("../../../charts/fleet-crd/templates/*.yaml")
	if err != nil || len(files) != len(fleet.Kinds()) {
		t.Fatalf("%d definitions, %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		var crd apiextensionsv1.CustomResourceDefinition
		if err == nil {
			err = yaml.Unmarshal(text, &crd)
		}
		if err == nil {
			_, err = kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](s.Connect("test")).Create(ctx, &crd)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	kubetest.Conform(t, s.REST(), func() {
		s.FillAccountTokens()
		kubetest.RunPods(s)
		s.CollectGarbage()
		s.RunWorkloads()
	})
}
