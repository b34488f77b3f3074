package gitrepo_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
)

func manifest(value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: " + value + "}\n"
}

func TestGitRepo(t *testing.T) {
	w := newWorld(t)
	for name, report := range map[string]func(*fixture){
		"Commits": commits, "Values": values, "Broken": broken, "Faults": faults, "Credentials": credentials, "Conflict": conflict,
		"Brake": brake, "Restriction": restriction, "Deletion": deletion, "Restart": restart, "Resealed": resealed, "Rest": rest, "Forced": forced,
		"Charts": charts, "Passing": passing, "Findings": findings, "Emptied": emptied, "Scans": scans, "Storage": storage, "Large": large, "Linted": linted, "Named": named, "Depending": depending, "SecretTaken": secretTaken,
		"Suspended": suspended, "Pruning": pruning, "PruningHeld": pruningHeld, "Mistyped": mistyped, "TargetNamespace": targetNamespace, "Limited": limited, "Documented": documented,
	} {
		t.Run(name, func(t *testing.T) { report(w.fixture(t)) })
	}
}

// A targetNamespace that cannot exist is refused where it stands, before anything is read.
func targetNamespace(s *fixture) {
	s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one")})
	s.follow(func(spec *fleet.GitRepoSpec) { spec.Paths, spec.TargetNamespace = []string{"*"}, "Bad_NS" })
	s.says("Accepted", "False", "InvalidTargetNamespace",
		`targetNamespace "Bad_NS" of the GitRepo is not possible: want at most 63 lower case letters, digits and -, a letter or digit first and last`)
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.TargetNamespace = "good-ns" })
	s.says("Accepted", "True", "", "")
}

// Commits make, change and remove Bundles, each only where something changed.
func commits(s *fixture) {
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one"), "b/cm.yaml": manifest("two"), "c/cm.yaml": manifest("three")})
	s.follow(func(spec *fleet.GitRepoSpec) { spec.Paths = []string{"*"} })
	s.read(first)
	if st := s.status(); st.GitJobStatus != "Current" || st.ObservedGeneration != 1 || st.PollingCommit != first {
		s.t.Errorf("got %+v", st)
	}
	s.says("Accepted", "True", "", "")
	s.says("GitPolling", "True", "", "")
	before := s.bundles()
	b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a")
	want := map[string]string{fleet.LabelRepoName: "repo", fleet.LabelCommit: first, fleet.LabelOwnerBucket: b.Labels[fleet.LabelOwnerBucket]}
	if diff := cmp.Diff(want, b.Labels); diff != "" || b.Labels[fleet.LabelOwnerBucket] == "" {
		s.t.Error(diff)
	}
	if len(b.Spec.Targets) != 1 || b.Spec.Targets[0].ClusterGroup != "default" || len(b.Spec.TargetRestrictions) != 1 {
		s.t.Errorf("want the default target, got %+v", b.Spec)
	}

	second := s.git.Commit("second", map[string]string{"b/cm.yaml": manifest("new"), "README.md": "not deployed"})
	s.read(second)
	after := s.bundles()
	if after["repo-a"] != before["repo-a"] || after["repo-c"] != before["repo-c"] || after["repo-b"] == before["repo-b"] {
		s.t.Errorf("want only repo-b written: %v, %v", before, after)
	}
	a, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a")
	b, _ = get[*fleet.Bundle](s.world, s.ns, "repo-b")
	if a.Labels[fleet.LabelCommit] != first || b.Labels[fleet.LabelCommit] != second {
		s.t.Error("the label names the commit that last changed the bundle")
	}

	third := s.git.Commit("third", map[string]string{"c": "", "d/cm.yaml": manifest("four")})
	s.engine("repo-c")
	s.read(third)
	s.until("repo-c is gone and repo-d is there", func() bool {
		now := s.bundles()
		return now["repo-c"] == "" && now["repo-d"] != "" && len(now) == 3
	})
	writes := strings.Join(s.writes(), "\n")
	if strings.Index(writes, "patch bundles/repo-c") < strings.LastIndex(writes, "bundles/repo-d") {
		s.t.Errorf("what is new is written before what is old is removed:\n%s", writes)
	}
	if strings.Contains(writes, "delete bundles") {
		s.t.Errorf("the worker removes nothing, it asks:\n%s", writes)
	}
	s.until("the new commit is reported", func() bool {
		list, err := kube.StoreOf[*eventsv1.Event](s.admin).List(context.Background(), s.ns, "")
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range list {
			if e.Reason == fleet.EventGotNewCommit && e.Note == "commit "+third {
				return true
			}
		}
		return false
	})
}

