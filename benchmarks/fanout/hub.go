package fanout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// workspace is the namespace of the Bundles.
const workspace = fleet.NamespaceDefault

// labelHalf is on every second cluster.
const labelHalf = "half"

// A hub is the management cluster as this process uses it: with requests that
// cost it as little as possible.
type hub struct {
	*cluster.Cluster
	admin *kube.Client
	http  *http.Client
}

func newHub(c *cluster.Cluster) (*hub, error) {
	config := c.REST()
	admin, err := kube.Connect(kube.Config{REST: config, UserAgent: "bench", FieldManager: "bench"})
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &hub{Cluster: c, admin: admin, http: client}, nil
}

// An answer is a request that was refused.
type answer struct {
	code int
	text string
}

func (a *answer) Error() string { return fmt.Sprintf("%d: %s", a.code, a.text) }

// refused reports whether an error is an answer with this code.
func refused(err error, code int) bool {
	var a *answer
	return errors.As(err, &a) && a.code == code
}

const (
	mergePatch  = "application/merge-patch+json"
	contentJSON = "application/json"
)

// attempts is how often a request is sent that the API server has no time for.
const attempts = 10

// call sends one request; into, where not nil, takes the answer. As a real
// client does, it comes back after a second where the API server asks for that.
func (h *hub) call(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	for i := 1; ; i++ {
		err := h.once(ctx, method, path, contentType, body, into)
		if i == attempts || !refused(err, http.StatusTooManyRequests) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (h *hub) once(ctx context.Context, method, path, contentType string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, h.URL()+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return fmt.Errorf("%s %s: %w", method, path, &answer{resp.StatusCode, string(text)})
	}
	if into == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		err = json.NewDecoder(resp.Body).Decode(into)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// clusterName is the name of the n-th cluster.
func clusterName(n int) string { return fmt.Sprintf("c%05d", n) }

// pathOf is the address of a kind in a namespace.
func pathOf(namespace, resource string) string {
	return "/apis/" + fleet.GroupVersion.String() + "/namespaces/" + namespace + "/" + resource
}

// namespaceOf is where the deployments of the n-th cluster stand.
func namespaceOf(n int) string { return naming.ClusterNamespace(workspace, clusterName(n)) }

// prepare makes the kinds, the namespaces and the clusters.
func (h *hub) prepare(ctx context.Context, charts string, s scenario) error {
	if err := h.installKinds(ctx, filepath.Join(charts, "fleet-crd", "templates", "*.yaml")); err != nil {
		return fmt.Errorf("install kinds: %w", err)
	}
	namespaces := kube.StoreOf[*corev1.Namespace](h.admin)
	for _, name := range []string{fleet.NamespaceSystem, workspace} {
		if _, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	clusters := kube.StoreOf[*fleet.Cluster](h.admin)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for n := range s.clusters {
		group.Go(func() error {
			ns := namespaceOf(n)
			if _, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
				return err
			}
			c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
				Namespace: workspace, Name: clusterName(n), Labels: map[string]string{labelHalf: strconv.FormatBool(n%2 == 1)},
				Annotations: map[string]string{registration.AnnotationDeploymentNamespace: ns},
			}}
			made, err := clusters.Create(ctx, c)
			if err != nil {
				return err
			}
			changed := made.DeepCopy()
			changed.Status.Namespace = ns
			_, err = clusters.PatchStatus(ctx, made, changed)
			return err
		})
	}
	return group.Wait()
}

func (h *hub) installKinds(ctx context.Context, glob string) error {
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no CRDs at %s: %w", glob, err)
	}
	store := kube.StoreOf[*apiextensionsv1.CustomResourceDefinition](h.admin)
	var names []string
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return fmt.Errorf("read CRD: %w", err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(raw, crd); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		if _, err := store.Create(ctx, crd); err != nil {
			return err
		}
		names = append(names, crd.Name)
	}
	err = wait(ctx, time.Minute, func() (string, error) { return unestablished(ctx, store, names) })
	if err != nil {
		return err
	}
	for _, resource := range []string{"bundledeployments", "bundles", "clusters", "contents"} { // their storage may not be ready yet
		if err := h.call(ctx, http.MethodGet, "/apis/"+fleet.GroupVersion.String()+"/"+resource, "", nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// unestablished names a CRD that is not served yet.
func unestablished(ctx context.Context, store *kube.Store[*apiextensionsv1.CustomResourceDefinition], names []string) (string, error) {
	list, err := store.List(ctx, "", "")
	if err != nil {
		return "", err
	}
	for _, crd := range list {
		established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
		if slices.Contains(names, crd.Name) && !established {
			return crd.Name, nil
		}
	}
	return "", nil
}

// accountName is the service account of the manager.
const accountName = "fleet-controller"

// account makes the manager's account, with all rights, and returns a token.
func (h *hub) account(ctx context.Context) (string, error) {
	meta := metav1.ObjectMeta{Namespace: fleet.NamespaceSystem, Name: accountName}
	if _, err := kube.StoreOf[*corev1.ServiceAccount](h.admin).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}); err != nil {
		return "", err
	}
	binding, err := json.Marshal(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: accountName},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
	})
	if err != nil {
		return "", fmt.Errorf("write binding: %w", err)
	}
	if err := h.call(ctx, http.MethodPost, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", contentJSON, binding, nil); err != nil {
		return "", err
	}
	var token authv1.TokenRequest
	path := "/api/v1/namespaces/" + meta.Namespace + "/serviceaccounts/" + meta.Name + "/token"
	if err := h.call(ctx, http.MethodPost, path, contentJSON, []byte(`{"spec":{"expirationSeconds":86400}}`), &token); err != nil {
		return "", err
	}
	return token.Status.Token, nil
}

// stored is how many bytes etcd's file has.
func (h *hub) stored(ctx context.Context) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL()+"/metrics", nil)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("ask for metrics: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "apiserver_storage_size_bytes{") {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " ")+1:]), 64)
			return int64(v), err
		}
	}
	return 0, errNoMetric
}

var errNoMetric = errors.New("the API server shows no apiserver_storage_size_bytes")

var errTimeout = errors.New("not in time")

// look is how often a state without a watch is polled.
const look = 5 * time.Millisecond

// wait returns when pending returns nothing; what it returns last is in the
// error.
func wait(ctx context.Context, timeout time.Duration, pending func() (string, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errTimeout)
	defer cancel()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		text, err := pending()
		if err != nil || text == "" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), text)
		case <-tick.C:
		}
	}
}
