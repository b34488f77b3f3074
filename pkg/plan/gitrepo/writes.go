package gitrepo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// A Write is one Bundle that is new or changed.
type Write struct {
	Old *fleet.Bundle // nil: it is new
	// New carries no Helm values, only their hash.
	New *fleet.Bundle
	// Values are the data of the Secret that goes before the Bundle; nil: the Bundle needs
	// none. Secret reports that it has to be written.
	Values map[string][]byte
	Secret bool
	// In is where the resources are kept. If that is not the Bundle itself, New
	// has none, and Content are what has to be there before the Bundle. Access
	// reports that the copy of the registry's Secret has to be written.
	In      ResourcePlace
	Content content.Manifest
	Access  bool
	Reason  string
}

// A ResourcePlace is where the resources of a Bundle are kept.
type ResourcePlace string

// The places.
const (
	// Inline: in the Bundle.
	Inline ResourcePlace = ""
	// Apart: in a Content, or several, that the Bundle names.
	Apart ResourcePlace = "content"
	// Registry: in an artifact of an OCI registry.
	Registry ResourcePlace = "registry"
)

// InlineBytes is how large the JSON of a Bundle may be with its resources in it:
// 1 MiB.
const InlineBytes = 1 << 20

// Writes are the changes of a GitRepo's Bundles, in this order: first all of Put, and only
// if all of them went through, Remove.
type Writes struct {
	Put    []Write
	Remove []*fleet.Bundle
	// Unchanged is how many Bundles are as they should be.
	Unchanged int
	// Held says why nothing is removed although something might have to be.
	Held string
	// Findings are about Bundles that are refused or kept here. Taken are the names among
	// them that another owner has; they may become free.
	Findings []finding.Finding
	Taken    []string
	// Err, a reconcile.RequeueAfter, says that a Bundle of that name is still going.
	Err error
}

// Present are the objects that exist on the cluster.
type Present struct {
	// Own are the Bundles of the GitRepo. Adopted are Bundles without an owner that are
	// written like its own, but never removed.
	Own, Adopted []*fleet.Bundle
	// Others describes, for names of Bundles that are not the GitRepo's, their owner.
	Others map[string]string
	// Secrets are the data of the values Secrets of the GitRepo's Bundles.
	Secrets map[string]map[string][]byte
	// Registry, if not nil, are the data of the Secret of the registry that
	// resources are kept in, and Access those of its copies by artifact.
	Registry map[string][]byte
	Access   map[string]map[string][]byte
	// Unmoved reports whether a bundle of this name is made of the same files and
	// downloads as the one that was written last. Nil: of none is that known.
	Unmoved func(name string) bool
}

// PlanWrites compares what a repository yields with what exists.
//
// A Bundle that differs in nothing but its commit is not written: the label names the
// commit that last changed that Bundle. So a Bundle that differs only because the GitRepo
// does (it is paused, it has other targets) keeps its label. A broken bundle keeps its last
// version. PlanWrites does not overwrite a Bundle of another owner.
//
// A bundle whose directory exists but yields nothing any more stays, with an error; it is
// removed only when its directory is gone. Bundles that are no longer produced are removed,
// unless a new one could not be made, or two directories have one name: that may be what
// replaces them.
func PlanWrites(set bundle.Set, p Present) Writes {
	var w Writes
	own := make(map[string]*fleet.Bundle, len(p.Own))
	for _, b := range slices.Concat(p.Own, p.Adopted) {
		own[b.Name] = b
	}
	produced, named := map[string]bool{}, brokenNames(set.Results)
	for _, r := range set.Results {
		produced[r.Name] = true
		switch {
		case r.Broken() && r.Name != "" && named[r.Name] > 1:
			w.holdAll(fmt.Sprintf("%s: bundle %q is also that of another directory", r.Dir.Path, r.Name))
		case r.Broken() && r.Name == "":
			w.holdAll(fmt.Sprintf("%s: nobody can say which bundle it is", r.Dir.Path))
		case r.Empty && own[r.Name] != nil:
			w.Findings = append(w.Findings, r.EmptyFinding())
		case r.Broken() && own[r.Name] == nil:
			w.holdAll(fmt.Sprintf("%s: bundle %q could not be made", r.Dir.Path, r.Name))
		case r.Broken(), r.Bundle == nil:
			if r.Bundle == nil && !r.Broken() {
				produced[r.Name] = false // an empty directory is no bundle
			}
		default:
			w.addBundle(r, own[r.Name], p)
		}
	}
	for _, f := range finding.Errors(set.Findings) {
		w.holdAll(f.Short())
	}
	if w.Err != nil {
		w.holdAll(w.Err.Error())
	}
	if w.Held != "" {
		return w
	}
	for _, b := range p.Own {
		if !produced[b.Name] && b.DeletionTimestamp == nil {
			w.Remove = append(w.Remove, b)
		}
	}
	slices.SortFunc(w.Remove, func(a, b *fleet.Bundle) int { return strings.Compare(a.Name, b.Name) })
	return w
}