// Helm values are kept in a Secret, which comes before the Bundle and goes when
// the values go.
func values(s *fixture) {
	chart := map[string]string{"web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "web/fleet.yaml": "helm: {values: {password: canary}}\n"}
	s.read2(s.git.Commit("first", chart))
	b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-web")
	secret, ok := get[*corev1.Secret](s.world, s.ns, "repo-web")
	if !ok || secret.Type != fleet.SecretTypeBundleValues || string(secret.Data[fleet.KeyBundleValues]) != `{"password":"canary"}` {
		s.t.Fatalf("want the values in a Secret, got %+v", secret)
	}
	if b.Spec.ValuesHash == "" || b.Spec.ValuesHash != options.BundleValuesHash(secret.Data) {
		s.t.Errorf("the Bundle must be bound to the Secret: %q", b.Spec.ValuesHash)
	}
	if raw, err := json.Marshal(b); err != nil || strings.Contains(string(raw), "canary") {
		s.t.Error("a value stands in the Bundle")
	}
	if order := strings.Join(s.writes(), "\n"); strings.Index(order, "create secrets/") > strings.Index(order, "create bundles/") {
		s.t.Errorf("the Secret comes first:\n%s", order)
	}
	s.read(s.git.Commit("second", map[string]string{"web/fleet.yaml": "helm: {values: {password: other}}\n"}))
	secret, _ = get[*corev1.Secret](s.world, s.ns, "repo-web")
	b, _ = get[*fleet.Bundle](s.world, s.ns, "repo-web")
	if string(secret.Data[fleet.KeyBundleValues]) != `{"password":"other"}` || b.Spec.ValuesHash != options.BundleValuesHash(secret.Data) {
		s.t.Errorf("want the new values, got %s", secret.Data)
	}
	s.read(s.git.Commit("third", map[string]string{"web/fleet.yaml": "namespace: web\n"}))
	s.until("the Secret is gone", func() bool {
		_, there := get[*corev1.Secret](s.world, s.ns, "repo-web")
		return !there
	})
	s.git.Commit("fourth", map[string]string{
		"web/fleet.yaml": "helm: {chart: ., valuesFiles: [large.yaml]}\n", "web/large.yaml": "password: " + strings.Repeat("canary", 200_000) + "\n",
	})
	s.says("Stalled", "True", "Value", "repo-web: its values cannot be kept in a Secret: they may have 1 MiB in all")
}

// read2 follows the repository and waits for a commit.
func (s *fixture) read2(commit string) {
	s.t.Helper()
	s.follow(nil)
	s.read(commit)
}

// A broken bundle says where, keeps its last version, and stops no other.
func broken(s *fixture) {
	s.git.Commit("first", map[string]string{"a/fleet.yaml": "namespace: a\n", "a/cm.yaml": manifest("one"), "b/fleet.yaml": "namespace: b\n", "b/cm.yaml": manifest("two")})
	s.follow(nil)
	s.until("two bundles", func() bool { return len(s.bundles()) == 2 })
	bad := s.git.Commit("bad", map[string]string{"a/cm.yaml": "a: 1\nb:\n\tc: 2\n", "b/cm.yaml": manifest("three")})
	s.read(bad)
	s.says("Stalled", "True", "InvalidYAML", "a/cm.yaml:3: YAML: a tab where spaces indent")
	if st := s.status(); st.GitJobStatus != "Failed" {
		s.t.Errorf("want Failed, got %s", st.GitJobStatus)
	}
	a, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a")
	b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-b")
	if !strings.Contains(a.Spec.Resources[0].Content, "one") || !strings.Contains(b.Spec.Resources[0].Content, "three") {
		s.t.Error("want the old version of a and the new one of b")
	}
	s.read(s.git.Commit("good", map[string]string{"a/cm.yaml": manifest("four")}))
	s.says("Stalled", "False", "", "")
}

// A repository that cannot be read says why, and keeps what is deployed.
func faults(s *fixture) {
	s.follow(func(spec *fleet.GitRepoSpec) { spec.Repo = s.server.URL + "/none" })
	host := strings.TrimPrefix(s.server.URL, "http://")
	s.says("GitPolling", "False", "RepositoryNotFound", `git host "`+host+`" has no repository "none" (404), or it is private`)
	s.says("Stalled", "True", "RepositoryNotFound", "")
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one")})
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.Repo, r.Spec.Branch = s.server.URL+"/repo", "" })
	s.says("GitPolling", "False", "BranchNotFound", `branch "master" does not exist; the default branch is "main"`)
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.Branch, r.Spec.Paths = "main", []string{"nothing", "else"} })
	s.says("Stalled", "True", "NothingToDeploy", `path "nothing" is not in the repository; nothing is removed until it is there or taken out of spec.paths (and 1 more)`)
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.Paths = []string{"a"} })
	s.read(first)
	s.says("Stalled", "False", "", "")
	if st := s.status(); st.ObservedGeneration != 4 {
		s.t.Errorf("want generation 4, got %d", st.ObservedGeneration)
	}
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.Paths = []string{"gone"} })
	s.says("Stalled", "True", "NothingToDeploy", "")
	if len(s.bundles()) != 1 {
		s.t.Error("a repository that yields nothing removes nothing")
	}
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.Paths = nil })
	s.says("Stalled", "False", "", "")
	s.until("the name is that of the whole repository", func() bool { return s.bundles()["repo"] != "" })
	s.engine("repo-a")

	s.server.Intercept(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) })
	s.says("GitPolling", "False", "RemoteFailing", `git host "`+host+`" cannot serve "repo": the connection was closed early`)
	s.says("Reconciling", "True", "RemoteFailing", "")
	if st := s.status(); st.GitJobStatus != "Current" || st.Commit != first || len(s.bundles()) == 0 {
		s.t.Errorf("what was deployed stays: %+v", st)
	}
	s.server.Intercept(nil)
	s.says("GitPolling", "True", "", "")
	s.says("Reconciling", "False", "", "")
}

