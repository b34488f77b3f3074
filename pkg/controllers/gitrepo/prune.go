package gitrepo

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A pruning asks for Bundles of a GitRepo to be removed, on the GitRepo itself.
// The manager, which knows what they have deployed, decides when. Until then they
// are as they were, and a word less takes it back.
type pruning struct {
	w    *Worker
	repo *fleet.GitRepo
}

func (p *pruning) Retract(ctx context.Context, mark string) error {
	if asked := p.repo.Annotations[fleet.AnnotationPrune]; asked == "" || asked == mark {
		return nil
	}
	return p.Ask(ctx, "")
}

// Ask writes the mark on the GitRepo; an empty one asks for nothing.
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

// asked reports whether a Bundle that is gone was one that its GitRepo has asked to
// remove.
func asked(repo *fleet.GitRepo, b metav1.Object) bool {
	mark := b.GetAnnotations()[fleet.AnnotationPrune]
	return mark != "" && mark == repo.Annotations[fleet.AnnotationPrune]
}

// stripBundle drops of a Bundle's metadata what is not read here.
func stripBundle(m *metav1.PartialObjectMetadata) {
	mark := m.Annotations[fleet.AnnotationPrune]
	stripMeta(m)
	if mark != "" {
		m.Annotations = map[string]string{fleet.AnnotationPrune: mark}
	}
}
