package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// Sweep deletes chunks that no record names, and returns their number: a process that
// ends between two writes leaves them. The caller calls it after Load, before it
// accepts anything.
func (s *Store) Sweep(ctx context.Context) (int, error) {
	pieces, err := s.client.ListMeta(ctx, corev1.SchemeGroupVersion.WithKind("Secret"), selectSecrets(s.namespace, ","+labelChunkOf))
	if err != nil {
		return 0, fmt.Errorf("sweep the agent's store: %w", err)
	}
	named := map[string]bool{}
	for _, r := range s.All() {
		for i := 1; i < r.Chunks; i++ {
			named[chunkName(r.Key, i)] = true
		}
	}
	left := map[string]kube.Key{}
	for _, p := range pieces {
		if !named[p.Name] {
			left[p.Name] = kube.KeyOf(p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if err := s.secrets.Delete(ctx, left[name], kube.Precondition{}); err != nil {
			return 0, fmt.Errorf("sweep the agent's store: %w", err)
		}
	}
	return len(left), nil
}
