// Package diagnose finds faults of a whole installation in what a user can read of it:
// the connection, the manager and its kinds, tokens, agents, clocks and identities.
// Each finding says what is wrong, which connection or program fails, and what to do.
//
// It is pure: what the user could read, and what not, are arguments.
package diagnose

import (
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A Verdict is how a check ended.
type Verdict string

// Verdicts. A Fail needs a person; a Warn may.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "FAIL"
)

// Names of the checks, in the order in which they are made.
const (
	Server   = "server"
	Manager  = "manager"
	CRDs     = "crds"
	Address  = "address"
	Tokens   = "tokens"
	Agents   = "agents"
	Clocks   = "clocks"
	Identity = "identity"

	Credentials = "credentials" // of the agents
	Sources     = "sources"     // repositories at addresses that are not dialled
	Accounts    = "accounts"    // of deployments
	Secrets     = "secrets"     // of workspaces
)

// A Finding is the result of one check.
type Finding struct {
	// Check is its name.
	Check string `json:"check"`
	// Verdict is ok, warn or FAIL.
	Verdict Verdict `json:"verdict"`
	// Message says what is so.
	Message string `json:"message"`
	// Hint says what to do.
	Hint string `json:"hint,omitempty"`
	// Skipped is true where the check could not look.
	Skipped bool `json:"skipped,omitempty"`
}

// A ConnectionStep is one part of the way to a server that failed.
type ConnectionStep struct {
	Part string // such as "name", "connection", "TLS", "credentials"
	Text string
}

// Observed is all that is judged.
type Observed struct {
	Now       time.Time
	Namespace string // of the manager

	Server ServerSeen
	// Manager is nil where what speaks of it may not be read, with Unread as the
	// reason.
	Manager *view.Manager
	Others  []string // namespaces of further managers, sorted
	Unread  map[string]string

	CRDs    []CRD
	Address AddressSeen
	Tokens  []*fleet.ClusterRegistrationToken
	Agents  []AgentSeen

	Program string // version of the program that looks
	Sources []SourceSeen
	// Accounts are those of AccountsOf of all deployments, by namespace and name.
	Accounts []AccountSeen
	Roles    []RoleSeen // in workspaces
	Bundles  BundlesSeen
	// Shared are the objects of all deployments that two bundles have.
	Shared Sharing
}

// ServerSeen is how the API server answers.
type ServerSeen struct {
	URL     string
	Version string
	Took    time.Duration
	Failed  *ConnectionStep
}

// A CRD is one of Fleet's kinds as the server has it.
type CRD struct {
	Name     string // "bundles.fleet.cattle.io"
	Revision int    // 0: it does not say
}

// AddressSeen is the address that the manager gives to agents.
type AddressSeen struct {
	Known  bool            // the manager's configuration could be read
	URL    string          // empty: none is configured
	Failed *ConnectionStep // from where the command runs
}

// An AgentSeen is a Cluster and the sign of life of its agent.
type AgentSeen struct {
	Cluster   *fleet.Cluster
	Heartbeat time.Time // by the API server's clock
	Protocol  int       // 0: it does not say
}

// Check makes all checks. If the server does not answer, it makes no others.
func Check(s Observed) []Finding {
	first := server(s)
	if s.Server.Failed != nil {
		return []Finding{first}
	}
	out := []Finding{first}
	for _, check := range []struct {
		name string
		of   func(Observed) []Finding
	}{
		{Manager, manager},
		{CRDs, crds},
		{Address, address},
		{Sources, sources},
		{Tokens, tokens},
		{Agents, agents},
		{Credentials, credentials},
		{Clocks, clocks},
		{Identity, identity},
		{Accounts, accounts},
		{Secrets, secrets},
		{Resources, resources},
		{Templates, templates},
		{Kustomize, kustomizations},
		{Reads, reads},
		{Objects, sharedFindings},
	} {
		if why := s.Unread[check.name]; why != "" {
			out = append(out, Finding{Check: check.name, Verdict: Warn, Message: "not looked at: " + why, Skipped: true})
			continue
		}
		out = append(out, check.of(s)...)
	}
	return out
}

// Skipped reports whether most checks could not look, and how many of how many.
func Skipped(findings []Finding) (most bool, skipped, of int) {
	checks := map[string]bool{}
	for _, f := range findings {
		if checks[f.Check] = true; f.Skipped {
			skipped++
		}
	}
	return 2*skipped > len(checks), skipped, len(checks)
}

// WorstVerdict returns the worst verdict of findings; OK where there are none.
func WorstVerdict(findings []Finding) Verdict {
	worst := OK
	for _, f := range findings {
		if f.Verdict == Fail || f.Verdict == Warn && worst == OK {
			worst = f.Verdict
		}
	}
	return worst
}
