package clusterimport

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// AnnotationImported on a Cluster is what the manager has last done to install
// its agent: a Record. The status says the same to readers, but an agent may
// write the status of its own Cluster, and not its metadata.
const AnnotationImported = "fleet.cattle.io/imported"

// A Record is one import.
type Record struct {
	Terms
	// Since is when the registration token was made that the agent was given. A
	// request that is not older was made by the agent after this import.
	Since      time.Time `json:"since"`
	Namespace  string    `json:"namespace"`           // of the agent
	AdoptFrom  string    `json:"adoptFrom,omitempty"` // namespace of the agent before this one
	Generation int64     `json:"generation"`
	Secret     string    `json:"secret,omitempty"`     // "<uid>/<version>" of the kubeconfig's Secret
	FromSecret bool      `json:"fromSecret,omitempty"` // the Secret said where the manager is
	WasOnline  bool      `json:"wasOnline,omitempty"`  // the agent checked in before
	UID        string    `json:"uid,omitempty"`        // of the cluster's namespace kube-system
	// Own is a digest of what the Cluster asked of its agent, as long as the agent has not
	// deployed that itself: until then only an import takes a setting back.
	Own string `json:"own,omitempty"`
}

// String returns the record as it stands in the annotation.
func (r Record) String() string {
	r.Since = r.Since.UTC()
	text, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	return string(text)
}

// RecordOf returns the record of the last import of a Cluster, or nil if there was none.
// For a Cluster that rancher/fleet has imported, the record comes from the status and has
// no time.
func RecordOf(c *fleet.Cluster) *Record {
	var r Record
	if text := c.Annotations[AnnotationImported]; text != "" && json.Unmarshal([]byte(text), &r) == nil {
		return &r
	}
	s := &c.Status
	if s.AgentDeployedGeneration == nil || !s.AgentMigrated || !s.CattleNamespaceMigrated || !s.AgentNamespaceMigrated {
		return nil
	}
	return &Record{
		Terms:      Terms{URL: s.APIServerURL, CAHash: s.APIServerCAHash, TLSMode: s.AgentTLSMode},
		Namespace:  s.Agent.Namespace,
		Generation: *s.AgentDeployedGeneration,
	}
}

// MadeByRancherFleet reports whether a record was made by rancher/fleet.
func (r *Record) MadeByRancherFleet() bool { return r.Since.IsZero() }

// AgentRegistered reports whether the agent has registered since its last import: one of
// the requests that were granted for the Cluster was made after it.
func (r *Record) AgentRegistered(granted []*fleet.ClusterRegistration) bool {
	for _, g := range granted {
		if g.Status.Granted && !g.CreationTimestamp.Time.Before(r.Since) {
			return true
		}
	}
	return false
}

// Annotate returns a Cluster with a record, in the annotation and, for readers, in the status
// fields of rancher/fleet.
func (r Record) Annotate(c *fleet.Cluster) *fleet.Cluster {
	out := c.DeepCopy()
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[AnnotationImported] = r.String()
	return out
}

// NoteStatus puts a record into the status fields of rancher/fleet.
func (r Record) NoteStatus(s *fleet.ClusterStatus) {
	generation := r.Generation
	s.AgentDeployedGeneration = &generation
	s.AgentMigrated, s.CattleNamespaceMigrated, s.AgentNamespaceMigrated = true, true, true
	s.AgentConfigChanged = false
	s.APIServerURL, s.APIServerCAHash, s.AgentTLSMode = r.URL, r.CAHash, r.TLSMode
}

// VersionOf returns what a Record keeps of the Secret with a kubeconfig.
func VersionOf(secret metav1.Object) string {
	return string(secret.GetUID()) + "/" + secret.GetResourceVersion()
}
