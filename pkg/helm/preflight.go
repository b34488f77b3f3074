package helm

import (
	"fmt"

	helmkube "helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"golang.org/x/sync/errgroup"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// preflightWorkers is how many objects are checked at once.
const preflightWorkers = 8

// checkWritable finds out, before the first write, whether all objects can be written:
// the API server is asked to try, strictly and without keeping anything. Only
// what cannot be otherwise later is an error; an object may well depend on
// others of the same release.
func (e *engine) checkWritable(list helmkube.ResourceList, manifest string) error {
	if e.isGood(manifest) {
		return nil
	}
	if err := e.reserve(list); err != nil {
		return err
	}
	if err := e.checkAll(list); err != nil {
		return err
	}
	e.setGood(manifest)
	return nil
}

// checkAll is check for objects of any manifest.
func (e *engine) checkAll(list helmkube.ResourceList) error {
	if err := e.checkScopes(list); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(preflightWorkers)
	errs := make([]error, len(list))
	for i, info := range list {
		group.Go(func() error {
			errs[i] = e.try(info)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs, in the order of the objects
	var shared error // returned only if nothing else is wrong
	for _, err := range errs {
		switch {
		case err == nil:
		case reconcile.ReasonOf(err) != release.ReasonSharedObject:
			return err
		case shared == nil:
			shared = err
		}
	}
	return shared
}

// isGood reports whether a manifest was checked before in this action: Helm
// builds the same one several times.
func (e *engine) isGood(manifest string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.checked[manifest]
}

func (e *engine) setGood(manifest string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.checked == nil {
		e.checked = map[string]bool{}
	}
	e.checked[manifest] = true
}

// checkScopes is checkScope for several objects.
func (e *engine) checkScopes(list helmkube.ResourceList) error {
	for _, info := range list {
		if err := e.checkScope(info); err != nil {
			return err
		}
	}
	return nil
}

// checkScope lets the limit decide on an object. With a forced namespace only hooks
// are found to be elsewhere: they do not pass the post-renderer, which puts all
// others there.
func (e *engine) checkScope(info *resource.Info) error {
	file, crds := e.crdFiles[info]
	if e.limit.namespace == "" && !crds {
		return nil
	}
	obj, ok := info.Object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("unexpected type %T", info.Object)
	}
	what := objectInFile(e.sourceOf(info), obj)
	switch {
	case crds:
		what = objectInFile(file, obj)
	case isHook(info):
		what = "hook " + describe(obj)
	}
	return e.limit.checkObject(candidate{Unstructured: obj, description: what, namespaced: info.Namespaced(), namespace: info.Namespace, crds: crds})
}

// try lets the API server check one object, and looks whom it belongs to if it
// exists.
func (e *engine) try(info *resource.Info) error {
	obj, ok := info.Object.DeepCopyObject().(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("unexpected type %T", info.Object)
	}
	obj.SetNamespace(info.Namespace)
	err := dryCreate(info, obj)
	what := objectInFile(e.sourceOf(info), obj)
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return e.checkOwner(info, what)
	case apierrors.IsForbidden(err):
		return e.checkRight(info, what, err)
	case isMalformed(err):
		return reconcile.TerminalError(release.ReasonInvalidObject, fmt.Errorf("%s: %s", what, plainText(err)))
	case apierrors.IsInvalid(err):
		// A fixed port or address of the live object itself may be the obstacle.
		if _, gone := get(info); isGone(gone) {
			return reconcile.TerminalError(release.ReasonInvalidObject, fmt.Errorf("%s: %s", what, plainText(err)))
		}
		return e.checkOwner(info, what)
	}
	return nil
}

// dryCreate lets the API server check whether an object may be made where info says.
// obj is a copy, because sending changes it.
func dryCreate(info *resource.Info, obj runtime.Object) error {
	_, err := resource.NewHelper(info.Client, info.Mapping).DryRun(true).
		WithFieldValidation(metav1.FieldValidationStrict).
		WithFieldManager(fleet.FieldManagerRelease).
		Create(info.Namespace, true, obj)
	return err
}

// checkRight returns an error if an object may not be created, unless it exists
// already: an account may have the right to change objects that it may not create. A
// refusal by a webhook or a quota may depend on the rest of the release.
func (e *engine) checkRight(info *resource.Info, what string, err error) error {
	words, ok := deniedText(err)
	if !ok {
		return nil
	}
	if _, err := get(info); err == nil {
		return e.checkOwner(info, what)
	}
	return forbidden(what, words)
}

// forbidden is a wait for a right that is missing to do something.
func forbidden(what, words string) error {
	return reconcile.RequeueError(release.ReasonForbidden, waitForRights, fmt.Errorf("%s: %s", what, words))
}

// sourceOf is the file that an object comes from. The post-renderer knows
// objects without a namespace under their name alone.
func (e *engine) sourceOf(info *resource.Info) string {
	if s, ok := e.sources[identityOf(info)]; ok {
		return s
	}
	gk := info.Mapping.GroupVersionKind.GroupKind()
	return e.sources[gk.String()+" /"+info.Name]
}
