package wait

import (
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// WaitResult is what fleet wait prints.
type WaitResult struct {
	printer.Document
	// Outcome is ready, deferred, failed or timeout.
	Outcome string `json:"outcome"`
	// Seconds is how long it took.
	Seconds float64 `json:"seconds"`
	// Message says the same in one line.
	Message string `json:"message"`
	// Goals are what was waited for.
	Goals []WaitGoal `json:"goals"`
}

// WaitGoal is one object that was waited for.
type WaitGoal struct {
	// Kind is GitRepo, Bundle or Cluster.
	Kind string `json:"kind"`
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Outcome is ready, deferred, failed or waiting.
	Outcome string `json:"outcome"`
	// Commit is the one that was read.
	Commit string `json:"commit,omitempty"`
	// Bundles is how many bundles it has.
	Bundles int `json:"bundles"`
	// Changed are the names of those that were waited for.
	Changed []string `json:"changed"`
	// Removed are the names of bundles that the commit removed.
	Removed []string `json:"removed,omitempty"`
	// Problems are texts about what keeps it from being Ready and belongs to no
	// deployment.
	Problems []string `json:"problems,omitempty"`
	// Deployments are the bundles on their clusters.
	Deployments []WaitDeployment `json:"deployments"`
}

// WaitDeployment is one bundle on one cluster.
type WaitDeployment struct {
	// Bundle is "<workspace>/<name>".
	Bundle string `json:"bundle"`
	// Cluster is "<workspace>/<name>".
	Cluster string `json:"cluster"`
	// Outcome is ready, deferred, failed or waiting.
	Outcome string `json:"outcome"`
	// State is the state of the deployment.
	State string `json:"state"`
	// Commit runs there; empty while another than the wanted one does.
	Commit string `json:"commit,omitempty"`
	// Wanted is the commit that should run.
	Wanted string `json:"wanted,omitempty"`
	// Reason is one CamelCase word, where it failed.
	Reason string `json:"reason,omitempty"`
	// Message says why it is not Ready.
	Message string `json:"message,omitempty"`
	// LastSeen is when the cluster checked in last, for one that is away.
	LastSeen *time.Time `json:"lastSeen,omitempty"`
}
