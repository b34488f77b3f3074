package explain

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// judgeSource looks at the repository.
func (s *study) judgeSource() judgement {
	name, helmOp := s.Bundle.Labels[fleet.LabelRepoName], s.Bundle.Labels[fleet.LabelHelmOpName]
	key := s.Bundle.Namespace + "/" + name
	switch {
	case name == "" && helmOp != "":
		return ok("HelmOp %s/%s", s.Bundle.Namespace, helmOp).proof("helmop", s.Bundle.Namespace+"/"+helmOp)
	case name == "":
		return ok("no repository: written by fleet apply, or by hand")
	case s.Repo == nil && s.hides(Repositories):
		return s.unseen(Repositories).proof("gitrepo", key)
	case s.Repo == nil:
		return stop(ReasonLeaving, fmt.Sprintf("repo %s is gone; what it deployed is being removed", name)).proof("gitrepo", key).
			hint("to see what is left", "fleet get deployments -n %s --repo %s", s.Bundle.Namespace, name)
	}
	r := s.Repo
	j := s.readable().proof("gitrepo", key).proof("commit", r.Status.Commit).proof("readAt", r.Status.LastPollingTime.Time)
	if j.Verdict != OK {
		return j
	}
	for _, text := range s.asides() {
		j = j.detail(text)
	}
	return j
}

// readable says what keeps the repository from being read.
func (s *study) readable() judgement {
	r := s.Repo
	if r.DeletionTimestamp != nil {
		return stop(ReasonLeaving, fmt.Sprintf("repo %s is being removed, with all that it deployed", r.Name)).since(r.DeletionTimestamp.Time).
			hint("to see what is left", "fleet get deployments -n %s --repo %s", r.Namespace, r.Name)
	}
	if _, c := view.RepoTrouble(r); c != nil && !s.partial(c) && c.Reason != fleet.ReasonNotImplemented && c.Type != fleet.ConditionDeletionHeld {
		j := stop(c.Reason, c.Message).since(view.Since(r.Status.Conditions, c.Type))
		j.hints = s.repoHints(c)
		return j
	}
	if c := condition.Find(r.Status.Conditions, fleet.ConditionReconciling); c != nil && c.Status == corev1.ConditionTrue && !s.foreign(c) {
		text := cmp.Or(c.Message, "is being read")
		if c.Reason == fleet.ReasonSuspended {
			return stop(c.Reason, text).since(view.Since(r.Status.Conditions, c.Type)).hint("to go on", "fleet resume --all")
		}
		return wait(c.Reason, text).since(view.Since(r.Status.Conditions, c.Type)).
			hint("to wait for it", "fleet wait repo/%s -n %s", r.Name, r.Namespace)
	}
	if r.Status.Commit == "" {
		return wait("NotRead", "the repository was not read yet").
			hint("to see what happens", "fleet events repo/%s -n %s", r.Name, r.Namespace)
	}
	j := ok("%s/%s, %s at %s", r.Namespace, r.Name, reference(r), view.Short(r.Status.Commit))
	if ago := view.Ago(r.Status.LastPollingTime.Time, s.Now); ago != "" {
		j = j.shown(j.Text + " for " + ago)
	}
	return j
}

// reference is what of a repository is followed.
func reference(r *fleet.GitRepo) string { return cmp.Or(r.Spec.Revision, r.Spec.Branch, "master") }

// partial tells whether a condition is about files of a repository that was
// read, so that it stops some bundles alone.
func (s *study) partial(c *fleet.Condition) bool {
	st := s.Repo.Status
	return c.Type == fleet.ConditionStalled && st.Commit != "" && st.Commit == st.PollingCommit &&
		!condition.IsFalse(st.Conditions, fleet.ConditionGitPolling) && pathOf(c.Message) != ""
}

// foreign tells whether a condition is about files of another bundle.
func (s *study) foreign(c *fleet.Condition) bool {
	return c.Reason != fleet.ReasonProgressing && c.Reason != fleet.ReasonSuspended && pathOf(c.Message) != "" && !s.owns(pathOf(c.Message))
}

// asides are what a person may want to know of a repository that was read.
func (s *study) asides() []string {
	var out []string
	list := s.Repo.Status.Conditions
	if c := condition.Find(list, fleet.ConditionAccepted); c != nil && c.Status == corev1.ConditionFalse && c.Reason == fleet.ReasonNotImplemented {
		out = append(out, c.Message)
	}
	if c := condition.Find(list, fleet.ConditionDeletionHeld); c != nil && c.Status == corev1.ConditionTrue {
		out = append(out, c.Message)
	}
	if c := condition.Find(list, fleet.ConditionStalled); c != nil && c.Status == corev1.ConditionTrue && s.partial(c) && !s.owns(pathOf(c.Message)) {
		out = append(out, "other files of it cannot be used: "+c.Message)
	}
	return out
}

// place of a finding at the beginning of a message: "web/fleet.yaml:3: ...".
var place = regexp.MustCompile(`^([^\s:]+):(\d+:)? `)

