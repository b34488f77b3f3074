package view

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestStates(t *testing.T) {
	ready := []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionTrue, "", "", 0)}
	no := []fleet.Condition{cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonNoTargets, "no cluster matches", 0)}
	cases := map[string]struct {
		why       string
		got, want fleet.BundleState
	}{
		"Displayed":    {"the display field is the API's word", BundleState(bundle("x", on(1, bad("a", fleet.Modified, "")))), fleet.Modified},
		"EmptyIsReady": {"an empty display field is Ready where the condition says so", BundleState(bundle("x", on(1))), fleet.Ready},
		"EmptyIsNot":   {"an empty display field of a bundle for no cluster is not", BundleState(&fleet.Bundle{Status: fleet.BundleStatus{Conditions: no}}), fleet.NotReady},
		"NewBundle":    {"no manager has worked on it", BundleState(&fleet.Bundle{}), fleet.Pending},
		"NewRepo":      {"no manager has worked on it", RepoState(&fleet.GitRepo{}), fleet.GitUpdating},
		"WrongBranch": {"the display field stays GitUpdating, as in the API", RepoState(repo(func(r *fleet.GitRepo) {
			r.Status.Display.State = fleet.GitUpdating
			r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionGitPolling, corev1.ConditionFalse, "BranchNotFound", `branch "mian" does not exist`, 0)}
		})), Unreadable},
		"NeverLetIn": {"what was held back before it was read", RepoState(repo(func(r *fleet.GitRepo) {
			r.Status.Display.State = fleet.GitUpdating
			r.Status.Conditions = []fleet.Condition{cond(fleet.ConditionAccepted, corev1.ConditionFalse, fleet.EventPolicyViolation, "Policy shops/limits", 0)}
		})), Held},
		"UnusedField": {"a field that nothing acts on holds nothing back", RepoState(repo(func(r *fleet.GitRepo) {
			r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionAccepted, corev1.ConditionFalse, fleet.ReasonNotImplemented, "imageScanInterval", 0))
		})), fleet.Ready},
		"ProtectedRepo":              {"its deletion waits for a person, and what it deployed is Ready", RepoState(repo(protectedRepo)), Held},
		"RemovalHeld":                {"a removal waits for a person, and all that is deployed is Ready", RepoState(repo(removalHeld)), Held},
		"RemovalHeldWhileErrApplied": {"fleet status calls it so, whatever is deployed", RepoState(repo(removalHeld, func(r *fleet.GitRepo) { r.Status.Display.State = "ErrApplied" })), Held},
		"RemovalApproved": {"who has approved it waits for nothing", RepoState(repo(removalHeld, func(r *fleet.GitRepo) {
			r.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "remove"}
		})), fleet.Ready},
		"RemovalApprovedWhileNotReady": {"nor does it hold anything back", RepoState(repo(removalHeld, func(r *fleet.GitRepo) {
			r.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "remove"}
			r.Status.Conditions[0].Status = corev1.ConditionFalse
		})), fleet.NotReady},
		"ProtectedRepoApproved": {"its deletion is approved", RepoState(repo(protectedRepo, func(r *fleet.GitRepo) {
			r.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "remove"}
		})), fleet.Ready},
		"ProtectedBundle":         {"its deletion waits for a person", BundleState(bundle("x", on(1), heldBundle)), Held},
		"ProtectedBundleApproved": {"its deletion is approved", BundleState(bundle("x", on(1), heldBundle, approvedBundle)), fleet.Ready},
		"NewCluster":              {"no manager has worked on it", ClusterState(&fleet.Cluster{}), fleet.WaitCheckIn},
		"Group":                   {"groups have states too", GroupState(&fleet.ClusterGroup{Status: fleet.ClusterGroupStatus{Conditions: ready}}), fleet.Ready},
		"OfflineWins":             {"a cluster that is away is that, whatever its bundles were", ClusterState(cluster("a", away(time.Hour))), fleet.Offline},
		"DeploymentIDs":           {"the display field of a cluster that is away is stale; its ids are not", DeploymentState(deployment("x", "a", written)), fleet.WaitApplied},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, c.got)
			}
		})
	}
}

// protectedRepo is a protected GitRepo whose deletion waits for a person.
func protectedRepo(r *fleet.GitRepo) {
	r.DeletionTimestamp = &metav1.Time{Time: now}
	r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionDeletionHeld, corev1.ConditionTrue, fleet.ReasonProtected, "would remove", 0))
}

