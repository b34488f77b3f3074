package summary

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

var now = time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)

func cond(kind string, status corev1.ConditionStatus, reason, message string) fleet.Condition {
	return fleet.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func TestState(t *testing.T) {
	failed := cond(fleet.ConditionDeployed, "False", "Error", "no")
	cases := map[string]struct {
		why    string
		spec   fleet.BundleDeploymentSpec
		status fleet.BundleDeploymentStatus
		wanted string
		want   fleet.BundleState
	}{
		"WaitApplied": {why: "the agent has an older version",
			spec: fleet.BundleDeploymentSpec{DeploymentID: "2"}, status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "1", Ready: true},
			want: fleet.WaitApplied},
		"ErrApplied": {why: "it tried and failed",
			spec: fleet.BundleDeploymentSpec{DeploymentID: "2"}, status: fleet.BundleDeploymentStatus{Conditions: []fleet.Condition{failed}},
			want: fleet.ErrApplied},
		"OldFailureOfAppliedVersion": {why: "a failure counts only while the wanted version is not applied",
			spec:   fleet.BundleDeploymentSpec{DeploymentID: "2", StagedDeploymentID: "2"},
			status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "2", Ready: true, NonModified: true, Conditions: []fleet.Condition{failed}},
			want:   fleet.Ready},
		"FailedBefore": {why: "a failure that counts as applied is about the version before, and the agent has not tried the new one",
			spec: fleet.BundleDeploymentSpec{DeploymentID: "2"}, status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "1", Conditions: []fleet.Condition{
				cond(fleet.ConditionDeployed, "False", "NotOwned", "not installed: x"), cond(fleet.ConditionInstalled, "False", "NotOwned", "not installed: x")}},
			want: fleet.WaitApplied},
		"NotReady": {why: "unready beats held back: it is the more urgent news",
			spec: fleet.BundleDeploymentSpec{DeploymentID: "1", StagedDeploymentID: "2"}, status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "1"},
			want: fleet.NotReady},
		"OutOfSyncStaged": {why: "the new version is staged and held back",
			spec:   fleet.BundleDeploymentSpec{DeploymentID: "1", StagedDeploymentID: "2"},
			status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "1", Ready: true, NonModified: true}, want: fleet.OutOfSync},
		"OutOfSyncNotEvenStaged": {why: "in a later partition the object does not know the new version yet",
			spec:   fleet.BundleDeploymentSpec{DeploymentID: "1", StagedDeploymentID: "1"},
			status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "1", Ready: true, NonModified: true}, wanted: "2", want: fleet.OutOfSync},
		"Modified": {why: "another client changed objects",
			spec:   fleet.BundleDeploymentSpec{DeploymentID: "1", StagedDeploymentID: "1"},
			status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "1", Ready: true}, want: fleet.Modified},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			bd := &fleet.BundleDeployment{Spec: c.spec, Status: c.status}
			if got := State(bd, c.wanted); got != c.want {
				t.Errorf("%s: got %s, want %s", c.why, got, c.want)
			}
			if got := Message(bd); c.want == fleet.WaitApplied && got != "" {
				t.Errorf("%s: message %q", c.why, got)
			}
		})
	}
}

func TestMessageAndDisplay(t *testing.T) {
	bd := &fleet.BundleDeployment{
		Spec: fleet.BundleDeploymentSpec{DeploymentID: "2"},
		Status: fleet.BundleDeploymentStatus{Conditions: []fleet.Condition{
			cond(fleet.ConditionInstalled, "False", "Error", "not installed: x"),
			cond(fleet.ConditionMonitored, "False", "Error", "cannot look"),
		}},
	}
	if got := Message(bd); got != "cannot look" {
		t.Errorf("Installed speaks of another version, so Monitored counts; got %q", got)
	}
	bd.Status.AppliedDeploymentID = "2"
	if got := Message(bd); got != "not installed: x" {
		t.Errorf("got %q", got)
	}
	want := fleet.BundleDeploymentDisplay{Monitored: "Error: cannot look", State: "NotReady"}
	if diff := cmp.Diff(want, Display(bd)); diff != "" {
		t.Error(diff)
	}
}