// pathOf is the file that a message begins with; empty for one that names none.
func pathOf(message string) string {
	if m := place.FindStringSubmatch(message); m != nil && strings.ContainsAny(m[1], "/.") {
		return m[1]
	}
	return ""
}

// owns tells whether a file of the repository belongs to the Bundle. Where
// fleet.yaml gives it another name than that of its directory, that cannot be
// told, and it does not.
func (s *study) owns(file string) bool {
	for dir := file; ; dir = path.Dir(dir) {
		if naming.BundleName(s.Bundle.Labels[fleet.LabelRepoName], dir, "") == s.Bundle.Name {
			return true
		}
		if dir == "." || dir == "/" {
			return false
		}
	}
}

// judgeBundle looks at the Bundle itself.
func (s *study) judgeBundle() judgement {
	b := s.Bundle
	if s.Repo != nil {
		if c := condition.Find(s.Repo.Status.Conditions, fleet.ConditionStalled); c != nil && c.Status == corev1.ConditionTrue &&
			s.partial(c) && s.owns(pathOf(c.Message)) {
			return stop(c.Reason, c.Message).since(view.Since(s.Repo.Status.Conditions, c.Type)).
				detail("what was deployed before stays as it is").proof("path", pathOf(c.Message)).
				hint("to see all that is wrong, in a clone", "fleet lint %s", path.Dir(pathOf(c.Message)))
		}
	}
	if b.DeletionTimestamp != nil {
		return stop(ReasonLeaving, "the bundle is being removed").since(b.DeletionTimestamp.Time).
			hint("to see what is left", "fleet get deployments -n %s --bundle %s", b.Namespace, b.Name)
	}
	if !s.observed() {
		return s.unobserved()
	}
	if c := s.problem; c != nil && linkOf(c.Reason) == Bundle {
		j := stop(c.Reason, c.Message)
		if c.Reason == deployment.ReasonWaitForValues || c.Reason == reasonNoContent {
			j.Verdict = Wait
		}
		return j.since(view.Since(b.Status.Conditions, c.Type)).
			hint("to see what happens", "fleet events bundle/%s -n %s", b.Name, b.Namespace)
	}
	j := ok("%s", what(b)).proof("files", len(b.Spec.Resources)).proof("commit", b.Labels[fleet.LabelCommit])
	if c := condition.Find(b.Status.Conditions, fleet.ConditionAccepted); c != nil && c.Status == corev1.ConditionFalse && c.Reason == fleet.ReasonNotImplemented {
		j = j.detail(c.Message)
	}
	return j
}

// unobserved is a Bundle that the manager has not worked on.
func (s *study) unobserved() judgement {
	if s.Manager.Gone() {
		return s.managerGone()
	}
	return wait(ReasonNotWritten, "the manager has not worked on this version yet").
		hint("to see whether it runs", "fleet status")
}

// managerGone is what stops everything new.
func (s *study) managerGone() judgement {
	j := stop(fleet.ReasonOffline, "the manager does not run; what is deployed goes on running, nothing new is rolled out").
		hint("to see since when", "fleet status")
	if s.Manager.LastSign != nil {
		j = j.since(*s.Manager.LastSign)
	}
	return j
}

// linkOf is the link that a reason of a Bundle's Ready condition is about.
func linkOf(reason string) Name {
	switch reason {
	case fleet.ReasonNoTargets, target.ReasonInvalidSelector:
		return Target
	case fleet.ReasonNotImplemented, fleet.ReasonRestricted, fleet.EventPolicyViolation:
		return Policy
	case fleet.ReasonSuspended:
		return Pause
	case rollout.ReasonInvalidRollout:
		return Rollout
	}
	return Bundle
}

// what says in words what a Bundle deploys.
func what(b *fleet.Bundle) string {
	files := fmt.Sprintf("%d files", len(b.Spec.Resources))
	if len(b.Spec.Resources) == 1 {
		files = "1 file"
	}
	if h := b.Spec.Helm; h != nil && h.Chart != "" && h.Version != "" {
		return "chart " + path.Base(h.Chart) + " " + h.Version
	}
	chart, kustomized := (*fleet.BundleResource)(nil), false
	for i := range b.Spec.Resources {
		r := &b.Spec.Resources[i]
		switch path.Base(r.Name) {
		case "Chart.yaml":
			if chart == nil || strings.Count(r.Name, "/") < strings.Count(chart.Name, "/") {
				chart = r
			}
		case "kustomization.yaml", "kustomization.yml", "Kustomization":
			kustomized = true
		}
	}
	switch {
	case len(b.Spec.Resources) == 0:
		return "its content is kept apart"
	case chart != nil:
		return chartText(chart) + ", " + files
	case kustomized:
		return files + " (kustomize)"
	}
	return files
}

// chartText is "chart web 1.4.0".
func chartText(r *fleet.BundleResource) string {
	var meta struct{ Name, Version string }
	data, err := content.ResourceBytes(*r)
	if err != nil || len(data) > 1<<20 || yaml.Unmarshal(data, &meta) != nil || meta.Name == "" {
		return "a chart"
	}
	return strings.TrimSpace("chart " + oneLine(meta.Name) + " " + oneLine(meta.Version))
}