// removalHeld is a GitRepo of which a removal waits for a person.
func removalHeld(r *fleet.GitRepo) {
	r.Status.Conditions = append(r.Status.Conditions, cond(fleet.ConditionDeletionHeld, corev1.ConditionTrue, "AboveBudget", "would remove", 0))
}

// heldBundle is a Bundle whose deletion waits for a person.
func heldBundle(b *fleet.Bundle) {
	b.DeletionTimestamp = &metav1.Time{Time: now}
	b.Status.Conditions = append(b.Status.Conditions, cond(fleet.ConditionDeletionHeld, corev1.ConditionTrue, fleet.ReasonProtected, "would remove", 0))
}

// approvedBundle is one whose removal a person has approved.
func approvedBundle(b *fleet.Bundle) {
	b.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "remove"}
}

func TestMessages(t *testing.T) {
	changed := fleet.NonReadyResource{Name: "shops/a", State: fleet.Modified, ModifiedStatus: []fleet.ModifiedStatus{{Kind: "ConfigMap", APIVersion: "v1", Namespace: "x", Name: "y", Create: true}}}
	refused := bundle("x", on(1, bad("a", fleet.WaitApplied, "later")), func(b *fleet.Bundle) {
		b.Status.Conditions[0].Reason, b.Status.Conditions[0].Message = fleet.EventPolicyViolation, "Policy shops/limits"
	})
	unready := deployment("x", "a", func(bd *fleet.BundleDeployment) {
		bd.Status.Ready = false
		bd.Status.NonReadyStatus = []fleet.NonReadyStatus{{Kind: "Deployment", APIVersion: "apps/v1", Namespace: "x", Name: "y", Summary: fleet.Summary{Transitioning: true, Message: []string{"0/1"}}}}
	})
	cases := map[string]struct{ why, got, want string }{
		"ReadyBundle": {"what is Ready needs no words", BundleMessage(bundle("x", on(1))), ""},
		"Cluster":     {"the first cluster in the bundle's state is named", BundleMessage(bundle("x", on(3, bad("a", fleet.NotReady, "0/1"), bad("b", fleet.ErrApplied, "immutable")))), "b: immutable"},
		"Object":      {"without a message the first object counts", BundleMessage(bundle("x", on(1, changed))), "a: configmap.v1 x/y missing"},
		"NotApplied":  {"a name alone says nothing", BundleMessage(bundle("x", on(2, bad("a", fleet.WaitApplied, "")))), "a: the agent has not applied it yet"},
		"Problem":     {"what keeps the bundle back comes before what that causes", BundleMessage(refused), "Policy shops/limits"},
		"Deployment":  {"the agent's word", DeploymentMessage(deployment("x", "a", failed("NotOwned", "not ours"))), "not ours"},
		"ReadyDeployment": {"an old message of what is Ready now is not shown", DeploymentMessage(deployment("x", "a", func(bd *fleet.BundleDeployment) {
			bd.Status.Conditions = []fleet.Condition{cond(fleet.ConditionMonitored, corev1.ConditionTrue, "", "old", 0)}
		})), ""},
		"UnreadyObject": {"without a message the first object counts", DeploymentMessage(unready), "deployment.apps x/y [progressing] 0/1"},
		"Repo":          {"what cannot be read comes first", RepoMessage(repo(stalled("Invalid", "a/fleet.yaml:1: no"))), "a/fleet.yaml:1: no"},
		"RepoDisplay": {"then the first deployment", RepoMessage(repo(func(r *fleet.GitRepo) {
			r.Status.Display.State, r.Status.Display.Message = "NotReady", "0/1"
		})), "0/1"},
		"HeldBundle": {"what waits for a person comes first", BundleMessage(bundle("x", on(1), heldBundle)), "would remove"},
		"ApprovedBundle": {"and once it is approved, that", BundleMessage(bundle("x", on(1), heldBundle, approvedBundle, func(b *fleet.Bundle) {
			b.Status.Conditions[0] = cond(fleet.ConditionReady, corev1.ConditionFalse, fleet.ReasonDeletionHeld, "stays until a person decides", 0)
		})), "removal remove is approved and has not begun"},
		"ApprovedRepo": {"the same of a repository", RepoMessage(repo(removalHeld, func(r *fleet.GitRepo) {
			r.Annotations = map[string]string{fleet.AnnotationApproveDeletion: "remove"}
		})), "removal remove is approved and has not begun"},
		"RepoReady": {"nothing to say", RepoMessage(repo()), ""},
		"Offline":   {"what a cluster that is away has reported", ClusterMessage(cluster("a", away(time.Hour))), "last report: 2 of 2 bundles Ready"},
		"NeverSeen": {"an agent that never came", ClusterMessage(cluster("a", func(c *fleet.Cluster) { c.Status.Display.State = fleet.WaitCheckIn })), neverSeen},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, c.got)
			}
		})
	}
}

