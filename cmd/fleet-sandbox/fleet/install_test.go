package fleet

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubebin"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// settings is a Config with programs that do nothing, or a skip where
// Kubernetes is not built.
func settings(t *testing.T, script string) Config {
	t.Helper()
	root, err := source.Root()
	if err != nil {
		t.Fatal(err)
	}
	builder, err := kubebin.Default(root)
	if err != nil {
		t.Fatal(err)
	}
	kubernetes, err := builder.Cached(t.Context())
	if errors.Is(err, kubebin.ErrNotBuilt) {
		t.Skip("needs the sandbox's Kubernetes: run go run ./hack/test, which builds it first")
	}
	if err != nil {
		t.Fatal(err)
	}
	programs := t.TempDir()
	for _, name := range []string{"fleet-controller", "fleet-agent"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return Config{Dir: t.TempDir(), Kubernetes: kubernetes, Programs: programs, Charts: filepath.Join(root, "charts")}
}

// TestManagerDies: a manager that ends while the fleet starts is an accident
// with its last words, and everything else is stopped. What it was started
// with is what its chart says: its own service account's token, and no
// Deployment beside it.
func TestManagerDies(t *testing.T) {
	word := filepath.Join(t.TempDir(), "die") // they live until this file exists
	config := settings(t, `echo "started with $*"; env | cut -d= -f1 | sort | tr '\n' ' ' >&2; echo; `+
		`while ! [ -e `+word+` ]; do sleep 0.1; done; echo cannot lead; exit 7`)
	logs := filepath.Join(config.Dir, "log", "local")
	var steps []string
	config.Report = func(step, text string) {
		steps = append(steps, step+" "+text)
		if step != "install" {
			return
		}
		for _, name := range []string{"fleet-controller.log", "gitjob.log"} {
			for text := []byte(nil); !bytes.Contains(text, []byte("TMPDIR")); time.Sleep(10 * time.Millisecond) {
				text, _ = os.ReadFile(filepath.Join(logs, name))
			}
		}
		if err := os.WriteFile(word, nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	f, err := Start(t.Context(), config)
	if f != nil {
		f.Stop()
		t.Fatal("a fleet without a manager has started")
	}
	var death *process.Death
	if !errors.As(err, &death) {
		t.Fatalf("want a death, got %v", err)
	}
	if !strings.Contains(death.Name, " of local") || death.LastLine != "cannot lead" || death.Status != "exit status 7" {
		t.Errorf("want the manager's death, got %v %v", death, death.Details())
	}
	if want := []string{"start local: serving", "install Fleet on local: 14 CRDs, manager running"}; !slices.Equal(steps, want) {
		t.Errorf("want steps %q, got %q", want, steps)
	}
	log, err := os.ReadFile(filepath.Join(logs, "gitjob.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--namespace=cattle-fleet-system", "--roles=gitjob", "HOME", "POD_UID", "TMPDIR"} {
		if !strings.Contains(string(log), want) {
			t.Errorf("%q is not in what the program saw:\n%s", want, log)
		}
	}
	if strings.Contains(string(log), "KUBECONFIG") {
		t.Errorf("the program saw the user's environment:\n%s", log)
	}
}

// TestCredentials: the manager's kubeconfigs hold tokens of the charts' own
// service accounts, with their rights and no others.
func TestCredentials(t *testing.T) {
	config := settings(t, "exec sleep 600")
	f := &Fleet{cfg: config, group: process.NewGroup()}
	f.cfg.CheckIn = 10 * time.Second
	f.cfg.LogDir = filepath.Join(config.Dir, "log")
	f.ctx, f.cancel = context.WithCancelCause(t.Context())
	t.Cleanup(f.Stop)
	if err := f.startClusters(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.installManager(t.Context(), f.tiers[0]); err != nil {
		t.Fatal(err)
	}
	deployments, err := clientset(t, f.Local.Cluster.Kubeconfig()).AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(deployments.Items) != 0 {
		t.Errorf("want no Deployment, got %d, %v", len(deployments.Items), err)
	}
	// What an account may comes first: the API server learns of bindings a moment after
	// they were made.
	cases := []struct {
		name    string
		account string
		verb    string
		kind    string
		allowed bool
	}{
		{"ControllerWritesDeployments", "fleet-controller", "create", "bundledeployments", true},
		{"ControllerWritesNoCRDs", "fleet-controller", "delete", "customresourcedefinitions", false},
		{"GitjobWritesBundles", "gitjob", "create", "bundles", true},
		{"GitjobWritesNoDeployments", "gitjob", "create", "bundledeployments", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			client := clientset(t, filepath.Join(config.Dir, "local", c.account+".kubeconfig"))
			group := api.Group
			if c.kind == "customresourcedefinitions" {
				group = "apiextensions.k8s.io"
			}
			allowed := func() bool {
				review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Namespace: api.NamespaceDefault, Verb: c.verb, Group: group, Resource: c.kind,
					}},
				}, metav1.CreateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return review.Status.Allowed
			}
			for deadline := time.Now().Add(90 * time.Second); c.allowed && !allowed() && time.Now().Before(deadline); {
				time.Sleep(20 * time.Millisecond) // how often it is looked
			}
			if got := allowed(); got != c.allowed {
				t.Errorf("%s may %s %s: want %v, got %v", c.account, c.verb, c.kind, c.allowed, got)
			}
		})
	}
}

func clientset(t *testing.T, path string) kubernetes.Interface {
	t.Helper()
	config, err := kube.RESTConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}
