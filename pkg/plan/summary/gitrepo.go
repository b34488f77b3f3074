package summary

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
)

// gitJobDone is the word in gitJobStatus for a repository that was read.
const gitJobDone = "Current"

// Reasons for which a GitRepo is not Ready.
const (
	// ReasonNotRead: the repository, as the spec names it, was not read yet.
	ReasonNotRead = "NotRead"
	// ReasonNoBundles: the repository yields no bundle.
	ReasonNoBundles = "NoBundles"
)

// A RepoBundle is what the status of a GitRepo needs of one of its Bundles.
type RepoBundle struct {
	Name    string
	UID     types.UID
	Problem *Problem // as in the Bundle's own status
	Targets int      // clusters that get it
	// Unrendered are the clusters for which templates of its values are not rendered.
	Unrendered values.Unrendered
}

// Sources are the facts from which the summary part of a GitRepo's status is
// made.
type Sources struct {
	Deployments []*Deployment
	Bundles     []RepoBundle
}

// GitRepoStatus returns the status of a GitRepo: its summary part is new, the rest is taken
// over from the object. The order of s.Deployments does not matter. Ready is never True
// unless the repository was read in the version that the spec names and every deployment is
// Ready.
func GitRepoStatus(repo *fleet.GitRepo, s Sources, now time.Time) fleet.GitRepoStatus {
	st := *repo.Status.DeepCopy()
	slices.SortFunc(s.Bundles, func(a, b RepoBundle) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name))
	})
	fillBase(&st.StatusBase, s.Deployments)
	if st.GitJobStatus != gitJobDone {
		st.Display.State = fleet.GitUpdating
	}
	seen := min(repo.Generation, repo.Status.ObservedGeneration)
	ready := Ready(ByBundle, &st.Summary, seen)
	if problem := repoProblem(repo, s); problem != nil {
		ready = NotReady(problem.Reason, problem.Message, seen)
		if text := displayed(repo, problem, &st.Display); text != "" {
			st.Display.Message = message(text)
		}
	} else if ready.Status == corev1.ConditionFalse {
		ready.Message = condition.Message(readyMessage(s))
	} else if problem := imagesProblem(repo); problem != nil {
		ready = NotReady(problem.Reason, problem.Message, seen)
		st.Display.Message = message(problem.Message)
	}
	st.Display.Error = st.Display.Message != ""
	st.Conditions = condition.Set(st.Conditions, ready, now)
	st.Conditions = setUnrendered(st.Conditions, unrenderedOf(s.Bundles), seen, now)
	return st
}

// readyMessage is the message of a GitRepo that is not Ready: that of its first Bundle, by
// UID, that is not, as Rancher Fleet v0.16 copies it, and then what the others have.
func readyMessage(s Sources) string {
	unready := map[string]bool{}
	for _, d := range s.Deployments {
		if d.State != fleet.Ready {
			unready[d.Bundle] = true
		}
	}
	at := slices.IndexFunc(s.Bundles, func(b RepoBundle) bool { return unready[b.Name] })
	var first, others []*Deployment
	for _, d := range s.Deployments {
		switch {
		case d.State == fleet.Ready:
		case at >= 0 && d.Bundle == s.Bundles[at].Name:
			first = append(first, d)
		default:
			others = append(others, d)
		}
	}
	var texts []string
	if len(first) > 0 {
		sum := countInOrder(ByCluster, first, byCluster)
		texts = append(texts, ReadyMessage(ByCluster, &sum))
	}
	if len(others) > 0 {
		sum := countInOrder(ByBundle, others, byUID)
		texts = append(texts, ReadyMessage(ByBundle, &sum))
	}
	return strings.Join(texts, "; ")
}