// Credentials come from the Secret; a repaired Secret is used at once.
func credentials(s *fixture) {
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one")})
	s.server.Intercept(gittest.BasicAuth("ana", "canary"))
	s.follow(func(spec *fleet.GitRepoSpec) { spec.ClientSecretName = "git" })
	s.says("Accepted", "False", fleet.EventFailedValidatingSecret, `secret "git" does not exist in namespace `+s.ns+` (clientSecretName)`)
	secret := create(s.world, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "git"}, Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{"username": "ana", "password": "wrong"},
	})
	s.says("GitPolling", "False", "AuthenticationRefused", `git host "`+strings.TrimPrefix(s.server.URL, "http://")+`" refuses the credentials (401): they are those of Secret "git"`)
	change(s.world, secret, func(x *corev1.Secret) { x.Data["password"] = []byte("canary") })
	s.read(first)
	s.says("Stalled", "False", "", "")
	repo, _ := get[*fleet.GitRepo](s.world, s.ns, "repo")
	if raw, err := json.Marshal(repo); err != nil || strings.Contains(string(raw), "canary") {
		s.t.Error("the credential stands in the GitRepo")
	}
}

// A Bundle that another client made is not overwritten; the worker makes its
// own when the name is free.
func conflict(s *fixture) {
	other := create(s.world, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "repo-a"}, Spec: fleet.BundleSpec{Paused: true}})
	s.git.Commit("first", map[string]string{"a/fleet.yaml": "namespace: a\n", "a/cm.yaml": manifest("one"), "b/fleet.yaml": "namespace: b\n", "b/cm.yaml": manifest("two")})
	s.follow(nil)
	s.says("Stalled", "True", "Conflict", `a: bundle "repo-a" exists and belongs to no GitRepo; it is not overwritten`)
	now, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a")
	if !now.Spec.Paused || now.ResourceVersion != other.ResourceVersion || s.bundles()["repo-b"] == "" {
		s.t.Errorf("want the foreign Bundle untouched and the other one made: %+v", now)
	}
	remove(s.world, other)
	s.says("Stalled", "False", "", "")
	if b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a"); b.Labels[fleet.LabelRepoName] != "repo" {
		s.t.Error("want the name taken when it is free")
	}
}