// Agents of rancher/fleet give every fault the reason Error, those of this project a word
// for the cause. The display has the message for both.
func TestDisplayOfFault(t *testing.T) {
	cases := map[string]struct {
		why       string
		condition fleet.Condition
		want      string
	}{
		"Reference": {"its only reason", cond(fleet.ConditionDeployed, "False", fleet.ReasonError, "no"), "Error: no"},
		"Cause":     {"a word for the cause is a fault, too", cond(fleet.ConditionDeployed, "False", "NotOwned", "no"), "Error: no"},
		"Waits":     {"what is waited for is none", cond(fleet.ConditionDeployed, "Unknown", "DependenciesNotReady", "depends on x"), "Unknown"},
		"NoMessage": {"nothing is said", cond(fleet.ConditionDeployed, "False", "", ""), "False"},
		"Deployed":  {"all is well", cond(fleet.ConditionDeployed, "True", "", ""), "True"},
	}
	for name, c := range cases {
		bd := &fleet.BundleDeployment{Status: fleet.BundleDeploymentStatus{Conditions: []fleet.Condition{c.condition}}}
		if got := Display(bd).Deployed; got != c.want {
			t.Errorf("%s: %s: got %q, want %q", name, c.why, got, c.want)
		}
	}
}

// d makes deployments: "cluster State message".
func d(lines ...string) []*Deployment {
	var out []*Deployment
	for i, l := range lines {
		f := strings.SplitN(l, " ", 3)
		x := &Deployment{Bundle: "app", Cluster: "ns/" + f[0], State: fleet.BundleState(f[1]), Repo: "ns/repo",
			UID: types.UID(fmt.Sprintf("%02d", i))}
		if len(f) == 3 {
			x.Message = f[2]
		}
		out = append(out, x)
	}
	return out
}

// People read both brackets of an error, wherever the object stands in a text.
func TestReadable(t *testing.T) {
	cases := map[string]struct{ why, in, want string }{
		"Object":  {"an object alone", "job.batch web/a error] failed", "job.batch web/a [error] failed"},
		"Global":  {"one without a namespace", "node.v1 n1 error]", "node.v1 n1 [error]"},
		"Several": {"each of several", "NotReady(1) [Cluster ns/c1]; job.batch web/a error] x; pod.v1 web/b error] y", "NotReady(1) [Cluster ns/c1]; job.batch web/a [error] x; pod.v1 web/b [error] y"},
		"Whole":   {"what has both stays", "job.batch web/a [error] failed", "job.batch web/a [error] failed"},
		"Both":    {"so does what is on its way, too", "job.batch web/a [progressing,error] failed", "job.batch web/a [progressing,error] failed"},
		"Other":   {"and what is no object", "helm: [a fatal error] in b", "helm: [a fatal error] in b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Readable(c.in); got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
	}
}

func TestReadyMessage(t *testing.T) {
	detailed := d("c1 NotReady", "c2 Modified", "c3 Ready")
	detailed[0].NonReady = []fleet.NonReadyStatus{
		{Kind: "Deployment", APIVersion: "apps/v1", Namespace: "web", Name: "web",
			Summary: fleet.Summary{State: "in-progress", Transitioning: true, Message: []string{"0 of 1", "waits"}}},
		{Kind: "Service", APIVersion: "v1", Namespace: "web", Name: "web", Summary: fleet.Summary{State: "x", Error: true}},
	}
	detailed[1].Modified = []fleet.ModifiedStatus{
		{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: "a", Create: true},
		{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: "b", Create: true, Exist: true},
		{Kind: "ClusterRole", APIVersion: "rbac.authorization.k8s.io/v1", Name: "c", Delete: true},
		{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: "d", Patch: `{"data":{}}`},
		{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: "e", Patch: "the fifth is left out"},
	}
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("c%02d NotReady", i))
	}
	many = append(many, "z ErrApplied broken")
	cases := map[string]struct {
		why  string
		list []*Deployment
		want string
	}{
		"AllReady": {why: "nothing to say", list: d("c1 Ready"), want: ""},
		"One": {why: "the reference's shape", list: d("c1 Ready", "c3 ErrApplied Service web/web exists"),
			want: "ErrApplied(1) [Cluster ns/c3: Service web/web exists]"},
		"FirstOfEachStateSorted": {why: "one entry per state, sorted as text",
			list: d("c1 WaitApplied", "c2 WaitApplied later", "c3 ErrApplied bad"),
			want: "ErrApplied(1) [Cluster ns/c3: bad]; WaitApplied(2) [Cluster ns/c1]"},
		"Details": {why: "up to four changed and four unready objects, sorted with the rest", list: detailed,
			want: "Modified(1) [Cluster ns/c2]; NotReady(1) [Cluster ns/c1]; clusterrole.rbac.authorization.k8s.io c extra; " +
				`configmap.v1 web/a missing; configmap.v1 web/b is not owned by us; configmap.v1 web/d modified {"data":{}}; ` +
				"deployment.apps web/web [progressing] 0 of 1, waits; service.v1 web/web error]"},
		"RareStateAmongMany": {why: "a state must not fall out of a list of ten", list: d(many...),
			want: "ErrApplied(1) [Cluster ns/z: broken]; NotReady(12) [Cluster ns/c00]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := Count(ByCluster, c.list)
			if diff := cmp.Diff(c.want, ReadyMessage(ByCluster, &s)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if len(s.NonReadyResources) > fleet.StatusListLimit {
				t.Errorf("%d listed", len(s.NonReadyResources))
			}
		})
	}
	s := fleet.BundleSummary{NotReady: 3, DesiredReady: 3}
	if got := ReadyMessage(ByCluster, &s); got != "NotReady(3)" {
		t.Errorf("a state without a listed deployment still counts, got %q", got)
	}
}

