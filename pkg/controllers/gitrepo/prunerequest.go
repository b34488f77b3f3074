package gitrepo

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A pruning requests the deletion of Bundles of a GitRepo by an annotation on the
// GitRepo. The controller role, which knows the deployed objects, decides when they are
// deleted. Until then a removed annotation cancels the request.
type pruning struct {
	w    *Worker
	repo *fleet.GitRepo
}

// Retract removes a request with another mark than the given one.
func (p *pruning) Retract(ctx context.Context, mark string) error {
	if asked := p.repo.Annotations[fleet.AnnotationPrune]; asked == "" || asked == mark {
		return nil
	}
	return p.Ask(ctx, "")
}

// Ask writes a request with a mark to the GitRepo; an empty mark removes the request.
func (p *pruning) Ask(ctx context.Context, mark string) error {
	asked, err := p.w.repos.Mutate(ctx, p.repo, func(repo *fleet.GitRepo) error {
		if mark == "" {
			delete(repo.Annotations, fleet.AnnotationPrune)
		} else {
			metav1.SetMetaDataAnnotation(&repo.ObjectMeta, fleet.AnnotationPrune, mark)
		}
		return nil
	})
	if err == nil {
		stripRepo(asked)
		p.repo = asked
	}
	return kube.IgnoreGone(err)
}

// prunedByRepo reports whether the GitRepo of a deleted Bundle had requested the
// deletion.
func prunedByRepo(repo *fleet.GitRepo, b metav1.Object) bool {
	mark := b.GetAnnotations()[fleet.AnnotationPrune]
	return mark != "" && mark == repo.Annotations[fleet.AnnotationPrune]
}

// stripBundle drops the metadata of a Bundle that this package does not read.
func stripBundle(m *metav1.PartialObjectMetadata) {
	mark := m.Annotations[fleet.AnnotationPrune]
	stripMeta(m)
	if mark != "" {
		m.Annotations = map[string]string{fleet.AnnotationPrune: mark}
	}
}
