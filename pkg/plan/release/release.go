// Package release decides the next action on one Helm release, with a reason, from
// Helm's storage and the wanted state. It also decides whether an agent takes a release
// over from another bundle or agent.
//
// It does not use Helm's library and changes nothing. One action is one step. The agent
// that takes it observes the release again afterwards, so that an agent that was killed
// anywhere continues from there.
package release

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// An ID names a Helm release on a cluster.
type ID struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns "<namespace>/<name>".
func (id ID) String() string { return id.Namespace + "/" + id.Name }

// IDOf returns the release that a deployment of this name makes with these options.
func IDOf(name string, o fleet.BundleDeploymentOptions) ID {
	return IDNamed(naming.ReleaseName(name), o)
}

// IDNamed is IDOf for a caller that knows what the release is called where the
// options do not name it: naming.ReleaseName of the deployment.
func IDNamed(releaseName string, o fleet.BundleDeploymentOptions) ID {
	id := ID{Namespace: cmp.Or(o.TargetNamespace, o.DefaultNamespace, metav1.NamespaceDefault), Name: releaseName}
	if o.Helm != nil && o.Helm.ReleaseName != "" {
		id.Name = o.Helm.ReleaseName
	}
	return id
}

// ParseID reads a release as status.release of a BundleDeployment names it,
// "<namespace>/<name>:<revision>". It is the zero ID for any other text.
func ParseID(text string) ID {
	namespace, rest, ok := strings.Cut(text, "/")
	name, _, _ := strings.Cut(rest, ":")
	if !ok || namespace == "" || name == "" {
		return ID{}
	}
	return ID{Namespace: namespace, Name: name}
}

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

// An Owner is the maker of a release: the agent, by its namespace, and the bundle
// deployment, by its name. The zero Owner is a maker other than Fleet.
type Owner struct {
	AgentNamespace string
	BundleID       string
}

// A Record is what the agent wrote into a release about itself. Fields are
// empty where another implementation made the release.
type Record struct {
	Owner         Owner
	Manager       string // "<installation id>/<epoch>"
	BundleUID     string
	DeploymentID  string
	Commit        string
	KeepResources bool
}

// Observed is one release as Helm's storage has it; see Summarize.
type Observed struct {
	ID          ID
	State       State
	Revision    int       // of the newest record; 0 if Absent
	Since       time.Time // when the newest revision was deployed
	Description string    // Helm's text about the newest revision
	Memory      Record    // of the newest revision that Fleet made, if any

	// Hand reports that the newest revision is not Fleet's, although Fleet made an earlier
	// one: a user ran helm upgrade, or helm rollback to an older revision.
	Hand bool
	// Fresh reports that no revision was ever deployed.
	Fresh bool

	// Values are the Helm values of the newest revision. They may be secret: they
	// are here to be kept out of texts.
	Values map[string]any

	// Good is the newest revision that was deployed: of those that Fleet made, if
	// it made any. 0 if there is none. GoodState is Deployed, or Superseded where
	// something came after it. GoodID and Manifest are its deployment id and its
	// objects as YAML.
	Good      int
	GoodState State
	GoodID    string
	Manifest  string
	// CRDs are the names of those that the chart of that revision brings beside
	// its manifest. Helm installs them once, and never changes or removes them.
	CRDs []string

	// Large reports that the record of that revision does not fit into one Secret. Its
	// manifest, and the values of the newest revision, are not here yet: a caller that
	// needs them has to have them read.
	Large bool
}

// A Peer is another deployment of this agent.
type Peer struct {
	ID             ID
	Live           bool // wanted, not withdrawn
	SameRepository bool // made from the same GitRepo or HelmOp as this one
	Tried          bool // its newest deployment was applied, has failed or waits for something else
}

// Wanted is the manager's order for a deployment, with the agent's knowledge of
// it.
type Wanted struct {
	ID            ID
	Self          Owner
	DeploymentID  string
	TakeOwnership bool
	KeepResources bool

	// Paused, or outside of its schedule, or without its values: nothing may
	// change.
	Paused bool

	// Closed is why nothing new may be deployed now: the cluster is outside of its change
	// windows. It is empty while a window is open. OpensIn is when to look again.
	Closed  string
	OpensIn time.Duration

	// Order is the id under which the deployment was withdrawn; empty while it
	// is wanted. Abandon ends a removal that does not succeed.
	Order   string
	Abandon bool

	// Correct reports that drift is to be corrected.
	Correct bool

	// Unreported reports that all this is what the manager said when the agent last reached
	// it: since then it may have ordered the removal, or taken such an order back.
	Unreported bool

	// Settled is the deployment id whose last attempt failed for good.
	// Applied is the deployment id that the agent has brought about last,
	// by its own store or by the reported status; Reported is what the status
	// says, which another implementation may have written since.
	Settled  string
	Applied  string
	Reported string

	// Stale is true if what the manager says is from the past: its object is
	// older than the one that was accepted before, or bears an order that was
	// taken back. HeldFor is how long it has been held back already.
	Stale   bool
	HeldFor time.Duration

	// MayBeRemoved is true if the manager was restored from a backup and says what
	// it said then of a deployment that the agent has no record of: it may have
	// ordered the removal since.
	MayBeRemoved bool

	// Peers are the other deployments of this agent, by bundle id.
	Peers map[string]Peer

	// Agent reports that the deployment installs the agent itself. Such a release is
	// never uninstalled: the agent would remove itself.
	Agent bool

	// Predecessor is the agent that this one takes over from; the zero value: none.
	Predecessor Predecessor

	// Now is the time of the decision. The zero time is later than everything.
	Now time.Time
}

// Owns reports whether a release is there and is that of the deployment: what is
// said of its objects is said of the deployment's.
func (w Wanted) Owns(o Observed) bool { return o.State != Absent && w.owns(o) }

// owns reports whether a release is that of the deployment. A release without a readable
// record belongs to the deployment if that has deployed one.
func (w Wanted) owns(o Observed) bool {
	if o.State == Unreadable && o.Memory.Owner == (Owner{}) {
		return w.Applied != "" || w.Reported != ""
	}
	return o.Memory.Owner == w.Self
}

// Running returns the deployment id of what runs. A release by rancher/fleet does not say;
// there it is what was reported.
func (w Wanted) Running(o Observed) string {
	switch {
	case o.GoodID != "" || o.Memory.Owner != w.Self:
		return o.GoodID
	case w.Reported != "":
		return w.Reported
	}
	return w.Applied
}

// Rollback reports whether the newest revision is a correction of drift: it went
// back to an earlier one, and not by hand.
func (o Observed) Rollback() bool { return !o.Hand && strings.HasPrefix(o.Description, rollback) }