// brokenNames counts the results without a bundle by the name that they would have: two of
// one name break each other.
func brokenNames(results []bundle.Result) map[string]int {
	named := map[string]int{}
	for _, r := range results {
		if r.Broken() {
			named[r.Name]++
		}
	}
	return named
}

// Commits returns the commits in the labels of the Bundles that stay, by name, once all of
// Put was written. refused are names that were not written after all.
func (w Writes) Commits(own []*fleet.Bundle, refused map[string]bool) map[string]string {
	out := make(map[string]string, len(own)+len(w.Put))
	for _, b := range own {
		if b.DeletionTimestamp == nil {
			out[b.Name] = b.Labels[fleet.LabelCommit]
		}
	}
	for _, put := range w.Put {
		if !refused[put.New.Name] {
			out[put.New.Name] = put.New.Labels[fleet.LabelCommit]
		}
	}
	for _, b := range w.Remove {
		delete(out, b.Name)
	}
	return out
}

func (w *Writes) holdAll(why string) {
	if w.Held == "" {
		w.Held = why
	}
}

// addBundle adds one Bundle, unless it is as it should be or cannot be had.
func (w *Writes) addBundle(r bundle.Result, old *fleet.Bundle, p Present) {
	refuse := func(rule, message string) {
		w.Findings = append(w.Findings, finding.Finding{Path: r.Dir.Path, Severity: finding.Error, Rule: rule, Message: message})
		w.holdAll(r.Dir.Path + ": " + message)
	}
	if owner, taken := p.Others[r.Name]; taken {
		w.Taken = append(w.Taken, r.Name)
		refuse(finding.RuleConflict, fmt.Sprintf("bundle %q exists and belongs to %s; it is not overwritten", r.Name, owner))
		return
	}
	if old != nil && old.DeletionTimestamp != nil {
		w.Err = reconcile.RequeueError(fleet.ReasonProgressing, 0, fmt.Errorf("bundle %q is being removed; it is made anew afterwards", r.Name))
		return
	}
	write := Write{Old: old, New: r.Bundle.DeepCopy()}
	values, err := options.BundleValuesSecretData(write.New.Spec)
	if err != nil {
		refuse(finding.RuleType, "values cannot be stored: "+err.Error())
		return
	}
	if len(values) > 0 {
		write.Values = values
		write.Secret = !maps.EqualFunc(values, p.Secrets[r.Name], bytes.Equal)
	}
	write.New.Spec.ValuesHash = options.BundleValuesHash(values)
	options.StripBundleValues(&write.New.Spec)
	if write.New.Spec.TargetCustomizationMode == "" { // as the API server would
		write.New.Spec.TargetCustomizationMode = fleet.TargetCustomizationFirstMatch
	}
	write.New.Finalizers = []string{fleet.FinalizerBundle}
	write.setResourcePlace(p)
	switch {
	case old == nil:
		write.Reason = "new"
	case !equal(old, write.New):
		write.New, write.Reason = p.updateBundle(old, write.New), "changed"
	case write.Secret:
		write.New = old
		write.Reason = "its values were gone"
	case write.Access:
		write.New = old
		write.Reason = "the registry's Secret has changed"
	default:
		w.Unchanged++
		return
	}
	w.Put = append(w.Put, write)
}

