package install

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// registered is a registration of Cluster c1 that the reference has granted, with its account
// and rights.
func registered(name string) string {
	meta := func(namespace, name string) string {
		return fmt.Sprintf(`{%sname: %s, labels: {fleet.cattle.io/managed: "true", objectset.rio.cattle.io/hash: h}, annotations: {
  objectset.rio.cattle.io/id: cluster-registration, objectset.rio.cattle.io/owner-gvk: "fleet.cattle.io/v1alpha1, Kind=ClusterRegistration",
  objectset.rio.cattle.io/owner-name: NAME, objectset.rio.cattle.io/owner-namespace: fleet-default}}`, namespace, name)
	}
	const cluster, workspace = "namespace: cluster-fleet-default-c1-0123456789ab, ", "namespace: fleet-default, "
	subjects := "subjects: [{kind: ServiceAccount, namespace: cluster-fleet-default-c1-0123456789ab, name: NAME-uid}]\n"
	text := "apiVersion: fleet.cattle.io/v1alpha1\nkind: ClusterRegistration\nmetadata: {namespace: fleet-default, name: NAME}\nspec: {clientID: c1, clientRandom: NAME}\n---\n" +
		"apiVersion: v1\nkind: ServiceAccount\nmetadata: " + meta(cluster, "NAME-uid") + "\n---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: " + meta(workspace, "NAME") +
		"\nrules: [{apiGroups: [fleet.cattle.io], resources: [clusters/status], resourceNames: [c1], verbs: [patch]}]\n---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: " + meta(workspace, "NAME") +
		"\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: NAME}\n" + subjects + "---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: " + meta(cluster, "NAME") +
		"\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fleet-bundle-deployment}\n" + subjects + "---\n" +
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: " + meta("", "NAME-content") +
		"\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fleet-content}\n" + subjects
	return strings.ReplaceAll(text, "NAME", name)
}

// gitJobs are what the reference has made for GitRepo shop, whose UID is UID: a Job that
// ends, one that does not, and the account of Jobs; and the Jobs of its chart.
const gitJobs = `apiVersion: batch/v1
kind: Job
metadata: {namespace: fleet-default, name: shop-1, ownerReferences: [OWNER]}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: fleet, image: "none.invalid/fleet:v0.16.1", args: [fleet, apply]}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {namespace: cattle-fleet-system, name: fleet-cleanup-clusterregistrations, annotations: {helm.sh/hook: "post-install, post-upgrade"}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: cleanup, image: "none.invalid/fleet:v0.16.1", command: [fleet], args: [cleanup, clusterregistration]}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {namespace: cattle-fleet-system, name: fleet-cleanup-gitrepo-jobs, annotations: {helm.sh/hook: "post-install, post-upgrade"}}
spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: cleanup, image: "none.invalid/fleet:v0.16.1", command: [fleet], args: [cleanup, gitjob]}]}}}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: fleet-default, name: git-shop, ownerReferences: [OWNER]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: fleet-default, name: git-shop, ownerReferences: [OWNER]}
rules: [{apiGroups: [fleet.cattle.io], resources: [bundles], verbs: [get, create, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: fleet-default, name: git-shop, ownerReferences: [OWNER]}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: git-shop}
subjects: [{kind: ServiceAccount, name: git-shop}]
`

// alike are objects of users that have names, labels or commands of the reference's.
const alike = `apiVersion: batch/v1
kind: Job
metadata: {namespace: shop, name: shop-1}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: fleet, image: "none.invalid/fleet:v0.16.1", args: [fleet, apply]}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {namespace: cattle-fleet-system, name: fleet-migrate-gitrepo-helm-url-regex}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: own, image: "none.invalid/own:1", command: [own]}]}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {namespace: shop, name: fleet-cleanup-gitrepo-jobs}
spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: cleanup, image: "none.invalid/fleet:v0.16.1", command: [fleet], args: [cleanup, gitjob]}]}}}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: shop, name: git-shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: fleet-default, name: request-1, labels: {fleet.cattle.io/managed: "true"}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: request-0-content}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: fleet-content}
`

// leftovers are what fleet cleanup deletes after an upgrade.
var leftovers = []string{
	"ClusterRegistration fleet-default/request-1",
	"ClusterRoleBinding request-1-content",
	"CronJob cattle-fleet-system/fleet-cleanup-gitrepo-jobs",
	"Job cattle-fleet-system/fleet-cleanup-clusterregistrations",
	"Job fleet-default/shop-1",
	"Role fleet-default/git-shop",
	"Role fleet-default/request-1",
	"RoleBinding cluster-fleet-default-c1-0123456789ab/request-1",
	"RoleBinding fleet-default/git-shop",
	"RoleBinding fleet-default/request-1",
	"ServiceAccount cluster-fleet-default-c1-0123456789ab/request-1-uid",
	"ServiceAccount fleet-default/git-shop",
}

var (
	registrations = fleet.GroupVersion.WithResource("clusterregistrations")
	jobs          = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
)

