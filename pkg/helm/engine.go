package helm

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	helmkube "helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/resource"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"

	helmrelease "helm.sh/helm/v3/pkg/release"
)

// Marks that Helm puts on every object of a release.
const (
	markReleaseName      = fleet.AnnotationHelmRelease
	markReleaseNamespace = "meta.helm.sh/release-namespace"
	markHook             = "helm.sh/hook"
)

// engine is the Kubernetes client of one action: Helm's own, with the rules
// that Fleet adds.
//
//   - New objects are checked before the first of them is written.
//   - Nothing is written outside of the bundle's limit, whichever way it comes.
//   - An upgrade merges three ways also for custom resources, so that what
//     others changed is put back.
//   - Nothing is deleted that is not marked as this release's own.
//   - A kind that the cluster does not serve any more holds up no removal.
type engine struct {
	*helmkube.Client
	api *kindCache
	id  release.ID

	// limit says where the objects may be.
	limit namespaceLimit
	// tenant reports that the account is another one than the agent, so that rights
	// may be missing.
	tenant bool
	// owners says which objects that exist already may not be taken over.
	owners owners
	// sources are the files that objects come from.
	sources map[string]string
	// leftovers are the objects of revisions that did not succeed.
	leftovers string
	// claimed are the objects of other releases; see identity.
	claimed map[string]bool
	hooks   hooks // of this action
	// prepare is done between the checks and the first record, if set.
	prepare func() error
	// crds are the files of the chart's crds folders, by their text, and crdFiles
	// the same by the objects that Helm was given of them.
	crds     map[string]string
	crdFiles map[*resource.Info]string
	kinds    bundledKinds

	engineResults
}

// engineResults holds the results of an engine while Helm used it.
type engineResults struct {
	mu        sync.Mutex
	checked   map[string]bool // manifests that were found good
	refused   error           // an error that Helm may not have passed on in full
	unremoved error           // why an object could not be removed; Helm does not say
}

// fault is the first reason to refuse that the engine found. Helm makes text of
// some of the errors that it is given.
func (e *engine) fault() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refused
}

