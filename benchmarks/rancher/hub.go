package rancher

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// ownAgent is this program's User-Agent, both as Rancher and as an observer.
const ownAgent = "bench"

// makers is how many objects of Rancher's are made at once.
const makers = 32

// Rancher's kinds.
var (
	management   = resource("management.cattle.io", "v3", "clusters")
	workspaces   = resource("management.cattle.io", "v3", "fleetworkspaces")
	provisioning = resource("provisioning.cattle.io", "v1", "clusters")
)

var kinds = map[schema.GroupVersionResource]string{
	management: "Cluster", workspaces: "FleetWorkspace", provisioning: "Cluster",
	resource("management.cattle.io", "v3", "settings"): "Setting", resource("management.cattle.io", "v3", "features"): "Feature",
	resource("management.cattle.io", "v3", "globalroles"): "GlobalRole", resource("management.cattle.io", "v3", "globalrolebindings"): "GlobalRoleBinding",
}

func resource(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// A hub is the cluster that Rancher and the manager run in.
type hub struct {
	*cluster.Cluster
	admin   *kube.Client
	objects dynamic.Interface
}

// newHub makes all kinds, and Fleet's namespace.
func newHub(ctx context.Context, c *cluster.Cluster) (*hub, error) {
	config := c.REST()
	config.UserAgent = ownAgent
	admin, err := kube.Connect(kube.Config{REST: config, UserAgent: ownAgent, FieldManager: ownAgent})
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	h := &hub{Cluster: c, admin: admin, objects: objects}
	if err := harness.InstallKinds(ctx, admin); err != nil {
		return nil, err
	}
	for r, kind := range kinds {
		if err := h.install(ctx, r, kind); err != nil {
			return nil, err
		}
	}
	_, err = kube.StoreOf[*corev1.Namespace](admin).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet.NamespaceSystem}})
	return h, err
}

// install makes one of Rancher's kinds, which keeps all fields, and waits until it
// is served.
func (h *hub) install(ctx context.Context, r schema.GroupVersionResource, kind string) error {
	scope, keep := apiextensionsv1.ClusterScoped, true
	if r == provisioning {
		scope = apiextensionsv1.NamespaceScoped
	}
	_, err := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](h.admin).Create(ctx, &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: r.Resource + "." + r.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: r.Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: r.Resource, Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: r.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}},
			}},
		},
	})
	if err != nil {
		return err
	}
	for {
		if _, err = h.objects.Resource(r).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return nil
		}
		if kube.Sleep(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("%s is not served: %w", r, err)
		}
	}
}

// make makes an object of Rancher's from JSON.
func (h *hub) make(ctx context.Context, r schema.GroupVersionResource, namespace, name, text string) error {
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &obj.Object); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	obj.SetAPIVersion(r.GroupVersion().String())
	obj.SetKind(kinds[r])
	obj.SetNamespace(namespace)
	obj.SetName(name)
	if _, err := h.objects.Resource(r).Namespace(namespace).Create(ctx, obj, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	return nil
}

func workspaceName(i int) string { return fmt.Sprintf("team-%03d", i) }

func managementName(i int) string { return fmt.Sprintf("c-m-%08d", i) }

// ballast is what stands in a management Cluster's status and is nothing to Fleet:
// Rancher's own are 10 to 30 KiB.
var ballast = strings.Repeat("0123456789abcdef", 640)

// triple makes a provisioning and a management Cluster that are ready to be mapped.
func (h *hub) triple(ctx context.Context, i, workspaces int) error {
	workspace, name := workspaceName(i%workspaces), fmt.Sprintf("cluster-%05d", i)
	err := h.make(ctx, management, "", managementName(i), fmt.Sprintf(
		`{"metadata":{"labels":{"env":"prod","n":"%d"},"annotations":{"objectset.rio.cattle.io/applied":%q}},
		"spec":{"displayName":%q,"fleetWorkspaceName":%q},"status":{"conditions":[{"type":"Ready","status":"True"}],"ballast":%q}}`,
		i, ballast[:2048], name, workspace, ballast))
	if err != nil {
		return err
	}
	return h.make(ctx, provisioning, workspace, name, fmt.Sprintf(
		`{"spec":{"rkeConfig":{"ballast":%q}},"status":{"clusterName":%q,"clientSecretName":"%s-kubeconfig"}}`, ballast[:4096], managementName(i), name))
}

// many does something for 0 to n-1, some at once.
func many(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(makers)
	for i := range n {
		group.Go(func() error { return f(ctx, i) })
	}
	return group.Wait()
}

// label changes a label of a management Cluster, as a person does.
func (h *hub) label(ctx context.Context, i int, value string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"env":%q}}}`, value)
	if _, err := h.objects.Resource(management).Patch(ctx, managementName(i), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("label a cluster: %w", err)
	}
	return nil
}
