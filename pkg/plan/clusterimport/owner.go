package clusterimport

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A Mark says whose an object in a downstream cluster is.
type Mark struct {
	Manager   string // installation id
	Workspace string
	Cluster   string
	// Former are Clusters, "<namespace>/<name>", that this one replaces: it has moved from
	// their workspaces. Objects with their marks are its own.
	Former []string
}

// MarkFor returns the mark of what a manager makes for a Cluster.
func MarkFor(manager string, c *fleet.Cluster) Mark {
	return Mark{Manager: manager, Workspace: c.Namespace, Cluster: c.Name}
}

// Labels returns the labels, which with Annotations mark an object.
func (m Mark) Labels() map[string]string { return map[string]string{fleet.LabelManagerID: m.Manager} }

// Annotations returns the annotations. They name the Cluster, whose name may be longer than
// a label.
func (m Mark) Annotations() map[string]string {
	return map[string]string{fleet.AnnotationCluster: m.Cluster, fleet.AnnotationClusterNamespace: m.Workspace}
}

// ForeignOwner returns who owns an object that must be left alone. It is empty for an object
// that the manager may change and delete for the bearer of the mark.
//
// known reports that the agent beside the object works with a credential of this manager
// for this Cluster: the chart, or an older manager, then made the objects without a mark.
// An object whose mark names another owner is never taken.
func (m Mark) ForeignOwner(have metav1.Object, known bool) string {
	manager := have.GetLabels()[fleet.LabelManagerID]
	workspace, cluster := have.GetAnnotations()[fleet.AnnotationClusterNamespace], have.GetAnnotations()[fleet.AnnotationCluster]
	switch {
	case manager == "" && known:
		return ""
	case manager == "":
		return "was not made by this manager"
	case manager != m.Manager:
		return fmt.Sprintf("belongs to manager %s", manager)
	case cluster == "" && workspace == "":
		return ""
	case (cluster != m.Cluster || workspace != m.Workspace) && !slices.Contains(m.Former, workspace+"/"+cluster):
		return fmt.Sprintf("belongs to Cluster %s/%s", workspace, cluster)
	}
	return ""
}

// FormerOf returns the Cluster, "<namespace>/<name>", that an object was made for and whose
// place the bearer of the mark takes; empty: it was made for none of them.
func (m Mark) FormerOf(have metav1.Object) string {
	name := have.GetAnnotations()[fleet.AnnotationClusterNamespace] + "/" + have.GetAnnotations()[fleet.AnnotationCluster]
	if have.GetLabels()[fleet.LabelManagerID] != m.Manager || !slices.Contains(m.Former, name) {
		return ""
	}
	return name
}

// An Account is the service account that a token was made for.
type Account struct {
	Namespace, Name, UID string
}

// claims are the claims in tokens of service accounts: in those that live in a
// Secret, and in those that end. Source: Kubernetes, pkg/serviceaccount.
type claims struct {
	OldNamespace string `json:"kubernetes.io/serviceaccount/namespace"`
	OldName      string `json:"kubernetes.io/serviceaccount/service-account.name"`
	OldUID       string `json:"kubernetes.io/serviceaccount/service-account.uid"`
	Kubernetes   struct {
		Namespace string `json:"namespace"`
		Account   struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

// AccountOf returns the account that a token was made for, without verifying the token. A
// text that is no such token gives no account.
//
// That is enough to recognize an agent: a user who writes another account's UID into a
// Secret of their own cluster gets nothing but this manager's agent.
func AccountOf(token string) Account {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return Account{}
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	var c claims
	if err != nil || json.Unmarshal(text, &c) != nil {
		return Account{}
	}
	if c.OldUID != "" {
		return Account{Namespace: c.OldNamespace, Name: c.OldName, UID: c.OldUID}
	}
	return Account{Namespace: c.Kubernetes.Namespace, Name: c.Kubernetes.Account.Name, UID: c.Kubernetes.Account.UID}
}
