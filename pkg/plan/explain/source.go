package explain

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// sourceLink looks at the repository.
func (s *compiledSubject) sourceLink() linkState {
	name, helmOp := s.Bundle.Labels[fleet.LabelRepoName], s.Bundle.Labels[fleet.LabelHelmOpName]
	key := s.Bundle.Namespace + "/" + name
	switch {
	case name == "" && helmOp != "":
		return s.helmOpLink(helmOp)
	case name == "":
		return ok("no repository: written by fleet apply, or by hand")
	case view.HeldDeletion(s.Bundle) != nil: // the repository goes as well, and removes nothing
		return heldDeletion(s.Bundle)
	case s.Repo == nil && s.isForbidden(Repositories):
		return s.hiddenLink(Repositories).withEvidence("gitrepo", key)
	case s.Repo == nil:
		return stop(ReasonLeaving, fmt.Sprintf("repo %s is gone; what it deployed is being removed", name)).withEvidence("gitrepo", key).
			hint("to see what is left", "fleet get deployments -n %s --repo %s", s.Bundle.Namespace, name)
	}
	r := s.Repo
	j := s.readLink().withEvidence("gitrepo", key).withEvidence("commit", r.Status.Commit).withEvidence("readAt", r.Status.LastPollingTime.Time)
	if j.Verdict != OK {
		return j
	}
	for _, text := range s.readNotes() {
		j = j.detail(text)
	}
	return j
}

// readLink says what keeps the repository from being read.
func (s *compiledSubject) readLink() linkState {
	r := s.Repo
	if c := view.HeldRepo(r); c != nil {
		return stop(c.Reason, c.Message).withSince(view.ChangedAt(r.Status.Conditions, c.Type)).
			hint("to see the whole list", "fleet approve -n %s repo/%s", r.Namespace, r.Name)
	}
	if r.DeletionTimestamp != nil {
		return stop(ReasonLeaving, fmt.Sprintf("repo %s is being removed, with all that it deployed", r.Name)).withSince(r.DeletionTimestamp.Time).
			hint("to see what is left", "fleet get deployments -n %s --repo %s", r.Namespace, r.Name)
	}
	if _, c := view.RepoTrouble(r); c != nil && !s.isPartialRead(c) && c.Type != fleet.ConditionDeletionHeld {
		j := stop(c.Reason, c.Message).withSince(view.ChangedAt(r.Status.Conditions, c.Type))
		if c.Reason == fleet.EventPolicyViolation || c.Reason == policy.ReasonInvalid {
			j = j.withRule(s.limits[r.Namespace].GitRepoError(&r.Spec))
		}
		j.hints = s.repoHints(c)
		return j
	}
	if c := condition.Find(r.Status.Conditions, fleet.ConditionReconciling); c != nil && c.Status == corev1.ConditionTrue && !s.isPartialRead(c) {
		text := cmp.Or(c.Message, "is being read")
		if c.Reason == fleet.ReasonSuspended {
			return stop(c.Reason, text).withSince(view.ChangedAt(r.Status.Conditions, c.Type)).hint("to go on", "fleet resume --all")
		}
		return wait(c.Reason, text).withSince(view.ChangedAt(r.Status.Conditions, c.Type)).
			hint("to wait for it", "fleet wait repo/%s -n %s", r.Name, r.Namespace)
	}
	if r.Status.Commit == "" && s.Manager.Unmanaged() != "" && view.ShardOf(r) == s.Manager.Shard {
		return s.managerGone()
	}
	if r.Status.Commit == "" {
		return wait("NotRead", "the repository was not read yet").
			hint("to see what happens", "fleet events repo/%s -n %s", r.Name, r.Namespace)
	}
	j := ok("%s/%s, %s at %s", r.Namespace, r.Name, reference(r), view.ShortCommit(r.Status.Commit))
	if ago := view.Ago(r.Status.LastPollingTime.Time, s.Now); ago != "" {
		j = j.withScreenText(j.Text + " for " + ago)
	}
	return j
}

// reference returns the revision or branch that a repository follows.
func reference(r *fleet.GitRepo) string { return cmp.Or(r.Spec.Revision, r.Spec.Branch, "master") }

