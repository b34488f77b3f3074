package bundle

import (
	"maps"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// checkScans refuses image scans that no program would act on.
func (a *assembly) checkScans() {
	report := func(message, hint string, keys ...any) {
		line, column := a.file.Position(append([]any{"imageScans"}, keys...)...)
		a.addFinding(finding.Finding{
			Path: a.file.Path, Line: line, Column: column, Severity: finding.Error, Rule: finding.RuleValue, Message: message, Hint: hint,
		})
	}
	if len(a.file.ImageScans) > 0 && !a.o.ImageScans {
		report("imageScans: image scanning is switched off in this Fleet", "remove imageScans, or have image scanning switched on")
		return
	}
	for i, s := range a.file.ImageScans {
		if s.Image != "" && s.TagName == "" {
			report("an image scan must have a tagName", "", i)
		}
	}
}

// scans are the ImageScans of a bundle. They are named after the directory, not
// after the name that fleet.yaml gives the bundle.
func (a *assembly) scans(b *fleet.Bundle) []*fleet.ImageScan {
	if b == nil {
		return nil
	}
	var list []*fleet.ImageScan
	for i, spec := range a.file.ImageScans {
		if spec.Image == "" {
			continue
		}
		s := &fleet.ImageScan{}
		s.TypeMeta = metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "ImageScan"}
		s.Name = naming.SafeConcat("imagescan", naming.BundleName(a.o.Repo, a.dir.Path, a.dir.Options), strconv.Itoa(i))
		s.Namespace = a.o.Namespace
		s.Labels, s.Annotations = maps.Clone(b.Labels), maps.Clone(b.Annotations)
		s.Spec = *spec.DeepCopy()
		s.Spec.GitRepoName = b.Labels[fleet.LabelRepoName]
		list = append(list, s)
	}
	return list
}
