package registration

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// An Installation is the identity of one manager over time. The epoch grows when its
// objects are found in another cluster than the one they were written in: after a restore
// or a copy.
type Installation struct {
	ID         string
	Epoch      int    // from 1
	ClusterUID string // of namespace kube-system
}

// Keys of the ConfigMap fleet-installation.
const (
	keyID         = "id"
	keyEpoch      = "epoch"
	keyClusterUID = "clusterUID"
)

// Identify reads the data of ConfigMap fleet-installation in the cluster with
// the given UID. fresh is the id of an installation that has none. The reason
// is empty if the data can stay as they are.
func Identify(data map[string]string, clusterUID, fresh string) (Installation, string) {
	i := Installation{ID: data[keyID], ClusterUID: clusterUID}
	i.Epoch, _ = strconv.Atoi(data[keyEpoch])
	switch {
	case !validID(i.ID):
		return Installation{ID: fresh, Epoch: 1, ClusterUID: clusterUID}, "first start"
	case i.Epoch < 1:
		i.Epoch = 1
		return i, "epoch was not a number from 1"
	case data[keyClusterUID] != clusterUID:
		i.Epoch++
		return i, fmt.Sprintf("was in cluster %q before", data[keyClusterUID])
	}
	return i, ""
}

// ConfigMap returns the ConfigMap that keeps an installation. It is not labeled as
// managed, so no cleanup deletes it.
func (i Installation) ConfigMap(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fleet.ConfigMapInstallation,
			Labels: map[string]string{fleet.LabelManagerID: i.ID},
		},
		Data: map[string]string{keyID: i.ID, keyEpoch: strconv.Itoa(i.Epoch), keyClusterUID: i.ClusterUID},
	}
}

// Mark returns what the manager writes on its Clusters.
func (i Installation) Mark() Mark {
	return Mark{ID: i.ID, Epoch: i.Epoch, Protocol: fleet.ProtocolVersion}
}

// A Mark says which manager a Cluster belongs to, and which protocol that
// manager speaks; 0 is one that did not say.
type Mark struct {
	ID       string
	Epoch    int
	Protocol int
}

// String returns "<id>/<epoch>/<protocol>", the value of the annotation
// fleet.cattle.io/manager.
func (m Mark) String() string { return fmt.Sprintf("%s/%d/%d", m.ID, m.Epoch, m.Protocol) }

// ParseMark reads what String wrote, with or without the protocol.
func ParseMark(s string) (Mark, error) {
	parts := strings.Split(s, "/")
	if len(parts) != 2 && len(parts) != 3 || !validID(parts[0]) {
		return Mark{}, fmt.Errorf("manager %q: want <id>/<epoch>/<protocol>", s)
	}
	m := Mark{ID: parts[0]}
	for i, into := range []*int{&m.Epoch, &m.Protocol} {
		if i+1 >= len(parts) {
			break
		}
		n, err := strconv.Atoi(parts[i+1])
		if err != nil || n < 0 || strconv.Itoa(n) != parts[i+1] {
			return Mark{}, fmt.Errorf("manager %q: %q is not a number", s, parts[i+1])
		}
		*into = n
	}
	return m, nil
}

// validID reports whether an installation id can stand in a label and a mark.
func validID(id string) bool {
	if id == "" || len(id) > 63 {
		return false
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}