// isPartialRead reports whether a condition is about files of a commit that was read, so
// that it stops some bundles alone. The manager says of a reading that it is not
// complete; of an older one only a message that begins with a file shows that.
func (s *compiledSubject) isPartialRead(c *fleet.Condition) bool { return isPartialRead(s.Repo, c) }

func isPartialRead(r *fleet.GitRepo, c *fleet.Condition) bool {
	st := r.Status
	switch {
	case c.Type == fleet.ConditionReconciling && (c.Reason == fleet.ReasonProgressing || c.Reason == fleet.ReasonSuspended),
		c.Type != fleet.ConditionReconciling && c.Type != fleet.ConditionStalled,
		st.Commit == "", st.Commit != st.PollingCommit, condition.IsFalse(st.Conditions, fleet.ConditionGitPolling):
		return false
	}
	left := st.Reading
	return left != nil && left.Commit == st.Commit && left.Generation == r.Generation && !left.Complete || PathOf(c.Message) != ""
}

// unusable is the condition about files of the commit that was read, if there is one.
func unusable(r *fleet.GitRepo) *fleet.Condition {
	for _, kind := range []string{fleet.ConditionStalled, fleet.ConditionReconciling} {
		if c := condition.Find(r.Status.Conditions, kind); c != nil && c.Status == corev1.ConditionTrue && isPartialRead(r, c) {
			return c
		}
	}
	return nil
}

// UnwrittenReason returns why a GitRepo may have written no Bundle of a name, as a clause that
// names the GitRepo; empty where it says nothing of that. findings are what is known of the
// files of its commit besides its conditions.
func UnwrittenReason(r *fleet.GitRepo, bundle string, findings []string) string {
	repo := fmt.Sprintf("repo %s in %s", r.Name, r.Namespace)
	mine := IsBundleOf(r, bundle)
	c := unusable(r)
	if c == nil {
		if state, c := view.RepoTrouble(r); mine && state == view.Unreadable {
			return fmt.Sprintf("%s cannot be read: %s", repo, c.Message)
		}
		return ""
	}
	first, others := view.SplitOthers(c.Message)
	for _, text := range byPathDepth(append([]string{first}, findings...)) {
		if isAboutBundle(r.Name, bundle, text) {
			return fmt.Sprintf("%s has not written it: %s", repo, text)
		}
	}
	if mine && others > 0 {
		return fmt.Sprintf("%s has files that cannot be used; all of them: fleet events -n %s repo/%s, or fleet lint in a clone", repo, r.Namespace, r.Name)
	}
	return ""
}

// byPathDepth are findings in the order of how deep their files are: a directory is a bundle
// of its own, and not part of the one around it.
func byPathDepth(findings []string) []string {
	depth := func(text string) int { return strings.Count(PathOf(text), "/") }
	return slices.SortedStableFunc(slices.Values(findings), func(a, b string) int { return cmp.Compare(depth(a), depth(b)) })
}

// IsBundleOf reports whether a bundle has a name that a GitRepo gives to its bundles.
func IsBundleOf(r *fleet.GitRepo, bundle string) bool {
	return bundle == r.Name || strings.HasPrefix(bundle, r.Name+"-")
}

// readNotes returns what else a user may want to know of a repository that was read.
func (s *compiledSubject) readNotes() []string {
	var out []string
	list := s.Repo.Status.Conditions
	if c := condition.Find(list, fleet.ConditionAccepted); c != nil && c.Status == corev1.ConditionFalse && c.Reason == fleet.ReasonNotImplemented {
		out = append(out, c.Message)
	}
	if c := condition.Find(list, fleet.ConditionDeletionHeld); c != nil && c.Status == corev1.ConditionTrue {
		out = append(out, cmp.Or(view.Approval(s.Repo, list), c.Message))
	}
	if c := unusable(s.Repo); c != nil && !s.isConditionOfBundle(c) {
		text := c.Message
		if PathOf(text) != "" {
			text = "other files of it cannot be used: " + text
		}
		out = append(out, text)
	}
	return out
}

// aboutFiles is the condition about files of the commit that was read: what cannot be used
// of them, or else what is odd; nil where there is none.
func aboutFiles(r *fleet.GitRepo) *fleet.Condition {
	if c := unusable(r); c != nil {
		return c
	}
	if c := condition.Find(r.Status.Conditions, fleet.ConditionStalled); c != nil && c.Status == corev1.ConditionFalse && c.Message != "" {
		return c
	}
	return nil
}

