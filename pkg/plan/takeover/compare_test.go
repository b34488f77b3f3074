package takeover

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
)

const ws = "fleet-default"

// deployed is a Bundle on two clusters of three, as another manager with the
// same rules has deployed it: without any annotation, with the finalizer of the
// reference.
func deployed(t *testing.T) Input {
	t.Helper()
	in := Input{Input: preview.Input{Bundle: &fleet.Bundle{
		ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: "web", Labels: map[string]string{fleet.LabelRepoName: "shop"}},
		Spec: fleet.BundleSpec{
			Resources: []fleet.BundleResource{{Name: "a.yaml", Content: "kind: ConfigMap"}},
			Targets:   []fleet.BundleTarget{{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}},
		},
	}}}
	for name, env := range map[string]string{"c1": "prod", "c2": "prod", "c3": "dev"} {
		in.Clusters = append(in.Clusters, &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: ws, Name: name, Labels: map[string]string{"env": env}},
			Status:     fleet.ClusterStatus{Namespace: "cluster-" + name},
		})
	}
	result, err := preview.Compute(in.Input)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range result.Clusters {
		if c.Object == nil {
			continue
		}
		bd := c.Object
		bd.Annotations, bd.Finalizers = nil, []string{fleet.FinalizerBundleDeployment}
		bd.Spec.DeploymentID, bd.Spec.Options = bd.Spec.StagedDeploymentID, bd.Spec.StagedOptions
		bd.Status.AppliedDeploymentID, bd.Status.Ready = bd.Spec.DeploymentID, true
		in.Deployments = append(in.Deployments, bd)
	}
	slices.SortFunc(in.Deployments, func(a, b *fleet.BundleDeployment) int { return cmpText(a.Namespace, b.Namespace) })
	if len(in.Deployments) != 2 {
		t.Fatalf("want two deployments, got %d", len(in.Deployments))
	}
	return in
}

func cmpText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestJudge(t *testing.T) {
	onC1 := func(what ...string) []Difference { return []Difference{{Cluster: ws + "/c1", What: what}} }
	cases := map[string]struct {
		why    string
		change func(*Input)
		want   Finding
	}{
		"Same": {
			why:    "what another has made by the same rules stays as it is: marks and finalizers are no difference",
			change: func(*Input) {},
			want:   Finding{Verdict: Identical, Clusters: 2},
		},
		"Unplaced": {
			why: "what could not be deployed is found before a takeover, and only on clusters that get the Bundle",
			change: func(in *Input) {
				in.Unplaced = map[string]string{ws + "/c1": "no namespace", ws + "/c3": "no namespace"}
			},
			want: Finding{Verdict: Differs, Clusters: 2, Reasons: []string{"could not be deployed: no namespace"},
				Differences: onC1("could not be deployed: no namespace")},
		},
		"OtherContent": {
			why: "another content would be deployed",
			change: func(in *Input) {
				d := in.Deployments[0]
				d.Spec.StagedDeploymentID = "s-0000000000000:" + d.Spec.StagedDeploymentID[len(d.Spec.StagedDeploymentID)-64:]
			},
			want: Finding{Verdict: Differs, Clusters: 2, Reasons: []string{"other content: s-1e955231 instead of s-00000000"}},
		},
		"OtherOptions": {
			why: "people want to know which field it is",
			change: func(in *Input) {
				d := in.Deployments[0]
				d.Spec.StagedOptions.DefaultNamespace, d.Spec.StagedDeploymentID = "shop", d.Spec.StagedDeploymentID[:len(d.Spec.StagedDeploymentID)-2]+"zz"
				d.Spec.StagedOptions.Helm = &fleet.HelmOptions{TakeOwnership: true}
			},
			want: Finding{Verdict: Differs, Clusters: 2, Reasons: []string{"other options: defaultNamespace, helm.takeOwnership"},
				Differences: onC1("other options: defaultNamespace, helm.takeOwnership")},
		},
		"HeldBack": {
			why:    "what a user holds back must not be let go by accident",
			change: func(in *Input) { in.Deployments[0].Spec.DeploymentID = "s-old:options" },
			want: Finding{Verdict: Differs, Clusters: 2, Reasons: []string{"a version that is held back would be released: not available anyway"},
				Differences: onC1("a version that is held back would be released: not available anyway")},
		},
		"Missing": {
			why:    "a deployment that is not there yet would be made",
			change: func(in *Input) { in.Deployments = in.Deployments[1:] },
			want: Finding{Verdict: Differs, Clusters: 2, Reasons: []string{"would be deployed anew: target 1 matches: env=prod"},
				Differences: onC1("would be deployed anew: target 1 matches: env=prod")},
		},
		"NotTargeted": {
			why: "a deployment that nothing asks for would be withdrawn: the worst surprise",
			change: func(in *Input) {
				in.Clusters[slices.IndexFunc(in.Clusters, func(c *fleet.Cluster) bool { return c.Name == "c1" })].Labels["env"] = "dev"
			},
			want: Finding{Verdict: Differs, Clusters: 2, Reasons: []string{"would be withdrawn: target 1 wants env=prod, c1 has env=dev"},
				Differences: onC1("would be withdrawn: target 1 wants env=prod, c1 has env=dev")},
		},
		"Repo": {
			why: "the Bundle is fine, and what it is from asks for more",
			change: func(in *Input) {
				in.Repo = &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: fleet.GitRepoSpec{ImageScanCommit: &fleet.CommitSpec{}}}
			},
			want: Finding{Verdict: Unsupported, Clusters: 2, Reasons: []string{
				"GitRepo shop: imageScanCommit needs image scanning, which is switched off by default"}},
		},
		"HelmOp": {
			why:    "a Bundle of a HelmOp is compared as any other",
			change: func(in *Input) { in.Bundle.Labels = map[string]string{fleet.LabelHelmOpName: "op"} },
			want:   Finding{Verdict: Identical, Clusters: 2},
		},
		"NoValues": {
			why:    "without the right to read the values the result is unknown, and must not be well",
			change: func(in *Input) { in.Bundle.Spec.ValuesHash = "abc" },
			want:   Finding{Verdict: Unknown, Clusters: 2},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			in := deployed(t)
			c.change(&in)
			got := Compare(in)
			if c.want.Reasons == nil {
				got.Reasons = nil
			}
			if c.want.Differences == nil {
				got.Differences = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

// Judging changes nothing, and says the same again.
func TestJudgeIsPure(t *testing.T) {
	in := deployed(t)
	in.Deployments[0].Spec.StagedOptions.DefaultNamespace = "other"
	before := in.Deployments[0].DeepCopy()
	first := Compare(in)
	if diff := cmp.Diff(before, in.Deployments[0]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(first, Compare(in)); diff != "" {
		t.Error(diff)
	}
}