// A Secret that has the name of a Bundle's values and is not Fleet's is never
// touched: not when there are values, and not when there are none any more.
func secretTaken(s *fixture) {
	mine := create(s.world, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "repo-a", Labels: map[string]string{fleet.LabelManaged: "true"}},
		StringData: map[string]string{"mine": "canary"},
	})
	s.git.Commit("first", map[string]string{
		"a/fleet.yaml": "helm: {values: {x: 1}}\n", "a/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n", "b/fleet.yaml": "namespace: b\n", "b/cm.yaml": manifest("two"),
	})
	s.follow(nil)
	s.says("Stalled", "True", "Conflict", `repo-a: secret "repo-a" exists and is not Fleet's; the bundle's values cannot be kept`)
	s.until("the other bundle is there", func() bool { return s.bundles()["repo-b"] != "" })
	if s.bundles()["repo-a"] != "" {
		s.t.Error("a Bundle without its values may not be written")
	}
	s.read(s.git.Commit("second", map[string]string{"a/fleet.yaml": "namespace: a\n"}))
	s.says("Stalled", "False", "", "")
	s.until("it is there without values", func() bool { return s.bundles()["repo-a"] != "" })
	remove(s.world, s.repo)
	s.engine("repo-a")
	s.engine("repo-b")
	s.until("the GitRepo is gone", func() bool {
		_, there := get[*fleet.GitRepo](s.world, s.ns, "repo")
		return !there
	})
	now, _ := get[*corev1.Secret](s.world, s.ns, "repo-a")
	if now == nil || now.ResourceVersion != mine.ResourceVersion || now.UID != mine.UID {
		s.t.Errorf("want it untouched, got %+v", now)
	}
}

// The brake holds back what is new; what was held back comes when it is off.
func brake(s *fixture) {
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one")})
	s.read2(first)
	m := create(s.world, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapBrake},
		Data:       map[string]string{"suspended": "true", "reason": "incident 4711", "by": "ana"},
	})
	s.until("the worker knows of it", func() bool { // what is asked for before is done
		s.force()
		c := condition.Find(s.status().Conditions, fleet.ConditionReconciling)
		return c != nil && c.Message == "suspended by ana: incident 4711"
	})
	before := s.bundles()
	second := s.git.Commit("second", map[string]string{"a/cm.yaml": manifest("two")})
	s.until("the commit is seen", func() bool { return s.status().PollingCommit == second })
	s.says("Reconciling", "True", "Suspended", "suspended by ana: incident 4711")
	if st := s.status(); st.Commit != first || st.PollingCommit != second {
		s.t.Errorf("want the commit seen and not read: %+v", st)
	}
	if diff := cmp.Diff(before, s.bundles()); diff != "" {
		s.t.Error(diff)
	}
	remove(s.world, m)
	s.read(second)
	s.says("Reconciling", "False", "", "")
}

// A Policy that the GitRepo violates stops everything new, and says so.
func restriction(s *fixture) {
	policy := create(s.world, &fleet.Policy{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: "p"}, RequireServiceAccount: true})
	s.follow(nil) // there is nothing in the repository before the worker knows of the Policy
	s.says("Accepted", "False", "PolicyViolation", "serviceAccount is required by Policy but is not set")
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one")})
	s.force()
	if len(s.bundles()) != 0 {
		s.t.Error("nothing may be deployed")
	}
	remove(s.world, policy)
	s.read(first)
	s.says("Accepted", "True", "", "")
}

// A deleted GitRepo takes its Bundles along, and goes after them.
func deletion(s *fixture) {
	s.read2(s.git.Commit("first", map[string]string{"a/fleet.yaml": "namespace: a\n", "a/cm.yaml": manifest("one"), "b/fleet.yaml": "namespace: b\n", "b/cm.yaml": manifest("two")}))
	b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-b")
	remove(s.world, b)
	s.engine("repo-b")
	s.until("a Bundle that a user removed comes back", func() bool {
		again, ok := get[*fleet.Bundle](s.world, s.ns, "repo-b")
		return ok && again.UID != b.UID
	})
	remove(s.world, s.repo)
	s.engine("repo-a")
	if _, there := get[*fleet.GitRepo](s.world, s.ns, "repo"); !there {
		s.t.Error("the GitRepo waits for its last Bundle")
	}
	s.engine("repo-b")
	s.until("the GitRepo is gone", func() bool {
		_, there := get[*fleet.GitRepo](s.world, s.ns, "repo")
		return !there
	})
}

