package takeover

import "testing"

// A HelmOp is not supported, and those of Rancher's cluster autoscaler are named as such.
func TestHelmOp(t *testing.T) {
	for want, labels := range map[string]map[string]string{
		"kind HelmOp is accepted, but this version does not act on it yet":                                                      {"app": "redis"},
		"of Rancher's cluster autoscaler for cluster prod-eu: kind HelmOp is accepted, but this version does not act on it yet": {LabelAutoscaled: "prod-eu"},
	} {
		if got := HelmOp(labels); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