// updateBundle is UpdateBundle with the commit of the existing Bundle, if b is known to be made of the
// same files and downloads.
func (p Present) updateBundle(old, b *fleet.Bundle) *fleet.Bundle {
	if commit := old.Labels[fleet.LabelCommit]; commit != "" && p.Unmoved != nil && p.Unmoved(b.Name) {
		b.Labels[fleet.LabelCommit] = commit
	}
	return UpdateBundle(old, b)
}

// setResourcePlace decides where the resources are kept: in the registry if there is one,
// else in the Bundle as long as they fit.
func (w *Write) setResourcePlace(p Present) {
	spec := &w.New.Spec
	m := content.Manifest{Resources: spec.Resources}
	switch {
	case p.Registry != nil:
		id := content.ID(m)
		w.In, w.Content, spec.ContentsID = Registry, m, id
		w.Access = !maps.EqualFunc(p.Registry, p.Access[id], bytes.Equal)
	case isAboveInlineBytes(w.New):
		w.In, w.Content = Apart, m
		if w.New.Annotations == nil {
			w.New.Annotations = map[string]string{}
		}
		w.New.Annotations[fleet.AnnotationContent] = content.ID(m)
		w.New.Annotations[fleet.AnnotationContentLargest] = content.Largest(m)
	default:
		return
	}
	spec.Resources = nil
}

// escaped is how many times longer a text can be in JSON.
const escaped = 6

// isAboveInlineBytes reports whether the JSON of a Bundle is above InlineBytes.
func isAboveInlineBytes(b *fleet.Bundle) bool {
	sum := 0
	for _, r := range b.Spec.Resources {
		sum += len(r.Content)
	}
	if sum <= InlineBytes/2/escaped {
		return false // options are small, and measuring costs more than asking
	}
	raw, err := json.Marshal(b)
	return err == nil && len(raw) > InlineBytes
}

// equal compares all fields that the manager writes, except the commit.
func equal(a, b *fleet.Bundle) bool {
	return maps.Equal(withoutCommit(a.Labels), withoutCommit(b.Labels)) &&
		maps.Equal(withoutApproval(a.Annotations), withoutApproval(b.Annotations)) && bytes.Equal(form(a.Spec), form(b.Spec))
}

func withoutCommit(labels map[string]string) map[string]string {
	out := maps.Clone(labels)
	delete(out, fleet.LabelCommit)
	return out
}

// approval are the annotations of a Bundle that people and the manager set, and no
// repository.
var approval = []string{fleet.AnnotationDeletionHeld, fleet.AnnotationApproveDeletion, fleet.AnnotationDeletionBudget, fleet.AnnotationProtect}

func withoutApproval(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	for _, key := range approval {
		delete(out, key)
	}
	return out
}

// form is a spec in the one form that both sides have in common.
func form(spec fleet.BundleSpec) []byte {
	if spec.TargetCustomizationMode == "" {
		spec.TargetCustomizationMode = fleet.TargetCustomizationFirstMatch
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil // values that have no JSON are not in a spec without values
	}
	return raw
}

// UpdateBundle returns an existing Bundle with the fields replaced that the manager writes. A
// repository does not decide whether deployments of the Bundle may be removed.
func UpdateBundle(old, b *fleet.Bundle) *fleet.Bundle {
	out := old.DeepCopy()
	out.Labels, out.Annotations, out.Spec = b.Labels, withoutApproval(b.Annotations), b.Spec
	for _, key := range approval {
		if text, ok := old.Annotations[key]; ok {
			if out.Annotations == nil {
				out.Annotations = map[string]string{}
			}
			out.Annotations[key] = text
		}
	}
	return out
}
