package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Rancher's kinds in the cluster.
var (
	records       = management.GroupVersion.WithResource("fleetworkspaces")
	accessReviews = authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews")
)

// workspacePoll is how often it is looked whether something has come.
const workspacePoll = 200 * time.Millisecond

// A clusterStore keeps workspaces through the Kubernetes API.
type clusterStore struct{ *session }

func (k *clusterStore) address() string { return k.server }

// list are workspaces as far as the user may see them, with -n that one alone.
func (k *clusterStore) list(ctx context.Context) ([]view.Workspace, error) {
	if err := k.missing(ctx); err != nil {
		return nil, err
	}
	seen := view.WorkspaceSight{}
	var err error
	if seen.Fleet, err = k.look(ctx); err != nil {
		return nil, err
	}
	if seen.Records, seen.Kinds, err = k.records(ctx); err != nil {
		return nil, err
	}
	if seen.Namespaces, err = k.bare(ctx, namespaces); err != nil && !apierrors.IsForbidden(err) {
		return nil, reached(k.server, err)
	}
	found := only(view.Workspaces(seen), k.scope)
	if k.scope == "" || len(found) > 0 {
		return found, nil
	}
	if there := k.knownWorkspaces(ctx); len(there) > 0 && !slices.Contains(there, k.scope) {
		return nil, k.unknownWorkspace(k.scope, "", there) // a namespace that is no workspace
	}
	return nil, nil
}

// records are all FleetWorkspaces, and whether there is such a kind at all. A user who
// may not list them sees none; an API server also forbids lists of kinds that it does
// not serve.
func (k *clusterStore) records(ctx context.Context) ([]*metav1.PartialObjectMetadata, bool, error) {
	found, err := k.bare(ctx, records)
	switch {
	case err != nil && unknownResource(err):
		return nil, false, nil
	case apierrors.IsForbidden(err):
		return nil, !kindsLacking(k.rest, records.GroupVersion())(), nil
	}
	return found, true, reached(k.server, err)
}

// bare lists the metadata of all objects of a resource.
func (k *clusterStore) bare(ctx context.Context, r schema.GroupVersionResource) ([]*metav1.PartialObjectMetadata, error) {
	items, _, err := k.listed(ctx, query{resource: r})
	if err != nil {
		return nil, err
	}
	return allAs[metav1.PartialObjectMetadata](items)
}

// create makes a workspace, and waits for its namespace.
func (k *clusterStore) create(ctx context.Context, o createOptions) (string, error) {
	if wrong := validation.IsDNS1123Label(o.name); len(wrong) > 0 {
		return "", fmt.Errorf("%w: workspace %q: %s", errInput, o.name, strings.Join(wrong, "; "))
	}
	if err := k.served(ctx); err != nil {
		return "", err
	}
	_, kinds, err := k.records(ctx)
	if err != nil {
		return "", err
	}
	live, err := getAs[metav1.PartialObjectMetadata](ctx, k.session, namespaces, "", o.name)
	if err != nil {
		return "", err
	}
	if kinds {
		return k.record(ctx, o, live)
	}
	switch {
	case workspace.System(o.name, live):
		return "", fmt.Errorf("%w: namespace %q belongs to the system and is never a workspace: choose another name", errRefused, o.name)
	case live != nil:
		return "", fmt.Errorf("namespace %s is there already: it is a workspace as soon as clusters or repositories are in it", o.name)
	}
	if err := k.make(ctx, namespaces, workspace.Space(o.name)); err != nil {
		return "", err
	}
	return "workspace " + o.name + " is there: a namespace alone, since there are no FleetWorkspaces here", nil
}

// record makes a FleetWorkspace. live is the Namespace of its name, if it is there.
func (k *clusterStore) record(ctx context.Context, o createOptions, live *metav1.PartialObjectMetadata) (string, error) {
	if there, err := getAs[metav1.PartialObjectMetadata](ctx, k.session, records, "", o.name); there != nil || err != nil {
		return "", cmp.Or(err, fmt.Errorf("workspace %s is there already", o.name))
	}
	w := workspace.Record(o.name)
	if action, why := workspace.For(w, live); action == workspace.Refuse {
		switch taken := live != nil && !workspace.System(o.name, live); {
		case !taken:
			return "", fmt.Errorf("%w: %s", errRefused, why)
		case !o.existing:
			return "", fmt.Errorf("%w: namespace %q is there already, and who is to work in the workspace need not be allowed to use it; "+
				"an administrator lets the workspace have it: --existing", errRefused, o.name)
		}
		if err := k.open(ctx, o.name); err != nil {
			return "", err
		}
	}
	if err := k.make(ctx, records, w); err != nil {
		return "", err
	}
	if strings.Contains(k.server, proxyPath) {
		k.std.Note("made through the Kubernetes API, so that Rancher does not know who has made it; with --rancher its owner is you")
	}
	why := ""
	err := k.until(ctx, o.timeout, func() (bool, error) {
		ns, err := getAs[metav1.PartialObjectMetadata](ctx, k.session, namespaces, "", o.name)
		return ns != nil && ns.DeletionTimestamp == nil, err
	})
	if errors.Is(err, errUnseen) {
		why = fmt.Sprintf("FleetWorkspace %s is there, and has no namespace after %s: kubectl describe fleetworkspace %s says why, or neither Rancher nor Fleet's manager runs",
			o.name, view.Age(o.timeout), o.name)
		return "", fmt.Errorf("%w: %s", errNotReady, why)
	}
	if err != nil {
		return "", err
	}
	return "workspace " + o.name + " is there, with its namespace", nil
}

// open lets a FleetWorkspace have a namespace that is there. It takes the right to
// change that namespace.
func (k *clusterStore) open(ctx context.Context, name string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": workspace.Opened()}})
	if err != nil {
		return err
	}
	_, err = k.api.Patch(ctx, namespaces, "", name, body)
	return reached(k.server, err)
}

// make creates an object of the whole cluster.
func (k *clusterStore) make(ctx context.Context, r schema.GroupVersionResource, o any) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	_, err = k.api.Create(ctx, r, u)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("workspace %s is there already", u.GetName())
	}
	return reached(k.server, err)
}

// errUnseen says that something has not come in time.
var errUnseen = errors.New("not in time")

// until asks again and again; errUnseen after limit.
func (k *clusterStore) until(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errUnseen)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil && ctx.Err() == nil {
			return err
		}
		if kube.Sleep(ctx, workspacePoll) != nil {
			return context.Cause(ctx)
		}
	}
}

// mayAdd asks whether the user may bring clusters into a workspace, as Rancher's
// webhook does where it is asked.
func (k *clusterStore) mayAdd(ctx context.Context, to string) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: workspace.VerbAdd, Group: records.Group, Resource: records.Resource, Name: to,
		}},
	})
	if err != nil {
		return err
	}
	u, err := k.api.Create(ctx, accessReviews, &unstructured.Unstructured{Object: fields})
	if err != nil {
		return reached(k.server, err)
	}
	review, err := as[authorizationv1.SelfSubjectAccessReview](u)
	if err != nil {
		return err
	}
	if !review.Status.Allowed {
		return fmt.Errorf("you may not bring clusters into workspace %s: that takes verb %s on fleetworkspaces %s, which its owner has", to, workspace.VerbAdd, to)
	}
	return nil
}
