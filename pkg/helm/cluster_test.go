package helm

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// fakeCluster is an API server that serves a few kinds, accepts everything and
// notes what is written. It knows neither rights nor schemas: integrationtests
// try those on a real one.
type fakeCluster struct {
	*httptest.Server

	mu      sync.Mutex
	objects map[string]*unstructured.Unstructured // by path
	written []string                              // "POST /api/v1/namespaces/a/configmaps/b", without dry runs
	as      []string                              // who wrote, of those that were impersonated
	plain   []string                              // what was written as the agent itself

	// lateBy is how many requests for the groups do not list the kind of a CRD yet, and
	// asked how many there were since the CRD is there, by its path.
	lateBy int
	asked  map[string]int
}

var fakeKinds = map[string][]metav1.APIResource{
	"v1": {
		{Name: "namespaces", Kind: "Namespace"}, {Name: "secrets", Kind: "Secret", Namespaced: true},
		{Name: "configmaps", Kind: "ConfigMap", Namespaced: true}, {Name: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true},
	},
	"rbac.authorization.k8s.io/v1": {{Name: "clusterrolebindings", Kind: "ClusterRoleBinding"}},
	"apiextensions.k8s.io/v1":      {{Name: "customresourcedefinitions", Kind: "CustomResourceDefinition"}},
}

func newFakeCluster(t *testing.T) *fakeCluster {
	t.Helper()
	f := &fakeCluster{objects: map[string]*unstructured.Unstructured{}, asked: map[string]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// client is one that deploys to the cluster, for an agent in namespace fleet.
func (f *fakeCluster) client(t *testing.T) *Client {
	t.Helper()
	c, err := Connect(Config{REST: &rest.Config{Host: f.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, AgentNamespace: "fleet"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// put adds an object at a path.
func (f *fakeCluster) put(path string, o *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.objects[path] = o
}

// writes are the requests that have changed something, sorted, but for those of
// Helm's records and of the namespace of the release.
func (f *fakeCluster) writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := slices.Clone(f.written)
	slices.Sort(out)
	return slices.DeleteFunc(out, func(w string) bool {
		return strings.Contains(w, "/secrets/sh.helm.release.v1.") || w == "POST /api/v1/namespaces/team-a"
	})
}

func (f *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	code, body := f.answer(r)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client sees what is missing
}

func (f *fakeCluster) answer(r *http.Request) (int, any) {
	switch r.URL.Path {
	case "/version":
		return 200, map[string]string{"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
	case "/api":
		return 200, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	case "/apis":
		for path := range f.objects {
			f.asked[path]++
		}
		return 200, groupsOf(f.kinds())
	}
	kinds := f.kinds()
	if version := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/apis/"), "/api/"); kinds[version] != nil {
		return 200, metav1.APIResourceList{GroupVersion: version, APIResources: kinds[version]}
	}
	switch r.Method {
	case http.MethodGet:
		return f.get(r)
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return f.write(r)
	}
	return 405, nil
}

// kinds are those that discovery lists.
func (f *fakeCluster) kinds() map[string][]metav1.APIResource {
	out := maps.Clone(fakeKinds)
	for path, o := range f.objects {
		if o.GetKind() != kindCRD || f.asked[path] <= f.lateBy {
			continue
		}
		gk, versions := kindOf(o)
		plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
		for _, v := range versions {
			gv := gk.Group + "/" + v
			out[gv] = append(out[gv], metav1.APIResource{Name: plural, Kind: gk.Kind, Namespaced: true})
		}
	}
	return out
}

func groupsOf(kinds map[string][]metav1.APIResource) metav1.APIGroupList {
	out := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, version := range slices.Sorted(maps.Keys(kinds)) {
		if group, v, ok := strings.Cut(version, "/"); ok {
			gv := metav1.GroupVersionForDiscovery{GroupVersion: version, Version: v}
			out.Groups = append(out.Groups, metav1.APIGroup{Name: group, Versions: []metav1.GroupVersionForDiscovery{gv}, PreferredVersion: gv})
		}
	}
	return out
}

func (f *fakeCluster) get(r *http.Request) (int, any) {
	for version, list := range f.kinds() {
		i := slices.IndexFunc(list, func(k metav1.APIResource) bool { return strings.HasSuffix(r.URL.Path, "/"+k.Name) })
		if i < 0 {
			continue
		}
		selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
		if err != nil {
			return 400, nil
		}
		items := []any{}
		for _, path := range slices.Sorted(maps.Keys(f.objects)) {
			o := f.objects[path]
			if strings.HasPrefix(path, r.URL.Path+"/") && selector.Matches(labels.Set(o.GetLabels())) {
				items = append(items, o.Object)
			}
		}
		return 200, map[string]any{"kind": list[i].Kind + "List", "apiVersion": version, "metadata": map[string]any{}, "items": items}
	}
	if o := f.objects[r.URL.Path]; o != nil {
		return 200, o.Object
	}
	return failure(404, metav1.StatusReasonNotFound)
}

func (f *fakeCluster) write(r *http.Request) (int, any) {
	o, path := &unstructured.Unstructured{}, r.URL.Path
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(&o.Object); err != nil {
			return failure(400, metav1.StatusReasonBadRequest)
		}
	}
	if r.Method == http.MethodPost {
		path += "/" + o.GetName()
	}
	there := f.objects[path]
	switch {
	case r.Method == http.MethodPost && there != nil:
		return failure(409, metav1.StatusReasonAlreadyExists)
	case r.Method != http.MethodPost && there == nil:
		return failure(404, metav1.StatusReasonNotFound)
	case r.URL.Query().Get("dryRun") != "":
		return 200, o.Object
	}
	f.written = append(f.written, r.Method+" "+path)
	if user := r.Header.Get("Impersonate-User"); user != "" {
		f.as = append(f.as, user)
	} else {
		f.plain = append(f.plain, r.Method+" "+path)
	}
	switch r.Method {
	case http.MethodPatch:
		return 200, there.Object
	case http.MethodDelete:
		delete(f.objects, path)
		return 200, there.Object
	}
	if o.GetKind() == kindCRD {
		o.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	}
	f.objects[path] = o
	return 201, o.Object
}

func failure(code int32, reason metav1.StatusReason) (int, any) {
	return int(code), metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Reason: reason}
}