// fillBase fills the summary part that GitRepo and HelmOp share.
func fillBase(st *fleet.StatusBase, list []*Deployment) {
	sum, chosen := countStates(list, byUID)
	sum.NonReadyResources = chosen.resources(ByBundle)
	clusters := perCluster(list)
	st.Summary = sum
	st.DesiredReadyClusters, st.ReadyClusters = len(clusters), 0
	st.ResourceCounts = fleet.ResourceCounts{}
	for i := range clusters {
		if clusters[i].ready {
			st.ReadyClusters++
		}
		AddCounts(&st.ResourceCounts, clusters[i].counts)
	}
	st.PerClusterResourceCounts = listedCounts(clusters)
	st.Resources = resources(list, len(clusters))
	st.Display.ReadyBundleDeployments = ratioText(sum.Ready, sum.DesiredReady)
	st.Display.State = DisplayState(&sum)
	st.Display.Message = ""
	if worst := chosen.firstOf(WorstState(&sum)); worst != nil {
		st.Display.Message = message(worst.Message)
	}
}

// repoProblem is why a GitRepo cannot be Ready whatever its deployments say, nil for
// nothing: what keeps the repository from being read, or else what keeps a Bundle
// from being planned.
func repoProblem(repo *fleet.GitRepo, s Sources) *Problem {
	if reason, message, ok := unreadReason(repo); ok {
		return &Problem{reason, message}
	}
	if len(s.Bundles) == 0 {
		return &Problem{ReasonNoBundles, "no bundle was made from the repository yet"}
	}
	targets := 0
	for _, b := range s.Bundles {
		targets += b.Targets
	}
	for _, b := range s.Bundles {
		if b.Problem != nil && (b.Problem.Reason != fleet.ReasonNoTargets || targets == 0) {
			return &Problem{b.Problem.Reason, fmt.Sprintf("bundle %s: %s", b.Name, b.Problem.Message)}
		}
	}
	return nil
}

// imagesProblem is why what image scans have found is not committed, nil for nothing. It
// counts where everything else is Ready: what is deployed stays, and is older than it seems.
func imagesProblem(repo *fleet.GitRepo) *Problem {
	c := condition.Find(repo.Status.Conditions, fleet.ConditionImageSynced)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason == fleet.ReasonSuspended {
		return nil
	}
	return &Problem{cmp.Or(c.Reason, fleet.ReasonError), "images are not committed: " + c.Message}
}

// displayed is the text that a problem puts into the display fields, empty for none.
// Rancher shows it as an error: what only has to be waited for is none. A problem goes
// before the message of a deployment where the repository cannot be read.
func displayed(repo *fleet.GitRepo, problem *Problem, shown *fleet.StatusDisplay) string {
	if problem.Reason == ReasonNotRead || problem.Reason == ReasonNoBundles {
		return ""
	}
	_, _, unreadable := unreadReason(repo)
	if shown.Message == "" || unreadable && shown.State == fleet.GitUpdating {
		return problem.Message
	}
	return ""
}

// unreadReason says what keeps the repository from having been read as its spec asks. A
// field that this version does not act on does not.
func unreadReason(repo *fleet.GitRepo) (reason, message string, ok bool) {
	list := repo.Status.Conditions
	if c := condition.Find(list, fleet.ConditionAccepted); c != nil && c.Status == corev1.ConditionFalse && c.Reason != fleet.ReasonNotImplemented {
		return cmp.Or(c.Reason, fleet.ReasonError), c.Message, true
	}
	if c := condition.Find(list, fleet.ConditionStalled); c != nil && c.Status == corev1.ConditionTrue {
		return cmp.Or(c.Reason, fleet.ReasonError), c.Message, true
	}
	if c := condition.Find(list, fleet.ConditionGitPolling); c != nil && c.Status == corev1.ConditionFalse {
		return cmp.Or(c.Reason, fleet.ReasonError), c.Message, true
	}
	if c := condition.Find(list, fleet.ConditionReconciling); c != nil && c.Status == corev1.ConditionTrue &&
		c.Reason != fleet.ReasonProgressing && c.Reason != fleet.ReasonSuspended { // it may pass by itself, but has not
		return cmp.Or(c.Reason, fleet.ReasonError), c.Message, true
	}
	switch {
	case repo.Status.Commit == "":
		return ReasonNotRead, "the repository was not read yet", true
	case repo.Status.ObservedGeneration != repo.Generation:
		return ReasonNotRead, "the repository was not read yet as the changed spec asks", true
	}
	return "", "", false
}