// The commit that is shown is the one that runs, never one that is wanted.
func TestDeploymentCommit(t *testing.T) {
	for name, c := range map[string]struct {
		bd   *fleet.BundleDeployment
		want string
	}{
		"Runs":     {deployment("x", "a"), oldSHA},
		"Updated":  {deployment("x", "a", applied), newSHA},
		"NotYet":   {deployment("x", "a", written), ""},
		"HeldBack": {deployment("x", "a", func(bd *fleet.BundleDeployment) { bd.Spec.StagedDeploymentID = "s-new:o" }), ""},
		"NotInstalled": {deployment("x", "a", func(bd *fleet.BundleDeployment) {
			bd.Status.Conditions = []fleet.Condition{cond(fleet.ConditionInstalled, corev1.ConditionFalse, "Error", "no", 0)}
		}), ""},
		"Nothing": {&fleet.BundleDeployment{}, ""},
	} {
		if got := DeploymentCommit(c.bd); got != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
}

func TestDeploymentSince(t *testing.T) {
	conditions := func(bd *fleet.BundleDeployment) {
		bd.Status.Conditions = append(bd.Status.Conditions,
			cond(fleet.ConditionReady, corev1.ConditionTrue, "", "", time.Hour), cond(fleet.ConditionDeployed, corev1.ConditionFalse, "", "", time.Minute))
	}
	for want, bd := range map[string]*fleet.BundleDeployment{
		"1h": deployment("x", "a", conditions),
		"1m": deployment("x", "a", written, conditions),
		"":   deployment("x", "a", written),
	} {
		if got := Ago(DeploymentSince(bd), now); got != want {
			t.Errorf("%s: want %q, got %q", DeploymentState(bd), want, got)
		}
	}
}

// States are listed from best to worst.
func TestSorted(t *testing.T) {
	c := Count{Total: 5, States: map[fleet.BundleState]int{fleet.Offline: 1, fleet.ErrApplied: 1, fleet.Ready: 1, fleet.NotReady: 1, fleet.WaitCheckIn: 1}}
	want := []fleet.BundleState{fleet.Ready, fleet.NotReady, fleet.ErrApplied, fleet.WaitCheckIn, fleet.Offline}
	if got := c.Sorted(); !slices.Equal(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
	if c.AllReady() {
		t.Error("one of five is not all")
	}
	for i, s := range []fleet.BundleState{fleet.GitUpdating, Unreadable, Held} {
		if StateRank(s) <= StateRank(fleet.Ready) {
			t.Errorf("%d: %s is worse than Ready", i, s)
		}
	}
}

func TestAnswer(t *testing.T) {
	repo := Goal{Kind: "GitRepo", Key: Key{Namespace: space, Name: "app"}}
	commit, lone := repo, Goal{Kind: "Cluster"}
	commit.Commit = newSHA
	pair := func(cluster string, p Progress) Pair {
		return Pair{Bundle: Key{Name: "web"}, Cluster: Key{Namespace: space, Name: cluster}, Progress: p, State: fleet.WaitApplied, Message: "no"}
	}
	cases := map[string]struct {
		goal Goal
		v    Verdict
		want string
	}{
		"All":     {commit, Verdict{End: Reached, Seen: true, Commit: newSHA, Pairs: []Pair{pair("a", Reached), pair("b", Reached)}}, "2 of 2 clusters are at bbbbbbb"},
		"One":     {repo, Verdict{End: Reached, Seen: true, Pairs: []Pair{pair("a", Reached)}}, "1 of 1 clusters is Ready"},
		"Some":    {commit, Verdict{End: Failed, Seen: true, Commit: newSHA, Pairs: []Pair{pair("a", Reached), pair("b", Failed)}}, "1 of 2 clusters are at bbbbbbb; web on b: no"},
		"Broken":  {commit, Verdict{End: Failed, Seen: true, Commit: newSHA, Pairs: []Pair{pair("a", Waiting)}, Faults: []string{"bundle db: no"}}, "0 of 1 clusters is at bbbbbbb; bundle db: no"},
		"Unknown": {commit, Verdict{End: Waiting, Waits: []string{"repo app is at aaaaaaa"}, Check: "check it"}, "not at bbbbbbb: repo app is at aaaaaaa; check it"},
		"NotSeen": {commit, Verdict{End: Waiting, Waits: []string{"repo app is at aaaaaaa"}}, "not at bbbbbbb: repo app is at aaaaaaa"},
		"Fault":   {repo, Verdict{End: Failed, Faults: []string{"repo app: no"}}, "not Ready: repo app: no"},
		"Nothing": {commit, Verdict{End: Reached, Seen: true, Commit: newSHA, Bundles: 3}, "nothing to wait for: bbbbbbb changed none of 3 bundles"},
		"Empty":   {lone, Verdict{End: Reached, Seen: true}, "nothing to wait for: nothing is deployed there"},
	}
	for name, c := range cases {
		if got := Answer(c.goal, c.v); got != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
	v := Verdict{Faults: []string{"x"}, Trouble: "y", Waits: []string{"z"}, Pairs: []Pair{pair("a", Waiting), pair("b", Reached)}}
	if got, want := v.MissingText(), "y, z, web on a (WaitApplied); x"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if diff := cmp.Diff([]string{"x", "y", "z"}, v.Problems()); diff != "" {
		t.Error(diff)
	}
}

// A commit that a GitRepo has never seen may not be there.
func TestCheckCommit(t *testing.T) {
	goal := Goal{Kind: "GitRepo", Key: Key{Namespace: space, Name: "app"}, Commit: newSHA}
	polled := func(r *fleet.GitRepo) { r.Status.PollingCommit = newSHA }
	pinned := func(r *fleet.GitRepo) { r.Spec.Revision = "v1" }
	const check = "its branch master is not at bbbbbbb: either a newer commit is there, or this one is not pushed to the repository that repo app reads"
	for why, c := range map[string]struct {
		repo *fleet.GitRepo
		want string
	}{
		"never seen":                {repo(), check},
		"seen and not read yet":     {repo(polled), ""},
		"no other revision is read": {repo(pinned), ""},
		"the cause is known":        {repo(saying(fleet.ConditionGitPolling, corev1.ConditionFalse, "Unreachable", "no answer")), ""},
	} {
		if got := Evaluate(goal, Fleet{Repositories: []*fleet.GitRepo{c.repo}}).Check; got != c.want {
			t.Errorf("%s: want %q, got %q", why, c.want, got)
		}
	}
}

// Warnings stand where nothing is wrong: in the condition Stalled that is False, and
// in Accepted for a field that nothing acts on.
func TestRepoWarnings(t *testing.T) {
	says := func(kind string, status corev1.ConditionStatus, reason, message string) func(*fleet.GitRepo) {
		return func(r *fleet.GitRepo) {
			r.Status.Conditions = append(r.Status.Conditions, cond(kind, status, reason, message, 0))
		}
	}
	dropped := says(fleet.ConditionStalled, corev1.ConditionFalse, "UnknownKey", "a/cm.yaml:3: no kind")
	unused := says(fleet.ConditionAccepted, corev1.ConditionFalse, fleet.ReasonNotImplemented, "imageScanCommit is not acted on")
	for name, c := range map[string]struct {
		repo *fleet.GitRepo
		want string
	}{
		"None":    {repo(says(fleet.ConditionStalled, corev1.ConditionFalse, fleet.ReasonSucceeded, "")), ""},
		"One":     {repo(dropped), "1 warning: a/cm.yaml:3: no kind"},
		"Several": {repo(says(fleet.ConditionStalled, corev1.ConditionFalse, "UnknownKey", "a/cm.yaml:3: no kind (and 2 more)")), "3 warnings: a/cm.yaml:3: no kind"},
		"Field":   {repo(unused), "1 warning: imageScanCommit is not acted on"},
		"Both":    {repo(dropped, unused), "2 warnings: a/cm.yaml:3: no kind"},
		"Budget": {
			repo(says(fleet.ConditionDeletionBudget, corev1.ConditionFalse, "InvalidDeletionBudget", "namespace shops: want a share")),
			"1 warning: namespace shops: want a share",
		},
		"Unrendered": {
			repo(says(fleet.ConditionValuesRendered, corev1.ConditionFalse, fleet.ReasonNoLabels, "bundle a: c1 has no labels (and 1 more)")),
			"2 warnings: bundle a: c1 has no labels",
		},
		"Error": {repo(says(fleet.ConditionStalled, corev1.ConditionTrue, "Invalid", "a/fleet.yaml:1: no")), ""},
	} {
		if got := RepoWarnings(c.repo); got != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
}
