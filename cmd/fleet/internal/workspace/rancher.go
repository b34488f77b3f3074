package workspace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rancher/norman/clientbase"
	"github.com/rancher/norman/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/rancher"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// Types of Rancher's API, version 3.
const (
	typeWorkspace = "fleetWorkspace"
	typeCluster   = "cluster"
)

// clusterID is how Rancher calls clusters.
var clusterID = regexp.MustCompile(`^(local|c-[a-z0-9]{5}|c-m-[a-z0-9]{8})$`)

// rancherAPI keeps workspaces through Rancher's API.
type rancherAPI struct{ *rancher.Store }

// rancherWorkspace is what is read of a fleetWorkspace.
type rancherWorkspace struct {
	types.Resource
	Name        string            `json:"name,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     string            `json:"created,omitempty"`
	CreatorID   string            `json:"creatorId,omitempty"`
	Removed     string            `json:"removed,omitempty"`
}

// rancherCluster is what is read of a cluster.
type rancherCluster struct {
	types.Resource
	Name        string            `json:"name,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Workspace   string            `json:"fleetWorkspaceName,omitempty"`
	Internal    bool              `json:"internal,omitempty"`
	Template    string            `json:"clusterTemplateRevisionId,omitempty"`
}

// list are the workspaces that Rancher shows this user, with the number of the
// clusters that it shows; with -n that one alone.
func (r *rancherAPI) list(context.Context) ([]view.Workspace, error) {
	found, err := rancher.List[rancherWorkspace](r.Store, typeWorkspace, nil)
	if err != nil {
		return nil, err
	}
	clusters, err := rancher.List[rancherCluster](r.Store, typeCluster, nil)
	if err != nil {
		return nil, err
	}
	held := map[string]int{}
	for _, c := range clusters {
		held[c.Workspace]++
	}
	out := make([]view.Workspace, len(found))
	for i, w := range found {
		out[i] = view.Workspace{Name: w.ID, Clusters: view.Count{Total: held[w.ID]}, Creator: w.CreatorID}
		if t, err := time.Parse(time.RFC3339, w.Created); err == nil {
			out[i].Created = &t
		}
		if w.Removed != "" {
			out[i].Message = "is being deleted"
		}
	}
	slices.SortFunc(out, func(a, b view.Workspace) int { return strings.Compare(a.Name, b.Name) })
	if out = withName(out, r.Scope); len(out) == 0 && r.Scope != "" {
		return nil, r.unknownWorkspace(r.Scope)
	}
	return out, nil
}

// Create makes a workspace, whose owner is the user of the token.
func (r *rancherAPI) Create(_ context.Context, o CreateOptions) (string, error) {
	if wrong := validation.IsDNS1123Label(o.Name); len(wrong) > 0 {
		return "", fmt.Errorf("%w: workspace %q: %s", cli.ErrInput, o.Name, strings.Join(wrong, "; "))
	}
	if workspace.System(o.Name, nil) {
		return "", fmt.Errorf("%w: namespace %q belongs to the system and is never a workspace: choose another name", cli.ErrRefused, o.Name)
	}
	if o.Existing {
		return "", errors.New("--existing changes the namespace, which takes the Kubernetes API: leave --rancher out")
	}
	var made rancherWorkspace
	if err := r.Client.Create(typeWorkspace, map[string]any{"type": typeWorkspace, "name": o.Name}, &made); err != nil {
		if status(err) == http.StatusConflict {
			return "", fmt.Errorf("workspace %s is there already", o.Name)
		}
		return "", r.DescribeError(err)
	}
	text := "workspace " + made.ID + " is made"
	if made.CreatorID != "" {
		text += ", its owner is " + made.CreatorID
	}
	return text, nil
}

