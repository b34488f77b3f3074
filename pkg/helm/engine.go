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

	"github.com/fleetworkspace/fleet/pkg/plan/fault"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Marks that Helm puts on every object of a release.
const (
	markReleaseName      = "meta.helm.sh/release-name"
	markReleaseNamespace = "meta.helm.sh/release-namespace"
	markHook             = "helm.sh/hook"
)

// engine is the Kubernetes client of one action: Helm's own, with the rules
// that Fleet adds.
//
//   - New objects are checked before the first of them is written.
//   - An upgrade merges three ways also for custom resources, so that what
//     others changed is put back.
//   - Nothing is deleted that is not marked as this release's own.
//   - A kind that the cluster does not serve any more holds up no removal.
type engine struct {
	*helmkube.Client
	api *api
	id  release.ID

	// limited is the only namespace that new objects may be in, if any.
	limited string
	// owned checks whom an object belongs to that exists already.
	owned bool
	// adopt tells whose objects may be taken over.
	adopt func(release.ID) bool
	// sources are the files that objects come from.
	sources map[string]string
	// leftovers are the objects of revisions that did not succeed.
	leftovers string
	// claimed are the objects of other releases; see identity.
	claimed map[string]bool

	mu      sync.Mutex
	checked map[string]bool // manifests that were found good
	refused error           // what Helm may not have passed on in full
}

// fault is the first reason to refuse that the engine found. Helm makes text of
// some of the errors that it is given.
func (e *engine) fault() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.refused
}

func (e *engine) refuse(err error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refused == nil && (fault.IsPermanent(err) || fault.IsWait(err)) {
		e.refused = err
	}
	return err
}

// IsReachable is asked before every action. The first real request answers it.
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
		return list, utilerrors.FilterOut(err, meta.IsNoMatchError)
	}
	if err != nil {
		return nil, e.refuse(classify(err))
	}
	return list, e.refuse(e.check(list, string(data)))
}

// unserved tells whether an error is, or contains, a kind that is not served.
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
	own := list.Filter(e.isOwnNamespace)
	if len(own) == 0 || len(list) == 1 && !e.marked(own[0]) {
		return e.Client.Create(list)
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
	return result, err
}

// isOwnNamespace tells whether an object is the namespace of the release.
func (e *engine) isOwnNamespace(info *resource.Info) bool {
	gk := info.Mapping.GroupVersionKind.GroupKind()
	return gk.Group == "" && gk.Kind == "Namespace" && info.Name == e.id.Namespace
}

// marked tells whether Helm has marked an object as one of the release, which
// it does not do for the namespace that it creates beforehand.
func (e *engine) marked(info *resource.Info) bool {
	a, err := meta.Accessor(info.Object)
	return err == nil && a.GetAnnotations()[markReleaseName] != ""
}

// Update is UpdateThreeWayMerge: a merge of two ways would leave alone what
// others changed on custom resources.
func (e *engine) Update(was, wanted helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	return e.UpdateThreeWayMerge(was, wanted, force)
}

// UpdateThreeWayMerge brings objects from what they were to what they are to
// be, and removes those that are no longer wanted and still ours.
func (e *engine) UpdateThreeWayMerge(was, wanted helmkube.ResourceList, force bool) (*helmkube.Result, error) {
	if e.leftovers != "" {
		more, err := e.Build(bytes.NewBufferString(e.leftovers), false)
		if err != nil {
			return nil, fmt.Errorf("read revisions that failed: %w", err)
		}
		was = append(was, more.Difference(was)...)
	}
	for _, info := range wanted.Filter(e.isOwnNamespace) {
		if !was.Contains(info) {
			was = append(was, info)
		}
	}
	gone := was.Difference(wanted).Filter(func(i *resource.Info) bool { return !e.ours(i) })
	return e.Client.UpdateThreeWayMerge(was.Difference(gone), wanted, force)
}

// Delete removes objects that are still ours.
func (e *engine) Delete(list helmkube.ResourceList) (*helmkube.Result, []error) {
	return e.DeleteWithPropagationPolicy(list, metav1.DeletePropagationBackground)
}

// DeleteWithPropagationPolicy removes objects that are still ours, and hooks.
func (e *engine) DeleteWithPropagationPolicy(list helmkube.ResourceList, p metav1.DeletionPropagation) (*helmkube.Result, []error) {
	var mine helmkube.ResourceList
	for _, info := range list {
		switch {
		case !isHook(info) && e.ours(info):
			mine = append(mine, info)
		case isHook(info):
			if err := e.checkScope(info); err != nil {
				return nil, []error{e.refuse(err)}
			}
			mine = append(mine, info)
		}
	}
	if len(mine) == 0 {
		return &helmkube.Result{}, nil
	}
	return e.Client.DeleteWithPropagationPolicy(mine, p)
}

// isHook tells whether an object of a manifest is a hook: Helm does not mark
// those as the release's.
func isHook(info *resource.Info) bool {
	a, err := meta.Accessor(info.Object)
	return err == nil && a.GetAnnotations()[markHook] != ""
}

// ours tells whether a live object bears this release's marks and no other
// release has it in its manifest. An object that cannot be read is not ours.
func (e *engine) ours(info *resource.Info) bool {
	if e.claimed[identityOf(info)] {
		return false
	}
	live, err := get(info)
	return err == nil && ownerOf(live) == e.id
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

// ownerOf is the release that an object is marked with; the zero ID if none.
func ownerOf(o *unstructured.Unstructured) release.ID {
	a := o.GetAnnotations()
	return release.ID{Namespace: a[markReleaseNamespace], Name: a[markReleaseName]}
}

// identityOf is identity for what Helm's client builds.
func identityOf(info *resource.Info) string {
	return info.Mapping.GroupVersionKind.GroupKind().String() + " " + info.Namespace + "/" + info.Name
}