// Unlisted reports whether a GitRepo says more about files of its commit than its condition
// has room for.
func Unlisted(r *fleet.GitRepo) bool {
	c := aboutFiles(r)
	if c == nil {
		return false
	}
	_, others := view.SplitOthers(c.Message)
	return others > 0
}

// warnings returns the GitRepo's warnings about files of this Bundle, at most maxDetails,
// if the condition does not name one that cannot be used. If a commit has such files, it is
// not known which of the others can be used; then the warning names the commit.
func (s *compiledSubject) warnings() []string {
	if s.Repo == nil {
		return nil
	}
	c := aboutFiles(s.Repo)
	if c == nil {
		return nil
	}
	list, at := s.Findings, "at commit "+view.ShortCommit(s.Repo.Status.Commit)+": "
	if c.Status == corev1.ConditionFalse {
		first, _ := view.SplitOthers(c.Message)
		list, at = append([]string{first}, s.Findings...), ""
	}
	var out []string
	for _, text := range list {
		if isAboutBundle(s.Repo.Name, s.Bundle.Name, text) && !slices.Contains(out, at+text) && len(out) < maxDetails {
			out = append(out, at+text)
		}
	}
	return out
}

// place of a finding at the beginning of a message: "web/fleet.yaml:3: ...".
var place = regexp.MustCompile(`^([^\s:]+):(\d+:)? `)

// placeOf is the file or directory that a message begins with; empty for one that
// names none.
func placeOf(message string) string {
	if m := place.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return ""
}

// PathOf returns the file or directory that a message about files of a repository begins
// with, as in "web/fleet.yaml:3: ..."; empty for one that names none.
func PathOf(message string) string {
	if at := placeOf(message); strings.ContainsAny(at, "/.") {
		return at
	}
	return ""
}

// taken finds the bundle whose name two directories, or two repositories, want: `bundle
// name "web" is also that of db`, `bundle "web" exists and belongs to GitRepo "b"`.
var taken = regexp.MustCompile(`: bundle (?:name )?"([^"]+)" (?:is also that of|exists and belongs to) `)

// isConditionOfBundle reports whether a condition about files of the repository is about the Bundle.
func (s *compiledSubject) isConditionOfBundle(c *fleet.Condition) bool {
	return isAboutBundle(s.Repo.Name, s.Bundle.Name, c.Message)
}

// isAboutBundle reports whether a message about files of a repository is about a bundle: it
// names the bundle, or a file of its directory. Where fleet.yaml gives the bundle another
// name than that of its directory, the directory does not show it.
func isAboutBundle(repo, bundle, message string) bool {
	at := placeOf(message)
	m := taken.FindStringSubmatch(message)
	switch {
	case at == "":
		return false
	case at == bundle, m != nil && m[1] == bundle:
		return true
	}
	if m != nil && slices.Contains(fleetyaml.Names, path.Base(at)) {
		at = path.Dir(at) // fleet.yaml gives the name
	}
	for dir := at; ; dir = path.Dir(dir) {
		if naming.BundleName(repo, dir, "") == bundle {
			return true
		}
		if m != nil || dir == "." || dir == "/" { // a name is of one directory, and not of those around it
			return false
		}
	}
}

// heldDeletion is why a Bundle that is being deleted is still there.
func heldDeletion(b *fleet.Bundle) linkState {
	c := view.HeldDeletion(b)
	j := stop(c.Reason, c.Message).withSince(view.ChangedAt(b.Status.Conditions, c.Type))
	if c.Reason == fleet.ReasonProtected {
		return j.hint("to see the whole list", "fleet approve -n %s bundle/%s", b.Namespace, b.Name)
	}
	return j.hint("to see the whole list", "fleet approve workspace/%s", b.Namespace)
}

// heldRemoval stops where the repository does not have the Bundle any more, and its removal
// waits at the GitRepo: for a person, or approved and not begun.
func (s *compiledSubject) heldRemoval() linkState {
	c := view.HeldRemoval(s.Repo, s.Bundle)
	if c == nil {
		return linkState{}
	}
	list := s.Repo.Status.Conditions
	if approval := view.Approval(s.Repo, list); approval != "" {
		return wait(ReasonLeaving, approval).withSince(view.ChangedAt(list, c.Type)).hint("to see whether the manager runs", "fleet status")
	}
	return stop(c.Reason, "its removal waits to be approved: repo "+s.Repo.Name+" "+c.Message).withSince(view.ChangedAt(list, c.Type)).
		hint("to see the whole list", "fleet approve -n %s repo/%s", s.Repo.Namespace, s.Repo.Name)
}

