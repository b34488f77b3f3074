package main

import (
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

// documentVersion is the apiVersion of documents for programs.
const documentVersion = "cli.fleet.cattle.io/v1"

// AgentStatus is what fleet-agent status prints for programs. Fields are only
// ever added.
type AgentStatus struct {
	// APIVersion is cli.fleet.cattle.io/v1.
	APIVersion string `json:"apiVersion"`
	// Kind is AgentStatus.
	Kind string `json:"kind"`
	// At is when it was looked.
	At time.Time `json:"at"`
	// Cluster is "<workspace>/<name>" at the manager; empty without a
	// registration.
	Cluster string `json:"cluster,omitempty"`
	// Manager is how it stands with the manager.
	Manager ManagerContact `json:"manager"`
	// Kept is what the agent works from.
	Kept StoredState `json:"kept"`
	// Bundles are the deployments, by name.
	Bundles []BundleView `json:"bundles"`
	// Journal are the last decisions, the newest last.
	Journal []journal.Entry `json:"journal"`
}

// ManagerContact is how it stands with the manager.
type ManagerContact struct {
	// Registered reports whether the agent has a credential.
	Registered bool `json:"registered"`
	// URL of the manager's API server.
	URL string `json:"url,omitempty"`
	// Reached reports whether it answered the last check-in.
	Reached bool `json:"reached"`
	// Refused reports that it answers, but not to this credential.
	Refused bool `json:"refused,omitempty"`
	// Since is since when that is so.
	Since *time.Time `json:"since,omitempty"`
	// Next is when an agent with a schedule connects next.
	Next *time.Time `json:"next,omitempty"`
	// NextTry is when an agent that is always connected tries to reach it next, where
	// that is known.
	NextTry *time.Time `json:"nextTry,omitempty"`
	// Error is why it is not reached.
	Error string `json:"error,omitempty"`
	// Hint is what helps.
	Hint string `json:"hint,omitempty"`
}

// StoredState is what is kept in the agent's own cluster.
type StoredState struct {
	// Until is when something was kept there last.
	Until *time.Time `json:"until,omitempty"`
	// Bytes is how much it is.
	Bytes int64 `json:"bytes"`
}

// BundleView is one deployment.
type BundleView struct {
	// Name of the BundleDeployment.
	Name string `json:"name"`
	// Commit that it was made from.
	Commit string `json:"commit,omitempty"`
	// State of the deployment.
	State fleet.BundleState `json:"state"`
	// Since is when the running revision was deployed.
	Since *time.Time `json:"since,omitempty"`
	// Message is the first thing that is wrong.
	Message string `json:"message,omitempty"`
	// Alone is what was done last while the manager was away.
	Alone *journal.Entry `json:"alone,omitempty"`
}

func documentOf(o agent.Overview, now time.Time) AgentStatus {
	doc := AgentStatus{
		APIVersion: documentVersion, Kind: "AgentStatus", At: now.UTC(), Cluster: o.Cluster,
		Manager: ManagerContact{
			Registered: o.Registered, URL: o.URL, Reached: o.Reached, Refused: o.Refused, Since: utcPointer(o.Since), Next: utcPointer(o.Next), NextTry: utcPointer(o.NextTry(now).Truncate(time.Second)), Error: o.Error, Hint: o.Hint,
		},
		Kept:    StoredState{Until: utcPointer(o.Accepted), Bytes: o.KeptBytes},
		Bundles: []BundleView{}, Journal: o.Journal,
	}
	for _, r := range o.Rows {
		doc.Bundles = append(doc.Bundles, BundleView{
			Name: r.Bundle, Commit: r.Commit, State: r.State, Since: utcPointer(r.Since), Message: r.Message, Alone: r.Alone,
		})
	}
	if doc.Journal == nil {
		doc.Journal = []journal.Entry{}
	}
	return doc
}

// utcPointer is a time in UTC, nil for none.
func utcPointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