// firstRefusal returns the first reason that the engine found to refuse, or not to remove.
func (e *engine) firstRefusal() error {
	if err := e.fault(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.unremoved
}

// noteUnremoved notes why an object could not be removed.
func (e *engine) noteUnremoved(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.unremoved == nil {
		e.unremoved = err
	}
	return err
}

func (e *engine) noteRefusal(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused == nil && (reconcile.IsTerminal(err) || reconcile.IsRequeue(err)) {
		e.refused = err
	}
	return err
}

// beginRevision is called before the record of a new revision is written, which comes before
// all else that an action writes except a chart's own crds folder.
func (e *engine) beginRevision(r *helmrelease.Release) error {
	if s := r.Info.Status; s == helmrelease.StatusPendingInstall || s == helmrelease.StatusPendingUpgrade {
		noteCRDs(r.Chart)
	}
	if err := e.checkHooks(r.Hooks, release.State(r.Info.Status)); err != nil || e.prepare == nil {
		return err
	}
	return e.noteRefusal(e.prepare())
}

// IsReachable is called before every action. It does nothing: the first real request
// shows whether the API server answers.
func (e *engine) IsReachable() error { return nil }

// Build makes a list of objects of a manifest. With fresh they are about to be
// written and are checked; otherwise they were written before.
func (e *engine) Build(r io.Reader, fresh bool) (helmkube.ResourceList, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	list, err := e.Client.Build(bytes.NewReader(data), false)
	if unserved(err) {
		e.api.refresh()
		list, err = e.Client.Build(bytes.NewReader(data), false)
	}
	if !fresh {
		if file, ok := e.crds[string(data)]; ok {
			e.kinds.built(string(data))
			for _, info := range list {
				e.crdFiles[info] = file
			}
			if err := e.checkScopes(list); err != nil {
				return nil, e.noteRefusal(err)
			}
		}
		return list, utilerrors.FilterOut(err, meta.IsNoMatchError)
	}
	if unserved(err) {
		return nil, e.noteRefusal(e.firstUnserved(data, err))
	}
	if err != nil {
		return nil, e.noteRefusal(classify(err))
	}
	return list, e.noteRefusal(e.checkWritable(list, string(data)))
}

// unserved reports whether an error is, or contains, a kind that is not served.
func unserved(err error) bool {
	agg, ok := err.(utilerrors.Aggregate) //nolint:errorlint // the builder returns it as it is
	if !ok {
		return meta.IsNoMatchError(err)
	}
	for _, e := range agg.Errors() {
		if unserved(e) {
			return true
		}
	}
	return false
}

// Create writes new objects. The release's own namespace may exist already,
// made a moment ago for the release.
func (e *engine) Create(list helmkube.ResourceList) (*helmkube.Result, error) {
	if e.hooks.skipHook(list) {
		return &helmkube.Result{}, nil
	}
	if err := e.checkScopes(list); err != nil {
		return &helmkube.Result{}, e.noteRefusal(err)
	}
	own := list.Filter(e.isOwnNamespace)
	if len(own) == 0 || len(list) == 1 && !e.isMarked(own[0]) {
		result, err := e.Client.Create(list)
		e.awaitKinds(list, err)
		return result, e.withObjectName(list, err)
	}
	result, err := e.UpdateThreeWayMerge(own, own, false)
	if err != nil {
		return result, err
	}
	others := list.Difference(own)
	if len(others) == 0 {
		return result, nil
	}
	more, err := e.Client.Create(others)
	if more != nil {
		result.Created = append(result.Created, more.Created...)
	}
	return result, e.withObjectName(others, err)
}

// isOwnNamespace reports whether an object is the namespace of the release.
func (e *engine) isOwnNamespace(info *resource.Info) bool {
	gk := info.Mapping.GroupVersionKind.GroupKind()
	return gk.Group == "" && gk.Kind == "Namespace" && info.Name == e.id.Namespace
}

// isMarked reports whether Helm has marked an object as one of the release, which
// it does not do for hooks.
func (e *engine) isMarked(info *resource.Info) bool {
	a, err := meta.Accessor(info.Object)
	return err == nil && a.GetAnnotations()[markReleaseName] != ""
}

// Update calls UpdateThreeWayMerge: a two-way merge would not revert what others
// changed on custom resources.
func (e *engine) Update(was, wanted helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	return e.UpdateThreeWayMerge(was, wanted, force)
}

// UpdateThreeWayMerge changes objects from their former to their desired state, and
// removes those that are no longer desired and still ours. It returns a result with
// every error: Helm looks into it first.
func (e *engine) UpdateThreeWayMerge(was, wanted helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	if e.leftovers != "" {
		more, err := e.Build(bytes.NewBufferString(e.leftovers), false)
		if err != nil {
			return &helmkube.Result{}, fmt.Errorf("read revisions that failed: %w", err)
		}
		was = append(was, more.Difference(was)...)
	}
	for _, info := range wanted.Filter(e.isOwnNamespace) {
		if !was.Contains(info) {
			was = append(was, info)
		}
	}
	if err := e.checkScopes(wanted); err != nil {
		return &helmkube.Result{}, e.noteRefusal(err)
	}
	spared, err := e.sparedObjects(was.Difference(wanted))
	if err != nil {
		return &helmkube.Result{}, e.noteRefusal(err)
	}
	was = was.Difference(spared)
	result, err := e.Client.UpdateThreeWayMerge(was, wanted, force)
	if err != nil {
		return result, e.withObjectName(wanted, err)
	}
	return result, remaining(was.Difference(wanted).Difference(result.Deleted))
}

// remaining deletes what Helm has skipped: Helm logs that an object could not be read
// or deleted, and goes on as if it had been. An object with the policy to keep it
// stays.
func remaining(passed helmkube.ResourceList) error {
	for _, info := range passed {
		live, err := get(info)
		if err == nil && live.GetDeletionTimestamp() == nil && live.GetAnnotations()[helmkube.ResourcePolicyAnno] != helmkube.KeepPolicy {
			background := metav1.DeletePropagationBackground
			_, err = resource.NewHelper(info.Client, info.Mapping).
				DeleteWithOptions(info.Namespace, info.Name, &metav1.DeleteOptions{PropagationPolicy: &background})
		}
		if err != nil && !isGone(err) {
			return unremoved(info, err)
		}
	}
	return nil
}

// sparedObjects returns those of the objects to remove that stay: they belong to this
// release no more, or another bundle of the repository waits for them. Helm skips an object
// that it may not remove, so the engine checks that right before the first write.
func (e *engine) sparedObjects(going helmkube.ResourceList) (helmkube.ResourceList, error) {
	var out helmkube.ResourceList
	for _, info := range going {
		mine, err := e.isOwned(info)
		if err == nil && mine && e.tenant && !isKept(info) {
			err = tryDelete(info)
		}
		if words, ok := deniedText(err); ok {
			return nil, forbidden(identityOf(info)+", which the bundle does not have any more", words)
		}
		if err != nil {
			return nil, fmt.Errorf("remove %s: %w", identityOf(info), err)
		}
		if !mine || e.owners.awaited(info) {
			out = append(out, info)
		}
	}
	return out, nil
}

// isKept reports whether an object of a manifest stays when its release goes.
func isKept(info *resource.Info) bool {
	a, err := meta.Accessor(info.Object)
	return err == nil && a.GetAnnotations()[helmkube.ResourcePolicyAnno] == helmkube.KeepPolicy
}

// tryDelete lets the API server check whether an object may be deleted.
func tryDelete(info *resource.Info) error {
	_, err := resource.NewHelper(info.Client, info.Mapping).DryRun(true).
		DeleteWithOptions(info.Namespace, info.Name, &metav1.DeleteOptions{})
	if isGone(err) {
		return nil
	}
	return err
}

// Delete removes objects that are still ours.
func (e *engine) Delete(list helmkube.ResourceList) (*helmkube.Result, []error) {
	return e.DeleteWithPropagationPolicy(list, metav1.DeletePropagationBackground)
}

// DeleteWithPropagationPolicy removes objects that are still ours, and hooks.
func (e *engine) DeleteWithPropagationPolicy(list helmkube.ResourceList, p metav1.DeletionPropagation) (*helmkube.Result, []error) {
	if e.hooks.isSpared(list) {
		return &helmkube.Result{}, nil
	}
	var mine helmkube.ResourceList
	for _, info := range list {
		ours, err := true, error(nil)
		if isHook(info) {
			err = e.checkScope(info)
		} else {
			ours, err = e.isOwned(info)
		}
		if err != nil {
			return nil, []error{e.noteUnremoved(e.noteRefusal(unremoved(info, err)))}
		}
		if ours {
			mine = append(mine, info)
		}
	}
	if len(mine) == 0 {
		return &helmkube.Result{}, nil
	}
	result, errs := e.Client.DeleteWithPropagationPolicy(mine, p)
	for _, err := range errs {
		_ = e.noteUnremoved(classify(err))
	}
	return result, errs
}

// unremoved is why an object is not removed.
func unremoved(info *resource.Info, err error) error {
	if reconcile.IsTerminal(err) || reconcile.IsRequeue(err) {
		return err
	}
	if words, ok := deniedText(err); ok {
		return forbidden(identityOf(info), words)
	}
	return fmt.Errorf("remove %s: %w", identityOf(info), err)
}

// isHook reports whether an object of a manifest is a hook: Helm does not mark
// those as the release's.
func isHook(info *resource.Info) bool {
	a, err := meta.Accessor(info.Object)
	return err == nil && a.GetAnnotations()[markHook] != ""
}

// isOwned reports whether a live object bears this release's marks and no other
// release has it in its manifest. An object that is not there is not ours.
func (e *engine) isOwned(info *resource.Info) (bool, error) {
	if e.claimed[identityOf(info)] {
		return false, nil
	}
	live, err := get(info)
	if isGone(err) {
		return false, nil
	}
	return err == nil && OwnerOf(live) == e.id, err
}

// get reads the live object.
func get(info *resource.Info) (*unstructured.Unstructured, error) {
	obj, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if err != nil {
		return nil, err
	}
	live, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T", obj)
	}
	return live, nil
}

// OwnerOf returns the release that an object is marked with; the zero ID if none.
func OwnerOf(o *unstructured.Unstructured) release.ID {
	a := o.GetAnnotations()
	return release.ID{Namespace: a[markReleaseNamespace], Name: a[markReleaseName]}
}

// identityOf is identity for what Helm's client builds.
func identityOf(info *resource.Info) string {
	return Identity(info.Mapping.GroupVersionKind, info.Namespace, info.Name)
}
