package workspace

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

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/rancher"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// workspacePoll is how often it is looked whether something has come.
const workspacePoll = 200 * time.Millisecond

// A clusterStore keeps workspaces through the Kubernetes API.
type clusterStore struct{ *client.Session }

func (cs *clusterStore) Address() string { return cs.Server }

// list are workspaces as far as the user may see them, with -n that one alone.
func (cs *clusterStore) list(ctx context.Context) ([]view.Workspace, error) {
	if err := cs.NamespaceError(ctx); err != nil {
		return nil, err
	}
	seen := view.WorkspaceVisibility{}
	var err error
	if seen.Fleet, err = cs.ReadFleet(ctx); err != nil {
		return nil, err
	}
	if seen.Records, seen.Kinds, err = cs.records(ctx); err != nil {
		return nil, err
	}
	if seen.Namespaces, err = cs.listMetadata(ctx, client.Namespaces); err != nil && !apierrors.IsForbidden(err) {
		return nil, client.DescribeServerError(cs.Server, err)
	}
	found := withName(view.Workspaces(seen), cs.Scope)
	if cs.Scope == "" || len(found) > 0 {
		return found, nil
	}
	if there := cs.KnownWorkspaces(ctx); len(there) > 0 && !slices.Contains(there, cs.Scope) {
		return nil, cs.UnknownWorkspace(cs.Scope, "", there) // a namespace that is no workspace
	}
	return nil, nil
}

// records are all FleetWorkspaces, and whether there is such a kind at all. A user who
// may not list them sees none; an API server also forbids lists of kinds that it does
// not serve.
func (cs *clusterStore) records(ctx context.Context) ([]*metav1.PartialObjectMetadata, bool, error) {
	found, err := cs.listMetadata(ctx, client.Records)
	switch {
	case err != nil && client.UnknownResource(err):
		return nil, false, nil
	case apierrors.IsForbidden(err):
		return nil, !client.KindsLacking(cs.Rest, client.Records.GroupVersion())(), nil
	}
	return found, true, client.DescribeServerError(cs.Server, err)
}

// listMetadata lists the metadata of all objects of a resource.
func (cs *clusterStore) listMetadata(ctx context.Context, r schema.GroupVersionResource) ([]*metav1.PartialObjectMetadata, error) {
	items, _, err := cs.Listed(ctx, client.Query{Resource: r})
	if err != nil {
		return nil, err
	}
	return client.AllAs[metav1.PartialObjectMetadata](items)
}

// Create makes a workspace, and waits for its namespace.
func (cs *clusterStore) Create(ctx context.Context, o CreateOptions) (string, error) {
	if wrong := validation.IsDNS1123Label(o.Name); len(wrong) > 0 {
		return "", fmt.Errorf("%w: workspace %q: %s", cli.ErrInput, o.Name, strings.Join(wrong, "; "))
	}
	if err := cs.Served(ctx); err != nil {
		return "", err
	}
	_, kinds, err := cs.records(ctx)
	if err != nil {
		return "", err
	}
	live, err := client.GetAs[metav1.PartialObjectMetadata](ctx, cs.Session, client.Namespaces, "", o.Name)
	if err != nil {
		return "", err
	}
	if kinds {
		return cs.createWorkspace(ctx, o, live)
	}
	switch {
	case workspace.System(o.Name, live):
		return "", fmt.Errorf("%w: namespace %q belongs to the system and is never a workspace: choose another name", cli.ErrRefused, o.Name)
	case live != nil:
		return "", fmt.Errorf("namespace %s is there already: it is a workspace as soon as clusters or repositories are in it", o.Name)
	}
	if err := cs.createObject(ctx, client.Namespaces, workspace.RequestedNamespace(o.Name)); err != nil {
		return "", err
	}
	return "workspace " + o.Name + " is there: a namespace alone, since there are no FleetWorkspaces here", nil
}

