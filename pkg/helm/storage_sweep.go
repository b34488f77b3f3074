package helm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/metadata"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// partGrace is how long a part is left alone that no record names: its record
// may be about to be written.
const partGrace = 10 * time.Minute

// SweepParts removes parts of records that no record names and that have been
// there for 10 minutes as of now: a process was killed between two requests. It
// lists the metadata of all parts that agents of this namespace wrote in the
// cluster, and the records of their releases.
func (c *Client) SweepParts(ctx context.Context, now time.Time) error {
	client, err := metadata.NewForConfig(c.cfg.REST)
	if err != nil {
		return fmt.Errorf("sweep parts of records: %w", err)
	}
	sweep := partSweep{
		Client: c, parts: client.Resource(corev1.SchemeGroupVersion.WithResource("secrets")), now: now,
		named: map[release.ID]map[string]bool{},
	}
	opts := metav1.ListOptions{LabelSelector: labels.Set{fleet.LabelAgentNamespace: c.cfg.AgentNamespace}.String() +
		"," + fleet.LabelReleasePartOf, Limit: 10 * recordPage}
	for {
		list, err := sweep.parts.List(ctx, opts)
		if err != nil {
			return fmt.Errorf("list parts of records: %w", err)
		}
		for i := range list.Items {
			if err := sweep.deleteIfUnused(ctx, &list.Items[i]); err != nil {
				return err
			}
		}
		if list.Continue == "" {
			return nil
		}
		opts.Continue = list.Continue
	}
}

// A partSweep is one pass over all parts.
type partSweep struct {
	*Client
	parts metadata.Getter
	now   time.Time
	named map[release.ID]map[string]bool // names of the parts that records have
}

// deleteIfUnused deletes a part that no record needs.
func (s partSweep) deleteIfUnused(ctx context.Context, part *metav1.PartialObjectMetadata) error {
	if s.now.Sub(writtenAt(part)) < partGrace {
		return nil
	}
	id := release.ID{Namespace: part.Namespace, Name: part.Labels[fleet.LabelReleasePartOf]}
	if s.named[id] == nil {
		var err error
		if s.named[id], err = s.store.partsOf(ctx, id); err != nil {
			return err
		}
	}
	if s.named[id][part.Name] {
		return nil
	}
	err := s.parts.Namespace(part.Namespace).Delete(ctx, part.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &part.UID, ResourceVersion: &part.ResourceVersion}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove part %s/%s of a record: %w", part.Namespace, part.Name, err)
	}
	return nil
}

// writtenAt is when a part was written last.
func writtenAt(part metav1.Object) time.Time {
	at := part.GetCreationTimestamp().Time
	if again, err := time.Parse(time.RFC3339, part.GetAnnotations()[fleet.AnnotationContentRenewed]); err == nil && again.After(at) {
		return again
	}
	return at
}

// partsOf are the names of the parts that the records of a release name.
func (s *recordStore) partsOf(ctx context.Context, id release.ID) (map[string]bool, error) {
	list, err := s.records(ctx, id)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, r := range list {
		for i := range r.body.parts {
			out[partName(id.Name, r.body, i)] = true
		}
	}
	return out, nil
}
