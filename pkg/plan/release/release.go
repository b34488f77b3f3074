// Package release decides what becomes of one Helm release: from what Helm's
// storage holds and what is wanted it makes the next action, with its reason.
//
// It knows nothing of Helm's library and touches nothing. One action is one
// step; whoever takes it looks again afterwards, so that a process which was
// killed anywhere goes on where it stopped.
package release

import (
	"strings"
	"time"
)

// An ID names a Helm release on a cluster.
type ID struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is "<namespace>/<name>".
func (id ID) String() string { return id.Namespace + "/" + id.Name }

// A State is what Helm's storage says of the newest revision of a release.
type State string

// The states of a release. Unreadable is a record that cannot be decoded.
const (
	Absent          State = "absent"
	Deployed        State = "deployed"
	Failed          State = "failed"
	PendingInstall  State = "pending-install"
	PendingUpgrade  State = "pending-upgrade"
	PendingRollback State = "pending-rollback"
	Uninstalling    State = "uninstalling"
	Uninstalled     State = "uninstalled"
	Superseded      State = "superseded"
	Unreadable      State = "unreadable"
)

// An Owner is who made a release: the agent, by its namespace, and the bundle
// deployment, by its name. The zero Owner is somebody who is not Fleet.
type Owner struct {
	AgentNamespace string
	BundleID       string
}

// A Memory is what the agent wrote into a release about itself. Fields are
// empty where another implementation made the release.
type Memory struct {
	Owner         Owner
	Manager       string // "<installation id>/<epoch>"
	BundleUID     string
	DeploymentID  string
	Commit        string
	KeepResources bool
}

// Observed is one release as Helm's storage holds it.
type Observed struct {
	ID          ID
	State       State
	Revision    int       // of the newest record; 0 if Absent
	Since       time.Time // when the newest revision was deployed
	Description string    // Helm's text about the newest revision
	Memory      Memory    // of the newest revision that can be read

	// Values are the Helm values of that revision. They may be secret: they are
	// here to be kept out of texts.
	Values map[string]any

	// Good is the newest revision that is deployed, 0 if none is; GoodID and
	// Manifest are its deployment id and its objects as YAML.
	Good     int
	GoodID   string
	Manifest string

	// Large tells that the record of that revision does not fit into one Secret.
	// Its manifest, and the values of the newest revision, are not here yet:
	// whoever needs them has to have them read.
	Large bool
}

// A Peer is another deployment of this agent.
type Peer struct {
	ID             ID
	Live           bool // wanted, not withdrawn
	SameRepository bool // made from the same GitRepo or HelmOp as this one
	Tried          bool // its newest deployment was applied, has failed or waits for something else
}

// Wanted is what the manager wants of a deployment, and what the agent knows
// about it.
type Wanted struct {
	ID            ID
	Self          Owner
	DeploymentID  string
	TakeOwnership bool
	KeepResources bool

	// Paused, or outside of its schedule, or without its values: nothing may
	// change.
	Paused bool

	// Order is the id under which the deployment was withdrawn; empty while it
	// is wanted. Abandon ends a removal that does not succeed.
	Order   string
	Abandon bool

	// Settled is the deployment id whose last attempt failed for good.
	// Applied is the deployment id that the agent has brought about last,
	// by its own store or by the reported status.
	Settled string
	Applied string

	// Stale is true if the manager's object is older than the one that was
	// accepted before. HeldFor is how long it has been held back already.
	Stale   bool
	HeldFor time.Duration

	// Peers are the other deployments of this agent, by bundle id.
	Peers map[string]Peer
}

// agentBundle is how the names of the bundles start that install agents.
const agentBundle = "fleet-agent"

// isAgent tells whether a deployment installs the agent itself. Such a release
// is never uninstalled: the agent would remove itself.
func (w Wanted) isAgent() bool { return strings.HasPrefix(w.Self.BundleID, agentBundle) }

// Rollback tells whether the newest revision went back to an earlier one, as a
// correction of drift does.
func (o Observed) Rollback() bool { return strings.HasPrefix(o.Description, "Rollback ") }