// Move changes the workspace of a cluster: of its fields only that one, and those
// that Rancher wants to see in every change.
func (r *rancherAPI) Move(_ context.Context, o MoveOptions) (string, error) {
	c, err := r.cluster(o)
	if err != nil {
		return "", err
	}
	name := c.Name
	if c.Name != c.ID {
		name += " (" + c.ID + ")"
	}
	as := &management.Cluster{}
	as.Name, as.Annotations, as.Spec.Internal = c.ID, c.Annotations, c.Internal
	if why := workspace.MoveRefusal(as); why != "" {
		return "", fmt.Errorf("%w: cluster %s cannot be moved: %s", cli.ErrRefused, name, why)
	}
	if c.Workspace == o.To {
		return fmt.Sprintf("cluster %s is in workspace %s already", name, o.To), nil
	}
	if err := r.checkDestination(o.To); err != nil {
		return "", err
	}
	change := map[string]any{"name": c.Name, "fleetWorkspaceName": o.To}
	if c.Template != "" {
		change["clusterTemplateRevisionId"] = c.Template
	}
	var moved rancherCluster
	if err := r.Client.Update(typeCluster, &c.Resource, change, &moved); err != nil {
		return "", r.DescribeError(err)
	}
	if moved.Workspace != o.To {
		return "", fmt.Errorf("%w: Rancher has taken the change, and has cluster %s in workspace %q", cli.ErrNotReady, name, moved.Workspace)
	}
	from := c.Workspace
	if from == "" {
		from = "none"
	}
	return fmt.Sprintf("cluster %s moves from workspace %s to %s", name, from, o.To), nil
}

// cluster finds a cluster by its id, or by the name that people see.
func (r *rancherAPI) cluster(o MoveOptions) (*rancherCluster, error) {
	if clusterID.MatchString(o.Cluster) {
		c := &rancherCluster{}
		err := r.Client.ByID(typeCluster, o.Cluster, c)
		if err == nil && (o.From == "" || c.Workspace == o.From) {
			return c, nil
		}
		if err != nil && status(err) != http.StatusNotFound {
			return nil, r.DescribeError(err)
		}
	}
	found, err := rancher.List[rancherCluster](r.Store, typeCluster, map[string]any{"name": o.Cluster})
	if err != nil {
		return nil, err
	}
	var ids []string
	found = slices.DeleteFunc(found, func(c rancherCluster) bool { return c.Name != o.Cluster || o.From != "" && c.Workspace != o.From })
	for _, c := range found {
		ids = append(ids, c.ID)
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("no cluster %q that Rancher at %s would show you", o.Cluster, r.Address())
	case 1:
		return &found[0], nil
	}
	return nil, fmt.Errorf("there are several clusters %q: %s; name one of these", o.Cluster, view.List(ids, 5))
}

// checkDestination returns an error for a workspace that does not exist.
func (r *rancherAPI) checkDestination(to string) error {
	w := rancherWorkspace{}
	err := r.Client.ByID(typeWorkspace, to, &w)
	switch {
	case err != nil && status(err) == http.StatusNotFound:
		return r.unknownWorkspace(to)
	case err != nil:
		return r.DescribeError(err)
	case w.Removed != "":
		return fmt.Errorf("%w: workspace %s is being deleted", cli.ErrRefused, to)
	}
	return nil
}

// unknownWorkspace is the error for a workspace that Rancher does not show, with those that
// it shows.
func (r *rancherAPI) unknownWorkspace(name string) error {
	found, err := rancher.List[rancherWorkspace](r.Store, typeWorkspace, nil)
	if err != nil {
		return err
	}
	hint := "; to make it: fleet workspace create " + name + " --rancher"
	if len(found) == 0 {
		return fmt.Errorf("no workspace %q%s", name, hint)
	}
	there := make([]string, len(found))
	for i, w := range found {
		there[i] = w.ID
	}
	slices.Sort(there)
	return client.NoWorkspace(name, hint, there)
}

// status is the HTTP status with which Rancher has refused; 0 for other errors.
func status(err error) int {
	if refused := (*clientbase.APIError)(nil); errors.As(err, &refused) {
		return refused.StatusCode
	}
	return 0
}
