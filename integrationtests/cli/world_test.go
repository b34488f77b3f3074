// Package cli_test tests what the commands that write do to an API server in memory:
// the real program, with a kubeconfig, as a person runs it.
package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A world is one API server with Fleet's CRDs, and the program.
type world struct {
	t       *testing.T
	cluster harness.ControlPlane
	admin   *kube.Client
	program string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, cluster: harness.Memory(t, "cli")}
	var err error
	if w.admin, err = kube.Connect(kube.Config{REST: w.cluster.REST(), UserAgent: "test", FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	if w.program, err = harness.Program(t.Context(), "fleet", t.TempDir()); err != nil {
		t.Fatal(err)
	}
	harness.InstallCRDs(w.t, w.admin)
	w.namespace(fleet.NamespaceSystem)
	// Without it the commands say that the namespace has no manager.
	_, err = kube.StoreOf[*corev1.ConfigMap](w.admin).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapController},
	})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(harness.Timeout); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("not in time: %s", what)
		}
	}
}

func (w *world) namespace(name string) {
	w.t.Helper()
	_, err := kube.StoreOf[*corev1.Namespace](w.admin).Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	w.must(err)
}

// A fixture is a workspace and a folder for one test.
type fixture struct {
	*world
	ns, dir string
	env     []string // of the programs that it runs, besides what each needs
}

func (w *world) fixture(t *testing.T, name string) *fixture {
	t.Helper()
	inner := *w
	inner.t = t
	s := &fixture{world: &inner, ns: name, dir: t.TempDir()}
	s.namespace(name)
	return s
}

// put writes a file of the folder.
func (s *fixture) put(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	s.must(os.MkdirAll(filepath.Dir(path), 0o755))
	s.must(os.WriteFile(path, []byte(text), 0o644))
}

// An answer is what a command said.
type answer struct {
	out, notes string
	code       int
}

// run runs the program in the folder.
func (s *fixture) run(stdin string, args ...string) answer {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.program, args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"KUBECONFIG=" + s.cluster.Kubeconfig(), "HOME=" + s.dir, "PATH="}
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, notes bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &notes
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return answer{out.String(), notes.String(), cmd.ProcessState.ExitCode()}
}

// ok is run for a command that has to succeed; it returns stdout.
func (s *fixture) ok(args ...string) string {
	s.t.Helper()
	a := s.run("", args...)
	if a.code != 0 {
		s.t.Fatalf("fleet %s: exit code %d\n%s%s", strings.Join(args, " "), a.code, a.out, a.notes)
	}
	return a.out
}

// fails is run for a command that has to end with a code and say something.
func (s *fixture) fails(code int, says string, args ...string) {
	s.t.Helper()
	a := s.run("", args...)
	if a.code != code || !strings.Contains(a.notes, says) {
		s.t.Errorf("fleet %s: want exit code %d and %q, got %d\n%s", strings.Join(args, " "), code, says, a.code, a.notes)
	}
}

// bundles are the names of the workspace's Bundles.
func (s *fixture) bundles() string {
	s.t.Helper()
	list, err := kube.StoreOf[*fleet.Bundle](s.admin).List(s.t.Context(), s.ns, "")
	s.must(err)
	var names []string
	for _, b := range list {
		if b.DeletionTimestamp == nil {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// versions are all Bundles, Secrets and Contents with the versions that they
// have: as long as they are equal, nothing was written.
func (s *fixture) versions(namespace string) []string {
	s.t.Helper()
	var out []string
	add := func(kind string, m metav1.Object) {
		out = append(out, fmt.Sprintf("%s %s/%s %s %s", kind, m.GetNamespace(), m.GetName(), m.GetUID(), m.GetResourceVersion()))
	}
	bundles, err := kube.StoreOf[*fleet.Bundle](s.admin).List(s.t.Context(), namespace, "")
	s.must(err)
	for _, o := range bundles {
		add("Bundle", o)
	}
	secrets, err := kube.StoreOf[*corev1.Secret](s.admin).List(s.t.Context(), namespace, "")
	s.must(err)
	for _, o := range secrets {
		add("Secret", o)
	}
	maps, err := kube.StoreOf[*corev1.ConfigMap](s.admin).List(s.t.Context(), namespace, "")
	s.must(err)
	for _, o := range maps {
		if o.Name != "kube-root-ca.crt" { // the cluster's own; it comes when it comes
			add("ConfigMap", o)
		}
	}
	contents, err := kube.StoreOf[*fleet.Content](s.admin).List(s.t.Context(), "", "")
	s.must(err)
	for _, o := range contents {
		add("Content", o)
	}
	slices.Sort(out)
	return out
}

func manifest(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  k: v\n"
}
