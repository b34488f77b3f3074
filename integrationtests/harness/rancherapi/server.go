// Package rancherapi speaks a part of Rancher's API, version 3, on loopback: the
// types fleetWorkspace and cluster, with norman's own server, so that schemas,
// links, pages, filters and errors are those of Rancher. What it shows is what a
// Backend holds: objects of Rancher's kinds, in memory or in a real API server.
//
// As Rancher does it knows people by their tokens, records who makes a workspace,
// refuses a change of a cluster without its name, and lets a cluster come only into
// workspaces to which its user may add clusters.
package rancherapi

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/rancher/norman/api"
	"github.com/rancher/norman/httperror"
	"github.com/rancher/norman/store/empty"
	"github.com/rancher/norman/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// version is where the API is served.
var version = types.APIVersion{Group: "management.cattle.io", Version: "v3", Path: "/v3"}

// FleetWorkspace is a workspace as the API shows it.
type FleetWorkspace struct {
	types.Resource
	Name        string            `json:"name,omitempty" norman:"required,noupdate"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Created     string            `json:"created,omitempty" norman:"nocreate,noupdate"`
	CreatorID   string            `json:"creatorId,omitempty" norman:"nocreate,noupdate"`
	Removed     string            `json:"removed,omitempty" norman:"nocreate,noupdate"`
}

// Cluster is a cluster as the API shows it.
type Cluster struct {
	types.Resource
	Name               string            `json:"name,omitempty" norman:"required"`
	Annotations        map[string]string `json:"annotations,omitempty"`
	FleetWorkspaceName string            `json:"fleetWorkspaceName,omitempty"`
	Internal           bool              `json:"internal,omitempty" norman:"nocreate,noupdate"`
	Description        string            `json:"description,omitempty"`
}

// A User is who comes with a token.
type User struct {
	ID string // "u-x7k2p"
	// Adds are the workspaces that clusters may be brought into; "*" is any.
	Adds []string
}

// A Server is Rancher's API on loopback.
type Server struct {
	URL   string
	CA    []byte          // PEM
	Users map[string]User // by token

	backend Backend
	mu      sync.Mutex
	seen    []string
}

// New serves what a backend holds until the end of the test.
func New(t testing.TB, b Backend, users map[string]User) *Server {
	t.Helper()
	s := &Server{Users: users, backend: b}
	schemas := types.NewSchemas().
		MustImport(&version, FleetWorkspace{}).
		MustImport(&version, Cluster{})
	for id, store := range map[string]types.Store{
		"fleetWorkspace": &workspaces{s: s}, "cluster": &clusters{s: s},
	} {
		schema := schemas.Schema(&version, id)
		schema.Store = store
		schema.CollectionMethods, schema.ResourceMethods = []string{http.MethodGet, http.MethodPost}, []string{http.MethodGet, http.MethodPut}
	}
	h := api.NewAPIServer()
	if err := h.AddSchemas(schemas); err != nil {
		t.Fatal(err)
	}
	front := httptest.NewTLSServer(s.guard(h))
	t.Cleanup(front.Close)
	s.URL = front.URL
	s.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw})
	return s
}

// Seen are the requests so far, "PUT /v3/clusters/c-12345 as u-x7k2p".
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// guard lets in who has a token.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, known := s.user(r)
		s.mu.Lock()
		s.seen = append(s.seen, fmt.Sprintf("%s %s as %s", r.Method, r.URL.Path, user.ID))
		s.mu.Unlock()
		if !known {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"type":"error","status":"401","message":"must authenticate"}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) user(r *http.Request) (User, bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	u, known := s.Users[token]
	return u, ok && known
}

// refused translates an error of the backend into one of the API.
func refused(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsAlreadyExists(err):
		return httperror.NewAPIError(httperror.ErrorCode{Code: "AlreadyExists", Status: http.StatusConflict}, err.Error())
	case apierrors.IsForbidden(err):
		return httperror.NewAPIError(httperror.PermissionDenied, err.Error())
	case apierrors.IsNotFound(err):
		return httperror.NewAPIError(httperror.NotFound, err.Error())
	}
	return httperror.NewAPIError(httperror.ServerError, err.Error())
}

// find is one object by its name.
func (s *Server) find(plural, id string) (*unstructured.Unstructured, error) {
	all, err := s.backend.All(plural)
	if err != nil {
		return nil, refused(err)
	}
	for _, o := range all {
		if o.GetName() == id {
			return o, nil
		}
	}
	return nil, httperror.NewAPIError(httperror.NotFound, "no "+plural+" "+id)
}

// shown are all objects of a resource as the API shows them.
func (s *Server) shown(plural string, as func(*unstructured.Unstructured) map[string]any) ([]map[string]any, error) {
	all, err := s.backend.All(plural)
	if err != nil {
		return nil, refused(err)
	}
	out := make([]map[string]any, len(all))
	for i, o := range all {
		out[i] = as(o)
	}
	return out, nil
}

// head returns the fields that both types have.
func head(o *unstructured.Unstructured, typ string) map[string]any {
	out := map[string]any{"id": o.GetName(), "type": typ, "created": o.GetCreationTimestamp().UTC().Format("2006-01-02T15:04:05Z")}
	if a := o.GetAnnotations(); len(a) > 0 {
		m := map[string]any{}
		for k, v := range a {
			m[k] = v
		}
		out["annotations"] = m
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		out["removed"] = at.UTC().Format("2006-01-02T15:04:05Z")
	}
	return out
}

const creator = "field.cattle.io/creatorId"

// workspaces are the store of fleetWorkspace.
type workspaces struct {
	empty.Store
	s *Server
}

func shownWorkspace(o *unstructured.Unstructured) map[string]any {
	out := head(o, "fleetWorkspace")
	out["name"] = o.GetName()
	if who := o.GetAnnotations()[creator]; who != "" {
		out["creatorId"] = who
	}
	return out
}

func (w *workspaces) ByID(_ *types.APIContext, _ *types.Schema, id string) (map[string]any, error) {
	o, err := w.s.find("fleetworkspaces", id)
	if err != nil {
		return nil, err
	}
	return shownWorkspace(o), nil
}

func (w *workspaces) List(*types.APIContext, *types.Schema, *types.QueryOptions) ([]map[string]any, error) {
	return w.s.shown("fleetworkspaces", shownWorkspace)
}

// Create makes a workspace with the mark of who has asked for it.
func (w *workspaces) Create(c *types.APIContext, _ *types.Schema, data map[string]any) (map[string]any, error) {
	user, _ := w.s.user(c.Request)
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "management.cattle.io/v3", "kind": "FleetWorkspace", "metadata": map[string]any{"name": data["name"]},
	}}
	o.SetAnnotations(map[string]string{creator: user.ID})
	if err := w.s.backend.Make("fleetworkspaces", o); err != nil {
		return nil, refused(err)
	}
	return shownWorkspace(o), nil
}

// clusters are the store of cluster.
type clusters struct {
	empty.Store
	s *Server
}

func shownCluster(o *unstructured.Unstructured) map[string]any {
	out := head(o, "cluster")
	spec, _, _ := unstructured.NestedMap(o.Object, "spec")
	out["name"], out["fleetWorkspaceName"], out["internal"] = spec["displayName"], spec["fleetWorkspaceName"], spec["internal"] == true
	return out
}

func (c *clusters) ByID(_ *types.APIContext, _ *types.Schema, id string) (map[string]any, error) {
	o, err := c.s.find("clusters", id)
	if err != nil {
		return nil, err
	}
	return shownCluster(o), nil
}

func (c *clusters) List(*types.APIContext, *types.Schema, *types.QueryOptions) ([]map[string]any, error) {
	return c.s.shown("clusters", shownCluster)
}

// webhookDenies is the API server's message for a denial by Rancher's webhook. norman
// passes its code on, 401 (rancher-differences.md, B 9).
const webhookDenies = `admission webhook "rancher.cattle.io.clusters.management.cattle.io" denied the request: Unauthorized`

// Update changes the fields that are given. As the webhook does it reviews who brings a
// cluster into a workspace.
func (c *clusters) Update(x *types.APIContext, _ *types.Schema, data map[string]any, id string) (map[string]any, error) {
	if data["name"] == nil || data["name"] == "" {
		return nil, httperror.NewFieldAPIError(httperror.MissingRequired, "Cluster name", "")
	}
	to, _ := data["fleetWorkspaceName"].(string)
	if user, _ := c.s.user(x.Request); !user.adds(to) {
		return nil, httperror.NewAPIError(httperror.Unauthorized, webhookDenies)
	}
	o, err := c.s.backend.Change("clusters", id, map[string]any{"spec": map[string]any{"displayName": data["name"], "fleetWorkspaceName": to}})
	if err != nil {
		return nil, refused(err)
	}
	return shownCluster(o), nil
}

func (u User) adds(workspace string) bool {
	for _, w := range u.Adds {
		if w == "*" || w == workspace {
			return true
		}
	}
	return false
}