// A worker that is restarted writes nothing if nothing is new, and finds what
// it missed.
func restart(s *fixture) {
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one")})
	s.read2(first)
	s.halt()
	halted := time.Now()
	s.start()
	polls := len(s.server.Requests())
	s.until("the repository is asked again", func() bool { return len(s.server.Requests()) > polls+2 })
	if list := s.writesSince(halted); len(list) > 0 {
		s.t.Errorf("a start wrote %v", list)
	}
	s.halt()
	second := s.git.Commit("second", map[string]string{"a/cm.yaml": manifest("two")})
	s.start()
	s.read(second)
}

// At rest nothing is written, however often the repository is asked, and with a
// bundle that is broken for ever.
func rest(s *fixture) {
	first := s.git.Commit("first", map[string]string{"a/fleet.yaml": "namespace: a\n", "a/cm.yaml": manifest("one"), "b/fleet.yaml": "x: [", "b/cm.yaml": manifest("two")})
	s.read2(first)
	since := time.Now()
	polls := len(s.server.Requests())
	s.until("it was asked three times more", func() bool { return len(s.server.Requests()) >= polls+3 })
	if list := s.writesSince(since); len(list) > 0 {
		s.t.Errorf("at rest it wrote %v", list)
	}
	if n := len(s.writes()); n > 6 {
		s.t.Errorf("want a finalizer, a Bundle, and two or three patches of the status, got %v", s.writes())
	}
}

// forceSyncGeneration asks at once, and deploys again what is unchanged.
func forced(s *fixture) {
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one")})
	s.follow(func(spec *fleet.GitRepoSpec) { spec.PollingInterval = &metav1.Duration{Duration: time.Hour} })
	s.read(first)
	second := s.git.Commit("second", map[string]string{"a/cm.yaml": manifest("two")})
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.ForceSyncGeneration = 1 })
	s.read(second)
	b, _ := get[*fleet.Bundle](s.world, s.ns, "repo")
	if b.Spec.ForceSyncGeneration != 1 || s.status().UpdateGeneration != 1 {
		s.t.Errorf("want the number passed on: %+v", b.Spec)
	}
}

// A GitRepo that is suspended, resumed or otherwise changed writes its Bundles and
// keeps their labels: no commit has changed them. That holds for a commit that comes
// at the same time, and after a restart. The status says which Bundles belong to it.
func suspended(s *fixture) {
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one"), "b/cm.yaml": manifest("two")})
	s.follow(func(spec *fleet.GitRepoSpec) { spec.Paths = []string{"*"} })
	s.read(first)
	second := s.git.Commit("second", map[string]string{"b/cm.yaml": manifest("new")})
	s.read(second)
	paused := func(on bool) {
		s.t.Helper()
		change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.Paused = on })
		s.until(fmt.Sprintf("paused is %t", on), func() bool {
			r, _ := get[*fleet.GitRepo](s.world, s.ns, s.repo.Name)
			b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-b")
			return r.Status.ObservedGeneration == r.Generation && b.Spec.Paused == on
		})
	}
	labels := func(when string, complete bool, want map[string]string) {
		s.t.Helper()
		list, err := kube.StoreOf[*fleet.Bundle](s.admin).List(context.Background(), s.ns, "")
		if err != nil {
			s.t.Fatal(err)
		}
		r, _ := get[*fleet.GitRepo](s.world, s.ns, s.repo.Name)
		if diff := cmp.Diff(want, reading.Commits(r, list)); diff != "" {
			s.t.Errorf("%s: -want +got\n%s", when, diff)
		}
		if shows, known := reading.Shows(r, list); !shows || !known || r.Status.Reading.Complete != complete {
			s.t.Errorf("%s: the status does not speak of these bundles: %+v", when, r.Status.Reading)
		}
	}
	paused(true)
	labels("suspended", true, map[string]string{"repo-a": first, "repo-b": second})
	s.halt()
	s.start()
	paused(false)
	labels("resumed after a restart", true, map[string]string{"repo-a": first, "repo-b": second})
	third := s.git.Commit("third", map[string]string{"a/cm.yaml": manifest("three")})
	paused(true)
	s.read(third)
	labels("suspended while a commit comes", true, map[string]string{"repo-a": third, "repo-b": second})
	fourth := s.git.Commit("fourth", map[string]string{"b/cm.yaml": manifest("four"), "c/cm.yaml": "a:\n\tb\n"})
	s.read(fourth)
	paused(false)
	labels("resumed beside a broken bundle", false, map[string]string{"repo-a": third, "repo-b": fourth})
}
