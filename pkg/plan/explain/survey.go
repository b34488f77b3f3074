package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/placement"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// An Answer is what is the same for a number of clusters.
type Answer struct {
	// Clusters is their number, and Example the first of them by name.
	Clusters int
	Example  view.Key
	// State of the deployments; empty where there are none and should be none.
	State     fleet.BundleState
	StoppedAt Name
	Reason    string
	// Text is the answer in one line, without names and times.
	Text string
}

// A Survey is the state of a Bundle on all clusters.
type Survey struct {
	Bundle view.Key
	// Clusters is how many are meant to have the Bundle, Ready how many of them
	// have it and are Ready.
	Clusters, Ready int
	// StoppedAt is Source or Bundle where one of these stops it for all clusters;
	// Reason, Since, Message and Hints are of that link. Where neither stops it and
	// it is meant for no cluster, they and Details say why it is not meant for Example; an
	// empty Example: that there are no clusters.
	StoppedAt Name
	Reason    string
	Since     *time.Time
	Message   string
	Hints     []Hint
	Example   view.Key
	Details   []string
	// Waits says which clusters the rollout waits for, and why; empty: for
	// none.
	Waits string
	// Answers are the distinct answers, worst first; clusters that the Bundle is
	// not meant for come last.
	Answers []Answer
	// Warnings are about files of the Bundle that can be used, and about values that
	// stay templates.
	Warnings []string
	Hidden   []Hidden
	// Source says which version of its chart the Bundle's HelmOp stands for; empty for
	// other Bundles, and where it is not known.
	Source string

	withoutBundle bool // a HelmOp has no Bundle

	elsewhere []string // namespaces that have clusters, where the Bundle's has none

	hasHidden bool // the deployments, and the Bundle's own count does not prove that they are Ready
}

// Overview explains the state of a Bundle on all clusters of its workspace. Since it has
// all of them, it plans the rollout as the manager does.
func Overview(s Subject, places []Place) Survey {
	if !slices.ContainsFunc(places, func(at Place) bool { return at.Cluster == nil }) {
		s.Clusters, s.Labels = map[string][]string{}, map[string][]map[string]string{}
		for _, at := range places {
			s.Labels[at.Key.Namespace] = append(s.Labels[at.Key.Namespace], at.Cluster.Labels)
			s.Clusters[at.Key.Namespace] = append(s.Clusters[at.Key.Namespace], target.NamesOf(at.Key.Name, at.Cluster.Labels)...)
		}
	}
	st := newStudy(s)
	out := Survey{Bundle: keyOf(s.Bundle), Hidden: s.Hidden, Answers: []Answer{}, Warnings: st.warnings()}
	for _, name := range []Name{Source, Bundle} {
		j := st.sourceLink()
		if name == Bundle {
			j = st.bundleLink()
		}
		if name == Source && s.HelmOp != nil && j.Verdict == OK {
			out.Source = j.Text
		}
		if j.stops() && out.StoppedAt == "" {
			out.StoppedAt, out.Reason, out.Since, out.Hints, out.Message = name, j.Reason, j.Since, j.hints, cmp.Or(j.message, j.Text)
		}
	}
	out.Waits, _ = st.waits()
	if st.isForbidden(Deployments) {
		out.hasHidden = !st.countedReady(places)
		out.fromSummary(&s.Bundle.Status.Summary)
		return out
	}
	var pairs []*bundleOnCluster
	for _, at := range places {
		pairs = append(pairs, st.newPair(at))
	}
	slices.SortFunc(pairs, func(a, b *bundleOnCluster) int {
		return cmp.Or(strings.Compare(a.deploymentPlace.Key.Name, b.deploymentPlace.Key.Name), strings.Compare(a.deploymentPlace.Key.Namespace, b.deploymentPlace.Key.Namespace)) // as rollouts do
	})
	out.Warnings = append(out.Warnings, unrendered(pairs...)...)
	st.planRollout(pairs)
	out.countAnswers(pairs)
	if len(places) == 0 && out.StoppedAt == "" && !st.isForbidden(Clusters) {
		out.elsewhere = s.Elsewhere
		out.Reason, out.Message = ReasonNotTargeted, view.NoClusters(s.Bundle.Namespace, s.Elsewhere)
		if s.Repo != nil && len(s.Elsewhere) > 0 {
			out.Hints = []Hint{{"to deploy it there", "make the GitRepo in " + s.Elsewhere[0] + " instead"}}
		}
	}
	slices.SortStableFunc(out.Answers, func(a, b Answer) int {
		return cmp.Or(view.StateRank(b.State)-view.StateRank(a.State), b.Clusters-a.Clusters, strings.Compare(a.Text, b.Text))
	})
	return out
}

// countedReady reports whether the Bundle's status counts all clusters as Ready, where the
// user may not see the deployments. The count must equal the number of known clusters that
// the Bundle is meant for and whose own answers are Ready.
func (s *compiledSubject) countedReady(places []Place) bool {
	if s.isForbidden(Clusters) {
		return false
	}
	ready := 0
	for _, at := range places {
		if p := s.newPair(at); p.isTargeted() && p.state == fleet.Ready {
			ready++
		}
	}
	return ready > 0 && ready == s.Bundle.Status.Summary.DesiredReady
}

