package main

import (
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// FleetStatus is what fleet status prints.
type FleetStatus struct {
	printer.Document
	// At is when the fleet was looked at.
	At time.Time `json:"at"`
	// Server is the address of the API server.
	Server string `json:"server"`
	// Suspended reports whether the brake is on.
	Suspended bool `json:"suspended"`
	// Brake says by whom and why.
	Brake *view.Brake `json:"brake,omitempty"`
	view.Status

	names namesakes `json:"-"` // of all objects of the fleet
}

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

// Suspension is what fleet suspend and fleet resume print.
type Suspension struct {
	printer.Document
	// Suspended reports what is so now.
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
	// Changed reports whether it was otherwise before.
	Changed bool `json:"changed"`
	// Pause is who holds it back, since when and why; left out where it is not paused.
	Pause *view.Pause `json:"pause,omitempty"`
	// Error is why it was not done.
	Error string `json:"error,omitempty"`
}

// DeletionApproval is what fleet approve prints.
type DeletionApproval struct {
	printer.Document
	// Objects are those of which something waits, or those that were named.
	Objects []HeldDeletion `json:"objects,omitempty"`
}

// HeldDeletion is what a change would remove of one object.
type HeldDeletion struct {
	// Kind is GitRepo, Bundle, Cluster or Workspace.
	Kind string `json:"kind"`
	// Name is "<workspace>/<name>", or the name of a workspace.
	Name string `json:"name"`
	// Hash is that of the list; empty where nothing waits.
	Hash string `json:"hash,omitempty"`
	// Message says in short what would be removed.
	Message string `json:"message,omitempty"`
	// Removes is the list: what cannot be brought back first, then bundles or
	// deployments. Where it is very long the last line says how many more there
	// are.
	Removes []string `json:"removes,omitempty"`
	// Approved reports that the list was approved now.
	Approved bool `json:"approved"`
	// Kept is true where the list was kept now: nothing of it is removed.
	Kept bool `json:"kept,omitempty"`
	// Error is why it was not.
	Error string `json:"error,omitempty"`
}

// Deletion is what fleet delete prints.
type Deletion struct {
	printer.Document
	// Object is GitRepo or Bundle.
	Object string `json:"object"`
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Bundles is how many of them go.
	Bundles int `json:"bundles"`
	// Deployments is how many releases there are of these bundles, and Clusters on how
	// many clusters.
	Deployments int `json:"deployments"`
	Clusters    int `json:"clusters"`
	// Hash is that of the list.
	Hash string `json:"hash"`
	// Message says in short what would be removed.
	Message string `json:"message"`
	// Removes is the list: what cannot be brought back first, then bundles or
	// deployments. Where it is very long the last line says how many more there
	// are.
	Removes []string `json:"removes,omitempty"`
	// WrittenBy is the GitRepo that makes the Bundle again as long as its repository has
	// the files of it.
	WrittenBy string `json:"writtenBy,omitempty"`
	// Outcome is what became of it: refused, deleted (it is gone), ordered (it was not
	// waited for), held (the manager waits for an approval) or timeout.
	Outcome string `json:"outcome"`
	// Kept is true where the workloads stay.
	Kept bool `json:"kept,omitempty"`
	// Error is why it is not gone.
	Error string `json:"error,omitempty"`
}

// TakeoverReport is what fleet takeover check prints.
type TakeoverReport struct {
	printer.Document
	// Bundles are all that were compared.
	Bundles []TakeoverBundle `json:"bundles"`
	// HelmOps are all there are; none of them is acted on.
	HelmOps []TakeoverHelmOp `json:"helmOps,omitempty"`
}

// TakeoverHelmOp is how it stands with one HelmOp.
type TakeoverHelmOp struct {
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Shard is whose it is; left out for the default manager's.
	Shard string `json:"shard,omitempty"`
	// Verdict is not supported.
	Verdict string `json:"verdict"`
	// Autoscaler reports that it is one of Rancher's cluster autoscaler.
	Autoscaler bool `json:"autoscaler,omitempty"`
	// Reason says why it is not supported.
	Reason string `json:"reason"`
}

// TakeoverBundle is how it stands with one Bundle.
type TakeoverBundle struct {
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Shard is whose it is; left out for the default manager's.
	Shard string `json:"shard,omitempty"`
	// Verdict is identical, differs, not supported or not known.
	Verdict string `json:"verdict"`
	// Clusters is how many it is deployed to, or would be.
	Clusters int `json:"clusters"`
	// Reasons say what differs, or is not supported.
	Reasons []string `json:"reasons,omitempty"`
	// Differences are the clusters where something would become another.
	Differences []TakeoverDifference `json:"differences,omitempty"`
}

// TakeoverDifference is what would become another on one cluster.
type TakeoverDifference struct {
	// Cluster is "<workspace>/<name>".
	Cluster string `json:"cluster"`
	// What says it in words.
	What []string `json:"what"`
}

// TakeoverMove is what fleet takeover start and undo print.
type TakeoverMove struct {
	printer.Document
	// Shard is the id of the manager that objects were passed to, or given back by.
	Shard string `json:"shard"`
	// Back reports that they were given back.
	Back bool `json:"back"`
	// Objects are all that were selected, with what belongs to them.
	Objects []MovedObject `json:"objects"`
}

// MovedObject is one object that was selected.
type MovedObject struct {
	// Kind is GitRepo, Bundle or BundleDeployment.
	Kind string `json:"kind"`
	// Name is "<namespace>/<name>".
	Name string `json:"name"`
	// Changed reports that its label was written now.
	Changed bool `json:"changed"`
	// Error is why it was not passed on.
	Error string `json:"error,omitempty"`
}

// Version is what fleet version prints.
type Version struct {
	printer.Document
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

// Rendering is what fleet test prints.
type Rendering struct {
	printer.Document
	// Bundle is the name of the bundle.
	Bundle string `json:"bundle"`
	// Cluster is the name of the cluster that the flags describe.
	Cluster string `json:"cluster"`
	// Target is the target that decided, by its name or its place.
	Target string `json:"target"`
	// Customizations are those that apply, in order.
	Customizations []string `json:"customizations,omitempty"`
	// Reason says why the target matches.
	Reason string `json:"reason"`
	// DeploymentID is the id that the deployment would have.
	DeploymentID string `json:"deploymentID"`
	// Release is "<namespace>/<name>" of the Helm release.
	Release string `json:"release"`
	// Unknown names the ConfigMaps and Secrets whose values are missing here.
	Unknown []string `json:"unknown,omitempty"`
	// NotRendered says which templates of values are not rendered, and why.
	NotRendered string `json:"notRendered,omitempty"`
	// Objects are what would be installed, in this order.
	Objects []map[string]any `json:"objects"`
}

// Targeting is what fleet target prints.
type Targeting struct {
	printer.Document
	// Bundle is "<workspace>/<name>".
	Bundle string `json:"bundle"`
	// Content is the id of the bundle's resources.
	Content string `json:"content"`
	// Clusters are all clusters of the workspace, by name.
	Clusters []TargetedCluster `json:"clusters"`
	// Objects are the Content, Secrets with values and BundleDeployments as they
	// would be written.
	Objects []map[string]any `json:"objects"`
}

// TargetedCluster is what becomes of the bundle on one cluster.
type TargetedCluster struct {
	// Name is "<workspace>/<name>".
	Name string `json:"name"`
	// Deploy reports whether the bundle is meant for the cluster.
	Deploy bool `json:"deploy"`
	// Reason says why.
	Reason string `json:"reason"`
	// Target is the target that decided, by its name or its place.
	Target string `json:"target,omitempty"`
	// Customizations are those that apply, in order.
	Customizations []string `json:"customizations,omitempty"`
	// DeploymentID is the id that the deployment should have.
	DeploymentID string `json:"deploymentID,omitempty"`
	// Released reports whether the cluster may take that now.
	Released bool `json:"released,omitempty"`
	// Rollout says why, or what it waits for.
	Rollout string `json:"rollout,omitempty"`
	// Error says why the deployment cannot be worked out for this cluster.
	Error string `json:"error,omitempty"`
}

// Deployed is what fleet deploy prints.
type Deployed struct {
	printer.Document
	// Deployment is "<namespace>/<name>" of the BundleDeployment.
	Deployment string `json:"deployment"`
	// DeploymentID is its id.
	DeploymentID string `json:"deploymentID"`
	// Release is "<namespace>/<name>" of the Helm release.
	Release string `json:"release"`
	// DryRun reports that nothing was written.
	DryRun bool `json:"dryRun,omitempty"`
	// Changed reports whether anything was done.
	Changed bool `json:"changed"`
	// Revision is that of the release; left out with --dry-run.
	Revision int `json:"revision,omitempty"`
	// Reason says why it was done, or not.
	Reason string `json:"reason"`
	// Objects are what is installed, in this order.
	Objects []map[string]any `json:"objects"`
}
