package rancher

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Labels and conditions of the cluster autoscaler that Rancher deploys by a HelmOp
// (rancher-differences.md, A 2).
const (
	labelScaled     = "cluster.x-k8s.io/cluster-name"
	conditionScaled = "ClusterAutoscalerDeploymentReady"
)

// autoscaler copies the summary of the HelmOp of a cluster's autoscaler to a condition
// of the provisioning Cluster that is Ready. As in Rancher, a summary without
// deployments counts as deployed, and one with errors names its first entry
// unchecked (rancher-differences.md, A 2).
func (s *session) autoscaler(op *object) (*object, error) {
	name := op.GetLabels()[labelScaled]
	p := s.cached(ProvClusters, op.GetNamespace()+"/"+name)
	if name == "" || p == nil || conditionOf(p, "Ready") != "True" {
		return nil, nil
	}
	count := func(name string) int64 {
		n, _, _ := unstructured.NestedInt64(op.Object, "status", "summary", name)
		return n
	}
	c := map[string]any{"type": conditionScaled}
	switch {
	case count("desiredReady") == count("ready"):
		c["status"], c["message"] = "True", ""
	case count("waitApplied") > 0:
		c["status"], c["message"] = "False", "[Waiting] autoscaler deployment pending"
	case count("errApplied") > 0:
		list, _ := field(op, "status", "summary", "nonReadyResources").([]any)
		if len(list) == 0 {
			panic(fmt.Sprintf("HelmOp %s: Rancher reads the first of no nonReadyResources", op.GetName()))
		}
		first, _ := list[0].(map[string]any)
		c["status"], c["message"] = "Unknown", fmt.Sprintf("error encountered while deploying cluster-autoscaler: %v", first["message"])
	default:
		return nil, nil
	}
	before, _ := field(p, "status").(map[string]any)
	own, _ := field(p, "status", "conditions").([]any)
	set(p, replaced(own, c), "status", "conditions")
	after, _ := field(p, "status").(map[string]any)
	if same(before, after) {
		return nil, nil
	}
	_, err := s.updateStatus(ProvClusters, p)
	return nil, err
}
