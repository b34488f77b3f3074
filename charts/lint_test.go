package charts_test

import (
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
)

// TestLint runs helm lint on all charts, for the oldest Kubernetes that they are
// for and for the newest that they were tried on.
func TestLint(t *testing.T) {
	values := map[string]map[string]any{
		"fleet": nil, "fleet-crd": nil,
		"fleet-agent": {"apiServerURL": "https://x", "tokenName": "t", "internal": map[string]any{"managedReleaseName": "test-release"}},
	}
	for chart, v := range values {
		for _, version := range []string{"v1.30.0", "v1.36.3"} {
			kube, err := chartutil.ParseKubeVersion(version)
			if err != nil {
				t.Fatal(err)
			}
			result := lint.AllWithKubeVersion(chart, v, "cattle-fleet-system", kube)
			for _, m := range result.Messages {
				if m.Severity >= support.WarningSev {
					t.Errorf("%s for %s: %s", chart, version, m)
				}
			}
		}
	}
}

// TestKubeVersion: a chart says for which Kubernetes it is, and Helm refuses it
// elsewhere.
func TestKubeVersion(t *testing.T) {
	for _, chart := range []string{"fleet", "fleet-agent", "fleet-crd"} {
		c, err := loader.Load(chart)
		if err != nil {
			t.Fatal(err)
		}
		for version, want := range map[string]bool{"v1.29.15": false, "v1.30.0": true, "v1.33.4+k3s1": true, "v1.34.1-eks-113cf36": true, "v1.36.3": true} {
			if got := chartutil.IsCompatibleRange(c.Metadata.KubeVersion, version); got != want {
				t.Errorf("%s: for %s: %v", chart, version, got)
			}
		}
	}
}

// TestKeep: kinds stay when their chart goes, unless the value keep is false.
func TestKeep(t *testing.T) {
	for _, keep := range []any{nil, true, false} {
		values := map[string]any{}
		if keep != nil {
			values["keep"] = keep
		}
		objects := mustRender(t, release{chart: "fleet-crd", name: "fleet-crd", namespace: "cattle-fleet-system", values: values})
		if len(objects) != 14 {
			t.Errorf("%d kinds", len(objects))
		}
		for name, o := range objects {
			policy := o.GetAnnotations()["helm.sh/resource-policy"]
			if (policy == "keep") != (keep != false) || o.GetAnnotations()["fleet.cattle.io/crd-revision"] == "" {
				t.Errorf("keep=%v: %s has %v", keep, name, o.GetAnnotations())
			}
		}
	}
}
