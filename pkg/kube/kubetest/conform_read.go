package kubetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	cliresource "k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// namesOf returns the names in the order of the list.
func namesOf[P metav1.Object](list []P) []string {
	var out []string
	for _, o := range list {
		if o.GetName() != rootAuthority {
			out = append(out, o.GetName())
		}
	}
	return out
}

func (c *conformity) list() {
	c.configMap("b", map[string]string{"color": "red"})
	c.configMap("a", map[string]string{"color": "blue"})
	all, err := c.configMaps.List(c.Context(), c.ns, "")
	if got := namesOf(all); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		c.Errorf("want a and b in order, got %v, %v", got, err)
	}
	if all[0].Kind != "" {
		c.Errorf("an item of a list of a built-in kind has no kind of its own, got %q", all[0].Kind)
	}
	for selector, want := range map[string][]string{
		"color=red": {"b"}, "color!=red": {"a"}, "color in (red,blue)": {"a", "b"}, "!color": nil,
	} {
		red, err := c.configMaps.List(c.Context(), c.ns, selector)
		if got := namesOf(red); err != nil || !slices.Equal(got, want) {
			c.Errorf("%s: want %v, got %v, %v", selector, want, got, err)
		}
	}
	var named []*corev1.ConfigMap
	err = c.configMaps.Each(c.Context(), kube.Watch{Fields: "metadata.name=b,metadata.namespace=" + c.ns}, 10, func(m *corev1.ConfigMap) error {
		named = append(named, m)
		return nil
	})
	if got := namesOf(named); err != nil || !slices.Equal(got, []string{"b"}) {
		c.Errorf("want b by its name, got %v, %v", got, err)
	}
	secrets := kube.StoreOf[*corev1.Secret](c.client)
	for name, kind := range map[string]corev1.SecretType{"x": "conform.example/x", "y": "conform.example/y"} {
		ok[*corev1.Secret](c)(secrets.Create(c.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: name}, Type: kind}))
	}
	found, err := c.client.ListMeta(c.Context(), corev1.SchemeGroupVersion.WithKind("Secret"), kube.Watch{Namespace: c.ns, Fields: "type=conform.example/x"})
	if got := namesOf(found); err != nil || !slices.Equal(got, []string{"x"}) {
		c.Errorf("want x by its type, got %v, %v", got, err)
	}
}

// All pages of a list have the same resourceVersion.
func (c *conformity) pages() {
	for i := range 5 {
		c.configMap(fmt.Sprintf("page-%d", i), map[string]string{"paged": "yes"})
	}
	r := c.dynamic.Resource(configMapKind).Namespace(c.ns)
	opts := metav1.ListOptions{Limit: 2, LabelSelector: "paged=yes"}
	var got []string
	var version string
	for page := 1; ; page++ {
		list, err := r.List(c.Context(), opts)
		if err != nil {
			c.Fatal(err)
		}
		for _, o := range list.Items {
			got = append(got, o.GetName())
		}
		if page == 1 {
			version = list.GetResourceVersion()
			c.configMap("page-9", map[string]string{"paged": "yes"})
			if err := c.configMaps.Delete(c.Context(), c.key("page-3"), kube.Precondition{}); err != nil {
				c.Fatal(err)
			}
		}
		if list.GetResourceVersion() != version {
			c.Errorf("page %d is of version %s, the first one of %s", page, list.GetResourceVersion(), version)
		}
		if opts.Continue = list.GetContinue(); opts.Continue == "" {
			break
		}
	}
	if want := []string{"page-0", "page-1", "page-2", "page-3", "page-4"}; !slices.Equal(got, want) {
		c.Errorf("want %v, got %v", want, got)
	}
}

func (c *conformity) metadata() {
	made := c.configMap("made", map[string]string{"a": "b"})
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	got, err := c.client.GetMeta(c.Context(), kind, c.key("made"))
	if err != nil || got.UID != made.UID || got.Labels["a"] != "b" {
		c.Errorf("want metadata, got %+v, %v", got, err)
	}
	c.cluster()
	list, err := c.client.ListMeta(c.Context(), fleet.GroupVersion.WithKind("Cluster"), kube.Watch{Namespace: c.ns})
	if err != nil || len(list) != 1 || list[0].Name != "cluster" {
		c.Errorf("want the metadata of one cluster, got %+v, %v", list, err)
	}
	_, err = c.client.GetMeta(c.Context(), kind, c.key("missing"))
	c.refused(err, kube.IsGone, "there is no such object")
}

func (c *conformity) discovery() {
	live, err := kube.NewLive(c.client)
	if err != nil {
		c.Fatal(err)
	}
	for gvk, want := range map[schema.GroupVersionKind]bool{
		corev1.SchemeGroupVersion.WithKind("ConfigMap"): true, corev1.SchemeGroupVersion.WithKind("Namespace"): false,
		fleet.GroupVersion.WithKind("Cluster"): true, fleet.GroupVersion.WithKind("Content"): false,
	} {
		if got, err := live.ScopeOf(c.Context(), gvk); err != nil || got != want {
			c.Errorf("%s: want namespaced %v, got %v, %v", gvk, want, got, err)
		}
	}
	_, err = live.ScopeOf(c.Context(), schema.GroupVersionKind{Group: "nobody.example", Version: "v1", Kind: "Thing"})
	c.refused(err, reconcile.IsRequeue, "the kind is not served")
	got, err := live.Get(c.Context(), corev1.SchemeGroupVersion.WithKind("Namespace"), kube.Key{Name: c.ns})
	if err != nil || kube.Summarize(got).State != "active" {
		c.Errorf("want an active namespace, got %v, %v", got, err)
	}
}