// createWorkspace makes a FleetWorkspace. live is the Namespace of its name, if it is there.
func (cs *clusterStore) createWorkspace(ctx context.Context, o CreateOptions, live *metav1.PartialObjectMetadata) (string, error) {
	if there, err := client.GetAs[metav1.PartialObjectMetadata](ctx, cs.Session, client.Records, "", o.Name); there != nil || err != nil {
		return "", cmp.Or(err, fmt.Errorf("workspace %s is there already", o.Name))
	}
	w := workspace.RequestedWorkspace(o.Name)
	if action, why := workspace.DecideNamespace(w, live); action == workspace.Refuse {
		switch taken := live != nil && !workspace.System(o.Name, live); {
		case !taken:
			return "", fmt.Errorf("%w: %s", cli.ErrRefused, why)
		case !o.Existing:
			return "", fmt.Errorf("%w: namespace %q is there already, and who is to work in the workspace need not be allowed to use it; "+
				"an administrator lets the workspace have it: --existing", cli.ErrRefused, o.Name)
		}
		if err := cs.open(ctx, o.Name); err != nil {
			return "", err
		}
	}
	if err := cs.createObject(ctx, client.Records, w); err != nil {
		return "", err
	}
	if strings.Contains(cs.Server, rancher.ProxyPath) {
		cs.Std.Note("made through the Kubernetes API, so that Rancher does not know who has made it; with --rancher its owner is you")
	}
	why := ""
	err := cs.pollUntil(ctx, o.Timeout, func() (bool, error) {
		ns, err := client.GetAs[metav1.PartialObjectMetadata](ctx, cs.Session, client.Namespaces, "", o.Name)
		return ns != nil && ns.DeletionTimestamp == nil, err
	})
	if errors.Is(err, errUnseen) {
		why = fmt.Sprintf("FleetWorkspace %s is there, and has no namespace after %s: kubectl describe fleetworkspace %s says why, or neither Rancher nor Fleet's manager runs",
			o.Name, view.Age(o.Timeout), o.Name)
		return "", fmt.Errorf("%w: %s", cli.ErrNotReady, why)
	}
	if err != nil {
		return "", err
	}
	return "workspace " + o.Name + " is there, with its namespace", nil
}

// open lets a FleetWorkspace have a namespace that is there. It takes the right to
// change that namespace.
func (cs *clusterStore) open(ctx context.Context, name string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": workspace.OptInAnnotations()}})
	if err != nil {
		return err
	}
	_, err = cs.API.Patch(ctx, client.Namespaces, "", name, body)
	return client.DescribeServerError(cs.Server, err)
}

// createObject creates an object of the whole cluster.
func (cs *clusterStore) createObject(ctx context.Context, r schema.GroupVersionResource, o any) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return err
	}
	u := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	_, err = cs.API.Create(ctx, r, u)
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("workspace %s is there already", u.GetName())
	}
	return client.DescribeServerError(cs.Server, err)
}

// errUnseen says that something has not come in time.
var errUnseen = errors.New("not in time")

// pollUntil asks again and again; errUnseen after limit.
func (cs *clusterStore) pollUntil(ctx context.Context, limit time.Duration, done func() (bool, error)) error {
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
func (cs *clusterStore) mayAdd(ctx context.Context, to string) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&authorizationv1.SelfSubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SelfSubjectAccessReview"},
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: workspace.VerbAdd, Group: client.Records.Group, Resource: client.Records.Resource, Name: to,
		}},
	})
	if err != nil {
		return err
	}
	u, err := cs.API.Create(ctx, client.AccessReviews, &unstructured.Unstructured{Object: fields})
	if err != nil {
		return client.DescribeServerError(cs.Server, err)
	}
	review, err := client.Convert[authorizationv1.SelfSubjectAccessReview](u)
	if err != nil {
		return err
	}
	if !review.Status.Allowed {
		return fmt.Errorf("you may not bring clusters into workspace %s: that takes verb %s on fleetworkspaces %s, which its owner has", to, workspace.VerbAdd, to)
	}
	return nil
}
