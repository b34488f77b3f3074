package takeover

import (
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// TakeoverReport is what fleet takeover check prints.
type TakeoverReport struct {
	printer.Document
	// Bundles are all that were compared.
	Bundles []TakeoverBundle `json:"bundles"`
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
