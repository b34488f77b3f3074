package kubetest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// discover answers discovery requests.
func (h handler) discover(path string) answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out any
	gv, _, ok := groupVersion(path)
	switch {
	case path == "/version":
		out = version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.0-kubetest"}
	case path == "/api":
		out = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case path == "/apis":
		out = metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: h.groups()}
	case path == openAPI:
		out = h.documents()
	case strings.HasPrefix(path, openAPI+"/"):
		if gv, _, ok = groupVersion(strings.TrimPrefix(path, openAPI)); !ok || len(h.kindsOf(gv)) == 0 {
			return notFound()
		}
		out = h.document(gv)
	case path == "/openapi/v2": // kubectl makes patches by it where it is there
		return notFound()
	case ok:
		kinds := h.kindsOf(gv)
		if len(kinds) == 0 {
			return notFound()
		}
		out = metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: kinds}
	default:
		return refusal(h.refuse("does not serve %s", path))
	}
	body, err := json.Marshal(out)
	if err != nil {
		return refusal(err)
	}
	return jsonAnswer(http.StatusOK, body)
}

// notFound is the answer for a path that nothing is at.
func notFound() answer {
	return refusal(apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", schema.GroupResource{}, "", "", 0, true))
}

// groups returns all API groups with a name. Each has one version.
func (h handler) groups() []metav1.APIGroup {
	seen := map[string]metav1.APIGroup{}
	for r := range h.resources {
		if r.Group == "" {
			continue
		}
		v := metav1.GroupVersionForDiscovery{GroupVersion: r.GroupVersion().String(), Version: r.Version}
		seen[r.Group] = metav1.APIGroup{Name: r.Group, Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}
	}
	out := make([]metav1.APIGroup, 0, len(seen))
	for _, g := range seen {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b metav1.APIGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// kindsOf returns the resources of a group and their subresources.
func (h handler) kindsOf(gv schema.GroupVersion) []metav1.APIResource {
	var out []metav1.APIResource
	for gvr, r := range h.resources {
		if gvr.GroupVersion() != gv {
			continue
		}
		one := metav1.APIResource{
			Name: gvr.Resource, SingularName: strings.ToLower(r.Kind.Kind), Namespaced: r.Namespaced, Kind: r.Kind.Kind,
			Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
		}
		out = append(out, one)
		if r.Status {
			one.Name, one.SingularName, one.Verbs = gvr.Resource+"/status", "", metav1.Verbs{"get", "patch", "update"}
			out = append(out, one)
		}
	}
	slices.SortFunc(out, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	return out
}
