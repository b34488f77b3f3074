package support

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestMissing(t *testing.T) {
	cases := map[string]struct {
		why  string
		obj  any
		want []string
	}{
		"PlainGitRepo": {"nothing to say about what works", &fleet.GitRepo{Spec: fleet.GitRepoSpec{Repo: "https://x"}}, nil},
		"GitRepo":      {"every field works", &fleet.GitRepo{Spec: fleet.GitRepoSpec{WebhookSecret: "s", ImageScanCommit: &fleet.CommitSpec{}, ImageScanInterval: &metav1.Duration{}}}, nil},
		"BundleTargets": {"customizations count as well, and a name is said once",
			&fleet.Bundle{Spec: fleet.BundleSpec{
				Targets: []fleet.BundleTarget{
					{BundleDeploymentOptions: fleet.BundleDeploymentOptions{AllowedTargetNamespaceSelector: &metav1.LabelSelector{}}},
					{BundleDeploymentOptions: fleet.BundleDeploymentOptions{AllowedTargetNamespaceSelector: &metav1.LabelSelector{}}}}}},
			[]string{"targets.allowedTargetNamespaceSelector"}},
		"Cluster": {"everything that is said of an agent counts",
			&fleet.Cluster{Spec: fleet.ClusterSpec{PrivateRepoURL: "x", AgentPullSecrets: &[]corev1.LocalObjectReference{}}}, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, UnsupportedFields(c.obj)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// Fields of image scans have no effect where image scanning is switched off.
func TestImageScansOff(t *testing.T) {
	for want, spec := range map[string]fleet.GitRepoSpec{
		"": {},
		"imageScanCommit has no effect: image scanning is switched off in this Fleet": {ImageScanCommit: &fleet.CommitSpec{}},
	} {
		if got := ImageScansOff(&spec); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestBlocks(t *testing.T) {
	open := fleet.BundleSpec{}
	if got := BlockReason(&open); got != "" {
		t.Errorf("a plain Bundle is blocked: %s", got)
	}
	open.AllowedTargetNamespaceSelector = &metav1.LabelSelector{}
	if got := BlockReason(&open); got != "" {
		t.Errorf("a limit that agents check blocks the Bundle: %s", got)
	}
	open.Targets = []fleet.BundleTarget{{BundleDeploymentOptions: fleet.BundleDeploymentOptions{
		AllowedTargetNamespaceSelector: &metav1.LabelSelector{}}}}
	if BlockReason(&open) == "" {
		t.Error("a limit on one target must fail closed")
	}
}
