package main

import (
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// documentVersion is the apiVersion of the documents that commands print.
// Fields are only ever added; docs/cli holds a JSON schema of each kind.
const documentVersion = "cli.fleet.cattle.io/v1"

// Document begins every document.
type Document struct {
	// APIVersion is cli.fleet.cattle.io/v1.
	APIVersion string `json:"apiVersion"`
	// Kind is the kind of the document.
	Kind string `json:"kind"`
}

func document(kind string) Document { return Document{documentVersion, kind} }

// FleetStatus is what fleet status prints.
type FleetStatus struct {
	Document
	// At is when the fleet was looked at.
	At time.Time `json:"at"`
	// Server is the address of the API server.
	Server string `json:"server"`
	// Suspended tells whether the brake is on.
	Suspended bool `json:"suspended"`
	// Brake says by whom and why.
	Brake *view.Brake `json:"brake,omitempty"`
	view.Status
}

// WaitResult is what fleet wait prints.
type WaitResult struct {
	Document
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

// Suspension is what fleet suspend and fleet resume print.
type Suspension struct {
	Document
	// Suspended tells what is so now.
	Suspended bool `json:"suspended"`
	// Brake is the brake on everything; only with --all.
	Brake *view.Brake `json:"brake,omitempty"`
	// Objects are those that were told.
	Objects []SuspendedObject `json:"objects,omitempty"`
}

// SuspendedObject is one object that was suspended or resumed.
type SuspendedObject struct {
	// Kind is GitRepo, Bundle or Cluster.
	Kind string `json:"kind"`
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Changed tells whether it was otherwise before.
	Changed bool `json:"changed"`
	// Error is why it was not done.
	Error string `json:"error,omitempty"`
}

// Version is what fleet version prints.
type Version struct {
	Document
	// Client is this program.
	Client ClientVersion `json:"client"`
	// Server is the address of the API server that was asked.
	Server string `json:"server,omitempty"`
	// Manager is the manager there; left out where it could not be asked.
	Manager *view.Manager `json:"manager,omitempty"`
	// Error is why it could not be asked.
	Error string `json:"error,omitempty"`
}

// ClientVersion is which build of the command line this is.
type ClientVersion struct {
	// Version of the release.
	Version string `json:"version"`
	// Commit it was built from.
	Commit string `json:"commit"`
	// Implementation tells implementations of the same API apart.
	Implementation string `json:"implementation"`
	// Go is the version of Go it was built with.
	Go string `json:"go"`
	// Platform is operating system and architecture.
	Platform string `json:"platform"`
}