// After an upgrade fleet cleanup deletes what the reference has left behind, and nothing
// else: a list of all objects before and after shows it. Beside the reference's manager it
// deletes no account, and no Job of its chart.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "leftovers")
	w.install(referenceKinds(), nil)
	w.until("the kinds are served", w.serves)
	w.install(referenceManager(), map[string]any{"apiServerURL": "https://fleet.invalid"})
	w.apply(runtimeRoles)
	w.apply(possessions)
	w.apply(registered("request-1"))
	w.grant("request-1")
	repo, err := w.any.Resource(fleet.GroupVersion.WithResource("gitrepos")).Namespace("fleet-default").Get(w.Context(), "shop", metav1.GetOptions{})
	w.must(err)
	owner := fmt.Sprintf("{apiVersion: fleet.cattle.io/v1alpha1, kind: GitRepo, name: shop, uid: %s, controller: true}", repo.GetUID())
	w.apply(strings.ReplaceAll(gitJobs, "OWNER", owner))
	w.apply(alike)
	w.until("the Jobs have ended", w.haveEnded)
	w.until("the next second", func(ctx context.Context) bool { return w.laterThan(ctx, "request-1") })
	w.apply(registered("request-2"))
	w.grant("request-2")

	before := w.objects()
	beside := w.fleet("cleanup", "gitjob", "--dry-run")
	if want := "would delete Job fleet-default/shop-1: it has succeeded\n"; beside != want {
		t.Errorf("beside the reference: want %q, got %q", want, beside)
	}
	w.must(w.upgrade(w.ours("fleet-crd"), nil))
	w.must(w.upgrade(w.ours("fleet"), nil))
	if lost := missing(before, w.objects()); len(lost) > 0 {
		t.Errorf("the upgrade has deleted %v", lost)
	}

	before, since := w.objects(), time.Now()
	if dry := w.fleet("cleanup", "clusterregistration", "--dry-run") + w.fleet("cleanup", "gitjob", "--dry-run"); strings.Count(dry, "would delete ") != len(leftovers) {
		t.Errorf("want %d leftovers, got\n%s", len(leftovers), dry)
	}
	if n := w.deletions(since); len(n) > 0 {
		t.Errorf("--dry-run has deleted %v", n)
	}
	w.fleet("cleanup", "clusterregistration", "--min", "1ms", "--max", "2ms", "--factor", "1.1")
	w.fleet("cleanup", "gitjob", "--batch-size", "2")
	after := w.objects()
	lost := slices.DeleteFunc(missing(before, after), func(name string) bool { return strings.HasPrefix(name, "Pod ") }) // of Jobs
	if diff := cmp.Diff(leftovers, lost); diff != "" {
		t.Errorf("what is gone\n-want +got\n%s", diff)
	}
	for name, o := range before {
		if now, ok := after[name]; ok && o.GetNamespace() != fleet.NamespaceSystem && now.GetResourceVersion() != o.GetResourceVersion() {
			t.Errorf("%s was written", name)
		}
	}
	if n := w.deletions(since); len(n) != len(leftovers) {
		t.Errorf("%d deletions:\n%s", len(n), strings.Join(n, "\n"))
	}
	if again := w.fleet("cleanup", "clusterregistration") + w.fleet("cleanup", "gitjob"); again != "" {
		t.Errorf("there are leftovers again: %s", again)
	}
}

// grant writes the status that the reference writes.
func (w *world) grant(name string) {
	w.Helper()
	_, err := w.any.Resource(registrations).Namespace("fleet-default").Patch(w.Context(), name, types.MergePatchType,
		[]byte(`{"status":{"clusterName":"c1","granted":true}}`), metav1.PatchOptions{}, "status")
	w.must(err)
}

// haveEnded reports whether all Jobs have ended.
func (w *world) haveEnded(ctx context.Context) bool {
	list, err := w.any.Resource(jobs).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return false
	}
	return !slices.ContainsFunc(list.Items, func(j unstructured.Unstructured) bool {
		at, _, _ := unstructured.NestedString(j.Object, "status", "completionTime")
		return at == ""
	})
}

// laterThan reports whether a registration made now has a later time than another one.
func (w *world) laterThan(ctx context.Context, name string) bool {
	r, err := w.any.Resource(registrations).Namespace("fleet-default").Get(ctx, name, metav1.GetOptions{})
	return err == nil && time.Now().Unix() > r.GetCreationTimestamp().Unix()
}

// fleet runs the command line as an administrator, and returns its stdout.
func (w *world) fleet(args ...string) string {
	w.Helper()
	var out, notes bytes.Buffer
	cmd := exec.CommandContext(w.Context(), filepath.Join(programs(w), "fleet"), append(args, "--kubeconfig="+w.cluster.Kubeconfig())...)
	cmd.Stdout, cmd.Stderr = &out, &notes
	if err := cmd.Run(); err != nil {
		w.Fatalf("fleet %v: %v: %s", args, err, notes.String())
	}
	return out.String()
}
