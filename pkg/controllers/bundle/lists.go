package bundle

import (
	"crypto/sha256"
	"encoding/json"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// maxLists is how many distinct lists are kept for sharing; then sharing
// begins anew. Lists in use stay alive by their users.
const maxLists = 2048

// lists shares equal lists of deployed objects between deployments.
type lists struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte][]fleet.BundleDeploymentResource
}

func newLists() *lists {
	return &lists{known: map[[sha256.Size]byte][]fleet.BundleDeploymentResource{}}
}

// share is a list equal to l but for the times of creation, which differ on
// every cluster and which nobody reads here. l must not be used afterwards.
func (s *lists) share(l []fleet.BundleDeploymentResource) []fleet.BundleDeploymentResource {
	if len(l) == 0 {
		return nil
	}
	for i := range l {
		l[i].CreatedAt = metav1.Time{}
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return l
	}
	key := sha256.Sum256(raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if first, ok := s.known[key]; ok {
		return first
	}
	if len(s.known) >= maxLists {
		clear(s.known)
	}
	s.known[key] = l
	return l
}