// bundleLink looks at the Bundle itself.
func (s *compiledSubject) bundleLink() linkState {
	b := s.Bundle
	if s.Repo != nil {
		if c := unusable(s.Repo); c != nil && s.isConditionOfBundle(c) {
			j := stop(c.Reason, c.Message).withSince(view.ChangedAt(s.Repo.Status.Conditions, c.Type)).
				detail("what was deployed before stays as it is").withEvidence("path", placeOf(c.Message))
			if c.Type == fleet.ConditionReconciling {
				j = j.detail("the manager tries again by itself")
			}
			return j.hint("to see all that is wrong, in a clone", "fleet lint %s", path.Dir(placeOf(c.Message)))
		}
	}
	if view.HeldDeletion(b) != nil {
		return heldDeletion(b)
	}
	if b.DeletionTimestamp != nil {
		return stop(ReasonLeaving, "the bundle is being removed").withSince(b.DeletionTimestamp.Time).
			hint("to see what is left", "fleet get deployments -n %s --bundle %s", b.Namespace, b.Name)
	}
	if j := s.heldRemoval(); j.stops() {
		return j
	}
	if !s.observed() && (s.Manager.IsGone() || view.Awaited(b) == nil) {
		return s.unobserved()
	}
	if c := s.problem; c != nil && linkOf(c.Reason) == Bundle {
		j := stop(c.Reason, c.Message)
		switch c.Reason {
		case deployment.ReasonWaitForValues, deployment.ReasonNoContent, deployment.ReasonChartPending:
			j.Verdict = Wait
		case deployment.ReasonNoSource:
			j = j.hint("to go on", "make it in namespace %s, or change downstreamResources in %s", b.Namespace, s.file())
		}
		return j.withSince(view.ChangedAt(b.Status.Conditions, c.Type)).
			hint("to see what happens", "fleet events bundle/%s -n %s", b.Name, b.Namespace)
	}
	j := ok("%s", contentText(b)).withEvidence("files", len(b.Spec.Resources)).withEvidence("commit", b.Labels[fleet.LabelCommit])
	for _, text := range s.warnings() {
		j = j.detail("warning: " + text)
	}
	if c := condition.Find(b.Status.Conditions, fleet.ConditionAccepted); c != nil && c.Status == corev1.ConditionFalse && c.Reason == fleet.ReasonNotImplemented {
		j = j.detail(c.Message)
	}
	return j
}

// unobserved is a Bundle that the manager has not worked on.
func (s *compiledSubject) unobserved() linkState {
	if s.Manager.IsGone() {
		return s.managerGone()
	}
	return wait(ReasonNotWritten, "the manager has not worked on this version yet").
		hint("to see whether it runs", "fleet status")
}

// managerGone explains that nothing new is rolled out without a manager.
func (s *compiledSubject) managerGone() linkState {
	const effect = "; what is deployed goes on running, nothing new is rolled out"
	j := stop(fleet.ReasonOffline, "the manager does not run"+effect)
	if text := s.Manager.Unmanaged(); text != "" {
		j = stop(view.ReasonNoManager, text+effect).withEvidence("shard", s.Manager.Shard).hint("to go on", "%s", s.Manager.ShardHint())
	}
	if s.Manager.LastSign == nil {
		return j
	}
	return j.withSince(*s.Manager.LastSign).hint("to see since when", "fleet status")
}

// linkOf is the link that a reason of a Bundle's Ready condition is about.
func linkOf(reason string) Name {
	switch reason {
	case fleet.ReasonNoTargets, target.ReasonInvalidSelector:
		return Target
	case fleet.ReasonNotImplemented, fleet.EventPolicyViolation, policy.ReasonInvalid:
		return Policy
	case fleet.ReasonSuspended:
		return Pause
	case rollout.ReasonInvalidRollout:
		return Rollout
	}
	return Bundle
}

// contentText says in words what a Bundle deploys.
func contentText(b *fleet.Bundle) string {
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