func repo(mutate func(*fleet.GitRepo)) *fleet.GitRepo {
	r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "examples", Namespace: "ns", Generation: 2}}
	r.Status.ObservedGeneration, r.Status.Commit, r.Status.GitJobStatus = 2, "3f9c2e1", "Current"
	if mutate != nil {
		mutate(r)
	}
	return r
}

// TestUnreadable: kubectl shows the message of condition Ready, Rancher the display
// fields. Both say why a repository cannot be read, whatever it has deployed before.
func TestUnreadable(t *testing.T) {
	cases := map[string]fleet.Condition{
		`branch "mian" does not exist; the default branch is "main"`: cond(fleet.ConditionGitPolling, "False", "BranchNotFound", ""),
		"git.example refuses the credentials":                        cond(fleet.ConditionGitPolling, "False", "AuthenticationRefused", ""),
		"lookup git.exmaple: no such host":                           cond(fleet.ConditionGitPolling, "False", "Unreachable", ""),
		"Secret shops/git is missing":                                cond(fleet.ConditionAccepted, "False", "InvalidCredentials", ""),
		"web/fleet.yaml:12: unknown field":                           cond(fleet.ConditionStalled, "True", "InvalidFleetYAML", ""),
		"registry.example answers 503":                               cond(fleet.ConditionReconciling, "True", "Chart", ""),
	}
	for message, c := range cases {
		c.Message = message
		for _, commit := range []string{"", "3f9c2e1"} {
			unread := repo(func(r *fleet.GitRepo) {
				r.Status.Commit, r.Status.GitJobStatus, r.Status.Conditions = commit, "InProgress", []fleet.Condition{c}
			})
			st := GitRepoStatus(unread, Sources{Deployments: d("c1 NotReady no pods")}, now)
			ready := condition.Find(st.Conditions, fleet.ConditionReady)
			if ready.Status != "False" || ready.Message != message {
				t.Errorf("Ready is %s %q, want False %q", ready.Status, ready.Message, message)
			}
			if want := (fleet.StatusDisplay{ReadyBundleDeployments: "0/1", State: fleet.GitUpdating, Message: message, Error: true}); st.Display != want {
				t.Errorf("display is %+v, want %+v", st.Display, want)
			}
		}
	}
}