// countAnswers adds the answers about all clusters. Where the Bundle is meant for none of them,
// the survey says why of the first one.
func (s *Survey) countAnswers(pairs []*bundleOnCluster) {
	known := map[string]int{}
	var missed Explanation
	for _, p := range pairs {
		e := p.explain(Target)
		text := e.anonymous()
		i, there := known[text]
		if !there {
			i = len(s.Answers)
			known[text] = i
			s.Answers = append(s.Answers, Answer{Example: p.deploymentPlace.Key, State: e.State, StoppedAt: e.StoppedAt, Reason: e.Reason, Text: text})
		}
		s.Answers[i].Clusters++
		if e.State != "" || p.verdict.Deploy {
			s.Clusters++
		}
		if e.Ready() {
			s.Ready++
		}
		if s.Example.Name == "" && (e.Reason == ReasonNotTargeted || e.Reason == ReasonDoNotDeploy) {
			missed, s.Example = e, p.deploymentPlace.Key
		}
	}
	if s.Clusters == 0 && s.StoppedAt == "" && s.Example.Name != "" {
		s.Reason, s.Message, s.Hints, s.Details = missed.Reason, missed.Message, missed.Hints, missed.Link(Target).Details
	}
}

// fromSummary fills the survey from the Bundle's own status: the number of
// clusters in each state, and the reason of one of them.
func (s *Survey) fromSummary(sum *fleet.BundleSummary) {
	s.Clusters, s.Ready = sum.DesiredReady, sum.Ready
	for _, state := range fleet.States {
		n := map[fleet.BundleState]int{
			fleet.ErrApplied: sum.ErrApplied, fleet.WaitApplied: sum.WaitApplied, fleet.Modified: sum.Modified, fleet.OutOfSync: sum.OutOfSync,
			fleet.Pending: sum.Pending, fleet.NotReady: sum.NotReady, fleet.Ready: sum.Ready,
		}[state]
		if n == 0 {
			continue
		}
		a := Answer{Clusters: n, State: state, Text: string(state)}
		i := slices.IndexFunc(sum.NonReadyResources, func(r fleet.NonReadyResource) bool { return r.State == state })
		if i >= 0 {
			r := &sum.NonReadyResources[i]
			a.Example.Namespace, a.Example.Name, _ = strings.Cut(r.Name, "/")
			if text := cmp.Or(r.Message, objectText(r.ModifiedStatus, r.NonReadyStatus)); text != "" {
				a.Text += ": " + text
			}
		}
		s.Answers = append(s.Answers, a)
	}
}

// planRollout asks the rollout as the manager does, where all clusters may be seen.
func (s *compiledSubject) planRollout(pairs []*bundleOnCluster) {
	if s.compiled == nil || s.isForbidden(Clusters) || s.isForbidden(Deployments) {
		return
	}
	var list []placement.Candidate
	var wanted []*bundleOnCluster
	for _, p := range pairs {
		if p.verdict.Deploy && p.deploymentPlace.Cluster != nil && !withdrawal.IsDeleting(p.deploymentPlace.Cluster) {
			list, wanted = append(list, p.candidate()), append(wanted, p)
		}
	}
	_, plan, err := placement.Evaluate(s.compiled, s.Bundle.Spec.RolloutStrategy, 0, list, func(i int, t *rollout.Target) {
		t.Desired = wanted[i].wanted
	})
	if err != nil {
		return
	}
	for i, p := range wanted {
		p.step = &plan.Steps[i]
	}
}

// waits returns which clusters the rollout waits for and why, as the Bundle's
// status says; empty if it waits for none.
func (s *compiledSubject) waits() (string, time.Time) {
	c := condition.Find(s.Bundle.Status.Conditions, fleet.ConditionWaiting)
	if c == nil || c.Status != corev1.ConditionTrue {
		return "", time.Time{}
	}
	text, _, _ := strings.Cut(c.Message, "; ")
	return text, view.ChangedAt(s.Bundle.Status.Conditions, c.Type)
}

// Stopped reports whether something keeps the Bundle from being Ready on a cluster
// that it is meant for, keeps new versions from all of them, or it is meant for none. Where
// the deployments may not be seen, only the Bundle's own count may say that it is Ready.
func (s *Survey) Stopped() bool {
	return s.StoppedAt != "" || s.Ready < s.Clusters || s.Clusters == 0 || s.hasHidden
}

// untargetedText says which clusters the Bundle is not meant for, where it is meant for none.
func (s *Survey) untargetedText() string {
	total := 0
	for _, a := range s.Answers {
		total += a.Clusters
	}
	switch total {
	case 0:
		if slices.ContainsFunc(s.Hidden, func(h Hidden) bool { return h.Resource == Clusters }) {
			return "no cluster: none is known in workspace " + s.Bundle.Namespace
		}
		return "no cluster: " + view.NoClusters(s.Bundle.Namespace, s.elsewhere)
	case 1:
		return "no cluster: " + s.Answers[0].Example.Name + " is the only one there, and not meant"
	}
	return fmt.Sprintf("none of %d clusters", total)
}

// Headline returns the survey in one line.
func (s *Survey) Headline() string {
	switch {
	case s.withoutBundle:
		return fmt.Sprintf("helmop %s has no bundle", s.Bundle.Name)
	case s.hasHidden && s.Ready == s.Clusters:
		return fmt.Sprintf("whether %s is Ready on its clusters is not known: they are not yours to see; its status counts %d of %d Ready",
			s.Bundle.Name, s.Ready, s.Clusters)
	case s.Clusters == 0:
		return s.Bundle.Name + " is meant for " + s.untargetedText()
	case s.Clusters == 1 && s.Ready == 1:
		return s.Bundle.Name + " is Ready on its only cluster"
	case s.Ready == s.Clusters:
		return fmt.Sprintf("%s is Ready on all %d clusters", s.Bundle.Name, s.Clusters)
	}
	return fmt.Sprintf("%s is Ready on %d of %d clusters", s.Bundle.Name, s.Ready, s.Clusters)
}