// A watch reports the changes after a resourceVersion, in order.
func (c *conformity) watch() {
	before := c.configMap("before", nil)
	made := c.configMap("made", nil)
	changed := made.DeepCopy()
	changed.Data["key"] = "changed"
	changed = c.okMap(c.configMaps.Patch(c.Context(), made, changed))
	w := c.watching(metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if o := w.wants(watch.Added, "made"); o.GetResourceVersion() != made.ResourceVersion {
		c.Errorf("want version %s, got %s", made.ResourceVersion, o.GetResourceVersion())
	}
	w.wants(watch.Modified, "made")
	if err := c.configMaps.Delete(c.Context(), c.key("made"), kube.Precondition{}); err != nil {
		c.Fatal(err)
	}
	if o := w.wants(watch.Deleted, "made"); o.GetResourceVersion() == changed.ResourceVersion || o.GetUID() != made.UID {
		c.Error("a deletion has a version of its own")
	}
	c.configMap("after", nil)
	w.wants(watch.Added, "after")
}

// An object that begins to match the selector is added for the watch; an object that
// ceases to match is deleted.
func (c *conformity) watchSelected() {
	before := c.configMap("before", nil)
	w := c.watching(metav1.ListOptions{ResourceVersion: before.ResourceVersion, LabelSelector: "color=red"})
	one := c.watching(metav1.ListOptions{ResourceVersion: before.ResourceVersion, FieldSelector: "metadata.name=other"})
	made := c.configMap("made", nil)
	paint := func(from *corev1.ConfigMap, color string) *corev1.ConfigMap {
		to := from.DeepCopy()
		to.Labels = map[string]string{"color": color}
		return c.okMap(c.configMaps.Patch(c.Context(), from, to))
	}
	red := paint(made, "red")
	w.wants(watch.Added, "made")
	red.Data["key"] = "changed"
	still := paint(c.okMap(c.configMaps.Update(c.Context(), red)), "red")
	w.wants(watch.Modified, "made")
	blue := paint(still, "blue")
	if o := w.wants(watch.Deleted, "made"); o.GetLabels()["color"] != "red" || o.GetResourceVersion() != blue.ResourceVersion {
		c.Errorf("want the last state that was selected, under the new version; got %v, %s", o.GetLabels(), o.GetResourceVersion())
	}
	c.configMap("other", nil)
	one.wants(watch.Added, "other")
}

// A watch can begin with all existing objects, and marks their end by a bookmark.
func (c *conformity) watchInitial() {
	c.configMap("b", map[string]string{"watched": "yes"})
	a := c.configMap("a", map[string]string{"watched": "yes"})
	c.configMap("other", nil)
	opts := metav1.ListOptions{
		LabelSelector: "watched=yes", SendInitialEvents: new(true), AllowWatchBookmarks: true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	w := c.watching(opts)
	seen := map[string]bool{}
	for range 2 {
		e := w.next()
		seen[string(e.Type)+" "+metaOf(e.Object).GetName()] = true
	}
	if !seen["ADDED a"] || !seen["ADDED b"] {
		c.Errorf("want a and b, got %v", seen)
	}
	mark := w.wants(watch.Bookmark, "")
	marked, _ := strconv.Atoi(mark.GetResourceVersion())
	if least, _ := strconv.Atoi(a.ResourceVersion); marked < least {
		c.Errorf("the mark is of version %d, older than %d", marked, least)
	}
	c.configMap("c", map[string]string{"watched": "yes"})
	w.wants(watch.Added, "c")
	plain := c.watching(metav1.ListOptions{LabelSelector: "watched=yes", FieldSelector: "metadata.name=c"})
	plain.wants(watch.Added, "c")
}

func (c *conformity) futureVersion() {
	made := c.configMap("made", nil)
	version, err := strconv.Atoi(made.ResourceVersion)
	if err != nil {
		c.Fatal(err)
	}
	_, err = c.dynamic.Resource(configMapKind).Namespace(c.ns).List(c.Context(), metav1.ListOptions{
		ResourceVersion: strconv.Itoa(version + 1_000_000), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	c.refused(err, func(err error) bool {
		return apierrors.IsTimeout(err) && apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
	}, "the version does not exist yet")
}

// fieldValidation is what kubectl and Helm ask before they leave the validation of what
// they apply to the server, and what the server then does with an unknown field.
func (c *conformity) fieldValidation() {
	client, err := discovery.NewDiscoveryClientForConfig(c.cfg)
	if err != nil {
		c.Fatal(err)
	}
	verifier := cliresource.NewQueryParamVerifierV3(c.dynamic, client.OpenAPIV3(), cliresource.QueryParamFieldValidation)
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ConfigMap"), rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), fleet.GroupVersion.WithKind("Cluster"),
	} {
		if err := verifier.HasSupport(kind); err != nil {
			c.Errorf("%s: %v", kind, err)
		}
	}
	unknown := map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replcas":  1,
			"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web"}}},
			},
		},
	}
	deployments := c.dynamic.Resource(appsv1.SchemeGroupVersion.WithResource("deployments")).Namespace(c.ns)
	for validation, want := range map[string]bool{metav1.FieldValidationStrict: true, metav1.FieldValidationIgnore: false} {
		options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: validation}
		_, err := deployments.Create(c.Context(), &unstructured.Unstructured{Object: unknown}, options)
		if refused := apierrors.IsBadRequest(err) && strings.Contains(err.Error(), `unknown field "spec.replcas"`); refused != want || !want && err != nil {
			c.Errorf("fieldValidation %s: got %v", validation, err)
		}
	}
}