// TestDisplayWithoutError: Rancher shows display.error as a failure. Pods that start and a
// repository that is about to be read are none, as in Rancher Fleet v0.16.
func TestDisplayWithoutError(t *testing.T) {
	one := []RepoBundle{{Name: "app", UID: "1", Targets: 1}}
	cases := map[string]struct {
		repo    *fleet.GitRepo
		sources Sources
		want    fleet.StatusDisplay
	}{
		"NotReady": {repo(nil), Sources{Bundles: one, Deployments: d("c1 Ready", "c2 NotReady")},
			fleet.StatusDisplay{ReadyBundleDeployments: "1/2", State: "NotReady"}},
		"NotRead": {repo(func(r *fleet.GitRepo) { r.Status.Commit, r.Status.GitJobStatus = "", "" }), Sources{},
			fleet.StatusDisplay{ReadyBundleDeployments: "0/0", State: fleet.GitUpdating}},
		"NoBundles": {repo(nil), Sources{}, fleet.StatusDisplay{ReadyBundleDeployments: "0/0"}},
	}
	for name, c := range cases {
		if diff := cmp.Diff(c.want, GitRepoStatus(c.repo, c.sources, now).Display); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestGitRepoReady checks that a repository that is missing, unread or that
// targets no cluster is never Ready, whatever runs.
func TestGitRepoReady(t *testing.T) {
	set := func(c fleet.Condition) func(*fleet.GitRepo) {
		return func(r *fleet.GitRepo) { r.Status.Conditions = condition.Set(nil, c, now) }
	}
	one := []RepoBundle{{Name: "app", UID: "1", Targets: 1}}
	none := RepoBundle{Name: "gpu", UID: "0", Problem: &Problem{fleet.ReasonNoTargets, "targets no cluster: x"}}
	cases := map[string]struct {
		why     string
		repo    *fleet.GitRepo
		bundles []RepoBundle
		list    []*Deployment
		want    string
	}{
		"Ready":       {"read, and everything Ready", repo(nil), one, d("c1 Ready"), "True  "},
		"Waiting":     {"a part of the commit waits for a source that is away", repo(set(cond(fleet.ConditionReconciling, "True", "Chart", "registry x answers 503"))), one, d("c1 Ready"), "False Chart registry x answers 503"},
		"BeingRead":   {"the next commit is being read", repo(set(cond(fleet.ConditionReconciling, "True", fleet.ReasonProgressing, "commit 1234567 is being read"))), one, d("c1 Ready"), "True  "},
		"Stalled":     {"a missing branch or path", repo(set(cond(fleet.ConditionStalled, "True", "NoSuchBranch", "branch x does not exist"))), one, d("c1 Ready"), "False NoSuchBranch branch x does not exist"},
		"Unreachable": {"what is deployed stays, but Ready would be a lie", repo(set(cond(fleet.ConditionGitPolling, "False", "Unreachable", "no route"))), one, d("c1 Ready"), "False Unreachable no route"},
		"Uncommitted": {"a new image was found and is not committed", repo(set(cond(fleet.ConditionImageSynced, "False", "PushRefused", "no rights"))), one, d("c1 Ready"), "False PushRefused images are not committed: no rights"},
		"BothFail":    {"what is deployed goes first", repo(set(cond(fleet.ConditionImageSynced, "False", "PushRefused", "no rights"))), one, d("c1 Ready", "c2 NotReady"), "False NotReady NotReady(1) [Cluster ns/c2]"},
		"Refused":     {"not accepted", repo(set(cond(fleet.ConditionAccepted, "False", "Restricted", "Policy p"))), one, nil, "False Restricted Policy p"},
		"NotRead":     {"new", repo(func(r *fleet.GitRepo) { r.Status.Commit = "" }), nil, nil, "False NotRead the repository was not read yet"},
		"SpecChanged": {"the old answer is no answer to the new question", repo(func(r *fleet.GitRepo) { r.Generation = 3 }), one, d("c1 Ready"), "False NotRead the repository was not read yet as the changed spec asks"},
		"NoBundles":   {"read, but the Bundles are not seen yet", repo(nil), nil, nil, "False NoBundles no bundle was made from the repository yet"},
		"NoCluster":   {"no Bundle gets anywhere", repo(nil), []RepoBundle{none}, nil, "False NoTargets bundle gpu: targets no cluster: x"},
		"OneOfTwoNoCluster": {"a Bundle for clusters that are yet to come does not hold back the rest",
			repo(nil), []RepoBundle{one[0], none}, d("c1 Ready"), "True  "},
		"BundleProblem": {"a fault of a Bundle shows on its repository", repo(nil),
			[]RepoBundle{{Name: "app", UID: "2", Targets: 1, Problem: &Problem{"InvalidSelector", "bad"}}}, d("c1 Ready"),
			"False InvalidSelector bundle app: bad"},
		"Deployments": {"the condition of the Bundle, as in Rancher Fleet v0.16", repo(nil), one, d("c1 Ready", "c2 NotReady"), "False NotReady NotReady(1) [Cluster ns/c2]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			st := GitRepoStatus(c.repo, Sources{Deployments: c.list, Bundles: c.bundles}, now)
			r := condition.Find(st.Conditions, fleet.ConditionReady)
			if got := fmt.Sprintf("%s %s %s", r.Status, r.Reason, r.Message); got != c.want {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
			again := c.repo.DeepCopy()
			again.Status = st
			if diff := cmp.Diff(st, GitRepoStatus(again, Sources{Deployments: c.list, Bundles: c.bundles}, now.Add(time.Hour))); diff != "" {
				t.Errorf("the same facts an hour later make another status:\n%s", diff)
			}
		})
	}
}

// TestGitRepoReadyMessage: Rancher Fleet v0.16 copies the condition of the first Bundle, by
// UID, that is not Ready. What the other Bundles have stands behind it.
func TestGitRepoReadyMessage(t *testing.T) {
	of := func(bundle string, list []*Deployment) []*Deployment {
		for _, x := range list {
			x.Bundle = bundle
		}
		return list
	}
	bundles := []RepoBundle{{Name: "a", UID: "3", Targets: 2}, {Name: "b", UID: "1", Targets: 2}, {Name: "c", UID: "2", Targets: 2}}
	apart := of("c", d("x NotReady", "y NotReady"))
	apart[0].Cluster, apart[1].Cluster = "a/c9", "a-b/c1"
	cases := map[string]struct {
		why  string
		list [][]*Deployment
		want string
	}{
		"One":     {"the message of the Bundle", [][]*Deployment{of("a", d("c1 Ready", "c2 NotReady"))}, "NotReady(1) [Cluster ns/c2]"},
		"FirstBy": {"the first cluster by name, whatever the order", [][]*Deployment{of("a", d("c3 NotReady", "c2 NotReady"))}, "NotReady(2) [Cluster ns/c2]"},
		"Ready":   {"a Bundle that is Ready is not the first", [][]*Deployment{of("b", d("c1 Ready")), of("a", d("c1 Modified"))}, "Modified(1) [Cluster ns/c1]"},
		"Several": {"the first by UID, then the others by Bundle", [][]*Deployment{of("a", d("c1 ErrApplied bad")), of("c", d("c1 NotReady", "c2 NotReady"))},
			"NotReady(2) [Cluster ns/c1]; ErrApplied(1) [Bundle a: bad]"},
		"Mapped":  {"clusters of several namespaces, as in the Bundle", [][]*Deployment{apart}, "NotReady(2) [Cluster a/c9]"},
		"Unknown": {"a Bundle that is not known any more", [][]*Deployment{of("gone", d("c1 NotReady"))}, "NotReady(1) [Bundle gone]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			st := GitRepoStatus(repo(nil), Sources{Bundles: slices.Clone(bundles), Deployments: slices.Concat(c.list...)}, now)
			if r := condition.Find(st.Conditions, fleet.ConditionReady); r.Message != c.want {
				t.Errorf("%s: got %q, want %q", c.why, r.Message, c.want)
			}
		})
	}
}

func TestGitRepoStatus(t *testing.T) {
	list := d("c2 NotReady no pods", "c1 Ready", "c1 Ready")
	list[2].Bundle = "other"
	for i, x := range list {
		x.Resources = []fleet.BundleDeploymentResource{{Kind: "ConfigMap", APIVersion: "v1", Namespace: "web", Name: fmt.Sprint("cm-", x.Bundle)}}
		x.Counts = fleet.ResourceCounts{Ready: i, DesiredReady: 1}
	}
	list[0].NonReady = []fleet.NonReadyStatus{{Kind: "Deployment", APIVersion: "apps/v1", Namespace: "web", Name: "web",
		Summary: fleet.Summary{State: "updating", Transitioning: true, Message: []string{"no pods"}}}}
	st := GitRepoStatus(repo(nil), Sources{Deployments: list, Bundles: []RepoBundle{{Name: "app", Targets: 2}}}, now)
	want := fleet.StatusBase{
		ReadyClusters: 1, DesiredReadyClusters: 2,
		Display:        fleet.StatusDisplay{ReadyBundleDeployments: "2/3", State: "NotReady", Message: "no pods", Error: true},
		ResourceCounts: fleet.ResourceCounts{Ready: 3, DesiredReady: 3},
		PerClusterResourceCounts: map[string]*fleet.ResourceCounts{
			"ns/c1": {Ready: 3, DesiredReady: 2}, "ns/c2": {DesiredReady: 1}},
		Summary: st.Summary, Conditions: st.Conditions,
		Resources: []fleet.DeployedResource{
			{APIVersion: "apps/v1", Kind: "Deployment", Type: "apps.deployment", ID: "web/web", Namespace: "web", Name: "web",
				State: "updating", PerClusterState: fleet.PerClusterState{NotReady: []string{"ns/c2"}}},
			{APIVersion: "v1", Kind: "ConfigMap", Type: "configmap", ID: "web/cm-app", Namespace: "web", Name: "cm-app",
				State: "Ready", PerClusterState: fleet.PerClusterState{Ready: []string{"ns/c1", "ns/c2"}}},
			{APIVersion: "v1", Kind: "ConfigMap", Type: "configmap", ID: "web/cm-other", Namespace: "web", Name: "cm-other",
				State: "Ready", PerClusterState: fleet.PerClusterState{Ready: []string{"ns/c1"}}},
		},
	}
	if diff := cmp.Diff(want, st.StatusBase); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestClusterStatus(t *testing.T) {
	list := d("c1 Ready", "c1 Ready", "c1 NotReady")
	list[0].Bundle, list[1].Bundle, list[2].Bundle = "a", "b", "c"
	list[2].Repo = "ns/second"
	cases := map[string]struct {
		why   string
		life  AgentLiveness
		list  []*Deployment
		state string
		ready string
	}{
		"NeverSeen":       {"no agent yet", NeverSeen, nil, "WaitCheckIn", "True  "},
		"Offline":         {"the last report stays", Offline, list[:2], "Offline", "True  "},
		"OfflineNotReady": {"whatever it says", Offline, list, "Offline", "False NotReady NotReady(1) [Bundle c]"},
		"Ready":           {"display is empty where all is Ready", Online, list[:2], "", "True  "},
		"NotReady":        {"the worst state", Online, list, "NotReady", "False NotReady NotReady(1) [Bundle c]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			st := ClusterStatus(&fleet.Cluster{}, ClusterView{Deployments: c.list, Life: c.life}, now)
			r := condition.Find(st.Conditions, fleet.ConditionReady)
			got := fmt.Sprintf("%s %s %s", r.Status, r.Reason, r.Message)
			if got != c.ready || st.Display.State != c.state {
				t.Errorf("%s: got %q, %q", c.why, st.Display.State, got)
			}
			if connected := condition.IsTrue(st.Conditions, fleet.ConditionConnected); connected != (c.life == Online) {
				t.Errorf("connected: %t", connected)
			}
		})
	}
	st := ClusterStatus(&fleet.Cluster{}, ClusterView{Deployments: list, Life: Online, Withdrawing: 2}, now)
	if st.ReadyGitRepos != 1 || st.DesiredReadyGitRepos != 2 {
		t.Errorf("a repository none of whose deployments is Ready is not: got %d of %d", st.ReadyGitRepos, st.DesiredReadyGitRepos)
	}
	list[0].Repo = "ns/second"
	if st := ClusterStatus(&fleet.Cluster{}, ClusterView{Deployments: list, Life: Online}, now); st.ReadyGitRepos != 2 {
		t.Errorf("a repository one of whose deployments is Ready counts as ready: got %d", st.ReadyGitRepos)
	}
	if w := condition.Find(st.Conditions, fleet.ConditionWithdrawing); w == nil || w.Message != "2 to uninstall" {
		t.Errorf("pending withdrawals are counted: %+v", w)
	}
}

func TestGroupStatus(t *testing.T) {
	ready := fleet.BundleSummary{Ready: 2, DesiredReady: 2}
	bad := fleet.BundleSummary{Ready: 1, NotReady: 1, DesiredReady: 2,
		NonReadyResources: []fleet.NonReadyResource{{Name: "web", State: fleet.NotReady}}}
	st := GroupStatus(&fleet.ClusterGroup{}, []Member{{Name: "z", Summary: bad}, {Name: "a", Summary: ready}, {Name: "b", Summary: ready, Offline: true}}, now)
	want := fleet.ClusterGroupDisplay{ReadyClusters: "1/3 (b,z)", ReadyBundles: "5/6", State: "NotReady"}
	if diff := cmp.Diff(want, st.Display); diff != "" {
		t.Error(diff)
	}
	st = GroupStatus(&fleet.ClusterGroup{}, []Member{{Name: "b", Summary: ready, Offline: true}}, now)
	if r := condition.Find(st.Conditions, fleet.ConditionReady); r.Message != "1 of 1 clusters do not report: b" {
		t.Errorf("a group that is cut off is not Ready: %+v", r)
	}
	if p := condition.Find(st.Conditions, fleet.ConditionProcessed); p == nil || p.Status != "True" || p.Reason != "" || p.Message != "" {
		t.Errorf("as in Rancher Fleet v0.16, the status of a group says that it is up to date: %+v", p)
	}
}

// TestGroupStatusOfFaultySelector: a group whose selector cannot be used is not Ready, and
// says why; it is Ready again once the selector is corrected.
func TestGroupStatusOfFaultySelector(t *testing.T) {
	g := &fleet.ClusterGroup{Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Inn", Values: []string{"prod"}}},
	}}}
	g.Name = "prod"
	st := GroupStatus(g, nil, now)
	if st.Display.State != "NotReady" {
		t.Errorf("want state NotReady, got %q", st.Display.State)
	}
	for _, kind := range []string{fleet.ConditionReady, fleet.ConditionProcessed} {
		c := condition.Find(st.Conditions, kind)
		want := `selector of cluster group "prod": "Inn" is not a valid label selector operator`
		if c == nil || c.Status != "False" || c.Reason != "InvalidSelector" || c.Message != want {
			t.Errorf("%s: want False, InvalidSelector and %q, got %+v", kind, want, c)
		}
	}
	g.Status, g.Spec.Selector.MatchExpressions[0].Operator = st, metav1.LabelSelectorOpIn
	st = GroupStatus(g, nil, now)
	for _, kind := range []string{fleet.ConditionReady, fleet.ConditionProcessed} {
		if c := condition.Find(st.Conditions, kind); c == nil || c.Status != "True" || c.Reason != "" || c.Message != "" {
			t.Errorf("%s: want True after the correction, got %+v", kind, c)
		}
	}
}

