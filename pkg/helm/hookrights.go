package helm

import (
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	helmkube "helm.sh/helm/v3/pkg/kube"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// checkHooks finds out before the first write whether the hooks of an action may be
// made, waited for and removed as their policies say, and are within the namespace that
// is allowed. Other faults of a hook show when it runs: they may depend on what the
// action writes. The same goes for hooks of kinds that are not served yet.
func (e *engine) checkHooks(list []*helmrelease.Hook, at release.State) error {
	for _, h := range list {
		due := slices.ContainsFunc(h.Events, func(v helmrelease.HookEvent) bool { return slices.Contains(hookEvents[at], v) })
		if !due || e.hooks.ended[hookKey(h.Kind, h.Name)] {
			continue
		}
		objects, err := e.served(h.Manifest)
		if err != nil {
			continue // its own run reports that
		}
		if err := e.checkScopes(objects); err != nil {
			return e.noteRefusal(err)
		}
		if !e.tenant {
			continue
		}
		for _, info := range objects {
			if err := mayRun(h, info); err != nil {
				return e.noteRefusal(err)
			}
		}
	}
	return nil
}

// served are the objects of a manifest of kinds that the cluster serves.
func (e *engine) served(manifest string) (helmkube.ResourceList, error) {
	list, err := e.Client.Build(strings.NewReader(manifest), false)
	return list, utilerrors.FilterOut(err, meta.IsNoMatchError)
}

// mayRun says which right is missing to do with the object of a hook what Helm
// does with it.
func mayRun(h *helmrelease.Hook, info *resource.Info) error {
	asks := []func(*resource.Info) error{tryCreate}
	if removes(h) {
		asks = append(asks, tryDelete)
	}
	if h.Kind == "Job" || h.Kind == "Pod" {
		asks = append(asks, tryWatch)
	}
	for _, ask := range asks {
		if words, ok := deniedText(ask(info)); ok {
			return forbidden("hook "+describeInfo(info), words)
		}
	}
	return nil
}

// removes reports whether a run of a hook that goes well removes an object: the one
// of the last run, which is what Helm does where no policy is given, or its own.
func removes(h *helmrelease.Hook) bool {
	return h.Kind != "CustomResourceDefinition" && (len(h.DeletePolicies) == 0 ||
		slices.Contains(h.DeletePolicies, helmrelease.HookBeforeHookCreation) ||
		slices.Contains(h.DeletePolicies, helmrelease.HookSucceeded))
}

// tryCreate lets the API server check whether an object may be made as it is.
func tryCreate(info *resource.Info) error {
	return dryCreate(info, info.Object.DeepCopyObject())
}

// tryWatch lists and watches an object as Helm does until it has ended. It does not
// wait for anything.
func tryWatch(info *resource.Info) error {
	one := &metav1.ListOptions{FieldSelector: "metadata.name=" + info.Name}
	helper := resource.NewHelper(info.Client, info.Mapping)
	if _, err := helper.List(info.Namespace, info.Mapping.GroupVersionKind.GroupVersion().String(), one); err != nil {
		return err
	}
	w, err := helper.Watch(info.Namespace, info.Mapping.GroupVersionKind.GroupVersion().String(), one)
	if err != nil {
		return err
	}
	w.Stop()
	return nil
}

// checkRehearsed is for a chart that brings CRDs, which are written before Helm has
// rendered anything: it checks them, the objects of kinds that are served already,
// and the hooks. The chart of r lacks the subcharts that are switched off.
func (e *engine) checkRehearsed(r *helmrelease.Release) error {
	if err := e.checkCRDs(r.Chart.CRDObjects()); err != nil {
		return e.noteRefusal(err)
	}
	objects, err := e.served(r.Manifest)
	if err == nil { // else Helm reports it
		err = e.checkAll(objects)
	}
	if err != nil {
		return e.noteRefusal(err)
	}
	return e.checkHooks(r.Hooks, release.PendingInstall)
}

// checkCRDs says which of the CRDs that a chart brings may not be made.
func (e *engine) checkCRDs(crds []chart.CRD) error {
	if err := e.limit.checkCRDs(crds); err != nil || !e.tenant {
		return err
	}
	for _, c := range crds {
		objects, err := e.served(string(c.File.Data))
		if err != nil {
			continue // Helm reports it
		}
		for _, info := range objects {
			if words, ok := deniedText(tryCreate(info)); ok {
				return forbidden(describeInfo(info), words)
			}
		}
	}
	return nil
}

// describeInfo names an object for people.
func describeInfo(info *resource.Info) string {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(info.Mapping.GroupVersionKind)
	obj.SetNamespace(info.Namespace)
	obj.SetName(info.Name)
	return describe(obj)
}
