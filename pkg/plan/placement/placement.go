// Package placement puts one Bundle on the clusters that it is meant for: options, then
// rollout, in the order in which the manager asks them. The manager, the previews of the
// command line and explanations all use it, so that they give one answer.
package placement

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
)

// A Candidate is a cluster that a Bundle is meant for.
type Candidate struct {
	Name       string // in messages of the rollout: "namespace/name" of the Cluster
	Place      *deployment.Place
	Verdict    target.Verdict
	Deployment *fleet.BundleDeployment // that is there; nil: none
	Offline    bool
	Silent     bool // it has left a promotion unanswered
}

// A Newest is the version that a deployment should have.
type Newest struct {
	Inputs  string // digest of what decides it
	ID      string
	Outcome string
	// Version is nil where the ids are known without working it out.
	Version *deployment.Version
}

// Rules are additions of the caller of Version to the options of the Bundle. The zero
// Rules add nothing.
type Rules struct {
	// Inputs adds to the digest of the inputs.
	Inputs func(string) string
	// Known returns the version that these inputs gave before.
	Known func(inputs string) (Newest, bool)
	// Render replaces Compiled.Render.
	Render func(target.Verdict, *deployment.Place) (deployment.Version, error)
}

// Version returns the version that a candidate should have. If the mark of its deployment,
// or Known, has the same inputs, nothing is worked out.
func Version(k *deployment.Compiled, c Candidate, r Rules) (Newest, error) {
	inputs, err := k.Inputs(c.Verdict, c.Place)
	if err != nil {
		return Newest{}, err
	}
	if r.Inputs != nil {
		inputs = r.Inputs(inputs)
	}
	if bd := c.Deployment; bd != nil {
		if mark := deployment.MarkOf(bd); mark.Inputs == inputs {
			return Newest{Inputs: inputs, ID: bd.Spec.StagedDeploymentID, Outcome: mark.Outcome}, nil
		}
	}
	if r.Known != nil {
		if n, ok := r.Known(inputs); ok {
			n.Inputs = inputs
			return n, nil
		}
	}
	render := r.Render
	if render == nil {
		render = k.Render
	}
	v, err := render(c.Verdict, c.Place)
	if err != nil {
		return Newest{Inputs: inputs}, err
	}
	return Newest{Inputs: inputs, ID: v.ID, Outcome: v.Outcome, Version: &v}, nil
}

// Evaluate asks the rollout what every candidate may do now. desired completes a candidate,
// by its index, as the rollout sees it: with the id of its newest version, and why it is
// held back. maxNew, where positive, replaces the limit of the strategy. An error is about
// the strategy.
func Evaluate(
	k *deployment.Compiled, strategy *fleet.RolloutStrategy, maxNew int, list []Candidate, desired func(i int, t *rollout.Target),
) (rollout.Shape, rollout.Result, error) {
	targets := make([]rollout.Target, len(list))
	clusters := make([]*target.Cluster, len(list))
	for i, c := range list {
		clusters[i] = &c.Place.Cluster
		targets[i] = rollout.TargetOf(c.Name, c.Deployment)
		targets[i].Paused, targets[i].Offline, targets[i].Silent = deployment.Paused(k, c.Place), c.Offline, c.Silent
		targets[i].Closed = c.Place.Closed
		desired(i, &targets[i])
	}
	shape, err := rollout.Resolve(strategy, clusters)
	if err != nil {
		return shape, rollout.Result{}, err
	}
	if maxNew > 0 {
		shape.MaxNew = maxNew
	}
	return shape, rollout.Plan(shape, targets), nil
}