// TestManagerDisplay: the manager writes the display for agents of rancher/fleet, and only
// if it says something new.
func TestManagerDisplay(t *testing.T) {
	bd := &fleet.BundleDeployment{
		Spec: fleet.BundleDeploymentSpec{DeploymentID: "s-1:x", StagedDeploymentID: "s-1:x"},
		Status: fleet.BundleDeploymentStatus{AppliedDeploymentID: "s-1:x", Ready: true, NonModified: true, Conditions: []fleet.Condition{
			{Type: fleet.ConditionDeployed, Status: "True"},
			{Type: fleet.ConditionMonitored, Status: "False", Reason: fleet.ReasonError, Message: "no such kind"},
		}},
	}
	said := bd.DeepCopy()
	said.Status.Display = Display(bd)
	deleted := bd.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	want := fleet.BundleDeploymentDisplay{Deployed: "True", Monitored: "Error: no such kind", State: "Ready"}
	cases := map[string]struct {
		bd    *fleet.BundleDeployment
		agent Reporter
		want  bool
	}{
		"Reference":        {bd, Reporter{Protocol: 0, Life: Online}, true},
		"ReferenceOffline": {bd, Reporter{Protocol: 0, Life: Offline}, true},
		"Said":             {said, Reporter{Protocol: 0, Life: Online}, false},
		"Ours":             {bd, Reporter{Protocol: 1, Life: Online}, false},
		"OursOffline":      {bd, Reporter{Protocol: fleet.ProtocolVersion, Life: Offline}, false},
		"NeverSeen":        {bd, Reporter{Life: NeverSeen}, false},
		"Deleted":          {deleted, Reporter{Protocol: 0, Life: Online}, false},
	}
	for name, c := range cases {
		got, writes := ManagerDisplay(c.bd, c.agent)
		if writes != c.want || writes && got != want {
			t.Errorf("%s: got %+v, %v", name, got, writes)
		}
	}
}
