package bundle

import (
	"cmp"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/placement"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/values"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A snapshot is the input of decide.
type snapshot struct {
	key         kube.Key
	bundle      *fleet.Bundle
	compiled    *deployment.Compiled // nil with compiledErr
	compiledErr error
	parts       int // in how many parts the content is kept; 0: every agent reads it
	deployments map[kube.Key]*fleet.BundleDeployment
	replacing   replaceInputs // which releases may be replaced
	releaseName string        // see named
	hold        string        // why nothing new may be written; empty: it may
	violation   error         // why the limits of the namespace refuse the Bundle; nil: they do not
	carriedSources
	candidateSet
	known
}

// carriedSources are the Secrets and ConfigMaps that deployments may take
// along.
type carriedSources struct {
	sources    map[deployment.Source]string // digests
	loaded     *sourceReads                 // the same with their data, as they are needed
	secretUses []deployment.SecretUse       // of Secrets of the namespace, where sources are taken along
}

// A candidateSet is the clusters that a Bundle may be meant for.
type candidateSet struct {
	candidates []*fleetstate.Candidate // by name
	reach      target.MappedNamespaces
	foreign    map[kube.Key]foreignCluster // of other namespaces
	taken      map[kube.Key]string         // why the name of a deployment is not free, by Cluster
}

// known is what the table and the controllers knew when the snapshot was taken.
type known struct {
	now      time.Time
	seen     uint64 // of the deployments
	moves    uint64 // of the clusters
	versions map[kube.Key]versionCache
	// stale are the deployments that must be written again although their ids match.
	stale map[kube.Key]bool
}

// A writeKind says what is written for a pair.
type writeKind int

const (
	nothing       writeKind = iota
	create                  // a new object
	replace                 // the whole object
	stage                   // the staged version, beside the current one
	patchMetadata           // labels and pause
)

// A pair is a Bundle on one cluster, and what decide has decided about it.
type pair struct {
	key     kube.Key // of the Cluster
	place   *deployment.Place
	offline bool
	silent  bool
	refused string // why the agent cannot read the content
	verdict target.Verdict
	old     *fleet.BundleDeployment
	mark    deployment.Mark // of old
	newest
	step  rollout.Step
	write writeKind
	want  fleetstate.Desired
	// replaced is the release that the version would replace, nil where there is none
	// to be judged.
	replaced *replaced
}

// newest is the version that a pair should have.
type newest struct {
	inputs  string
	id      string
	outcome string
	release release.ID          // release of the version; zero if it was not rendered
	version *deployment.Version // nil if it was not rendered this time
	late    bool                // rendering took too long, perhaps on a busy machine
}

// A decision is the result of decide for one Bundle.
type decision struct {
	plan     fleetstate.Plan
	pairs    []*pair // in the order of the rollout
	versions map[kube.Key]versionCache
	// leaving are deployments on clusters that do not get the Bundle any more.
	leaving []*staleDeployment
	// replaced are deployments whose release would be replaced, or may be.
	replaced []*replaced
	// unchanged reports that the Bundle has a problem, and that nothing is written.
	unchanged bool

	batch int // how many deployments may be created at once; 0: any number
	// countsUnavailable reports that a limit of the rollout counts the clusters that a
	// write makes unavailable.
	countsUnavailable bool
	late              bool // of a pair
	next              int  // index of the first pair that is not written
	delta             bool // a write has changed a Desired
}

// A staleDeployment is a deployment that must be withdrawn, and the reason.
type staleDeployment struct {
	cluster kube.Key
	bd      *fleet.BundleDeployment
	reason  string
	action  withdrawal.Action
	// ordered reports that a user has ordered this removal explicitly: no budget and no
	// pace applies.
	ordered bool
}

// decide computes what the manager has to do for a Bundle on all clusters. It writes
// nothing.
func decide(s *snapshot) *decision {
	d := &decision{versions: map[kube.Key]versionCache{}}
	d.plan.Generation, d.plan.Seen = s.bundle.Generation, s.seen
	d.plan.ResourcesDigest, d.plan.Named = resourcesDigest(s.bundle), fleetstate.NamedBy(s.bundle)
	d.plan.Accepted = acceptedCondition(s)
	if problem := blockingProblem(s); problem != nil {
		holdAll(s, d, problem)
		return d
	}
	refused := matchClusters(s, d)
	if d.plan.Problem = s.problem(d, refused); len(d.pairs) == 0 {
		return d
	}
	d.plan.Content = s.compiled.Content()
	candidates := make([]placement.Candidate, len(d.pairs))
	for i, p := range d.pairs {
		candidates[i] = p.candidate()
	}
	shape, result, err := placement.Evaluate(s.compiled, s.bundle.Spec.RolloutStrategy, 0, candidates, func(i int, t *rollout.Target) {
		findVersion(s, d.pairs[i], candidates[i], t)
	})
	if err != nil {
		holdAll(s, d, problemOf(err))
		return d
	}
	d.plan.Shape, d.plan.Unrendered = shape, unrendered(s.compiled, d.pairs)
	d.batch = result.Batch
	limited := shape.Limited()
	d.plan.Wants = make(map[kube.Key]fleetstate.Desired, len(d.pairs))
	for i, p := range d.pairs {
		p.step = result.Steps[i]
		applyStep(s, p)
		d.countsUnavailable = d.countsUnavailable || limited && p.step.Costs && p.write != nothing
		if p.write == nothing && p.id != "" && p.mark.Inputs != p.inputs {
			d.versions[p.key] = versionCache{p.inputs, p.id, p.outcome, p.release}
		}
		if p.replaced != nil {
			d.replaced = append(d.replaced, p.replaced)
		}
		d.late = d.late || p.late
		d.plan.Waiting = d.plan.Waiting || p.step.Waits
		d.plan.Order = append(d.plan.Order, p.key)
		p.want.Closed = p.place.Closed
		d.plan.Wants[p.key] = p.want
	}
	return d
}

// problem returns why the Bundle cannot be Ready whatever its deployments say; nil if it
// can: limits refuse it, or it targets no cluster, because of refused.
func (s *snapshot) problem(d *decision, refused string) *summary.Problem {
	switch {
	case s.violation != nil:
		return problemOf(s.violation)
	case len(d.pairs) == 0:
		return &summary.Problem{Reason: fleet.ReasonNoTargets, Message: refused}
	}
	return nil
}

// unrendered counts the clusters without labels: templates of values are not rendered
// for them, as in Rancher Fleet.
func unrendered(compiled *deployment.Compiled, pairs []*pair) values.Unrendered {
	var u values.Unrendered
	for _, p := range pairs {
		if compiled.KeepsTemplates(p.verdict, p.place) {
			u.First = cmp.Or(u.First, p.key.Name)
			u.Clusters++
		}
	}
	return u
}

// acceptedCondition returns condition Accepted of a Bundle; nil if the Bundle needs
// none.
func acceptedCondition(s *snapshot) *fleet.Condition {
	if s.violation != nil {
		return &fleet.Condition{
			Type: fleet.ConditionAccepted, Status: corev1.ConditionFalse, ObservedGeneration: s.bundle.Generation,
			Reason:  reconcile.ReasonOf(s.violation),
			Message: condition.Message("Bundle in namespace " + s.key.Namespace + " violates Policy: " + s.violation.Error()),
		}
	}
	return unsupportedCondition(support.UnsupportedFields(s.bundle), s.bundle.Generation)
}

// unsupportedCondition returns condition Accepted = False for an object with fields
// that this manager does not support; nil if there are no such fields.
func unsupportedCondition(missing []string, generation int64) *fleet.Condition {
	if len(missing) == 0 {
		return nil
	}
	return &fleet.Condition{
		Type: fleet.ConditionAccepted, Status: corev1.ConditionFalse, ObservedGeneration: generation,
		Reason: fleet.ReasonNotImplemented, Message: condition.Message(support.Message(missing)),
	}
}

// blockingProblem returns why no version of the Bundle can be computed; nil if it can.
func blockingProblem(s *snapshot) *summary.Problem {
	if text := support.BlockReason(&s.bundle.Spec); text != "" {
		return &summary.Problem{Reason: fleet.ReasonNotImplemented, Message: text}
	}
	if s.compiledErr != nil {
		return problemOf(cmp.Or(s.violation, s.compiledErr))
	}
	return nil
}

func problemOf(err error) *summary.Problem {
	return &summary.Problem{Reason: reconcile.ReasonOf(err), Message: err.Error()}
}

// holdAll decides to write and withdraw nothing: all deployments stay as they are.
func holdAll(s *snapshot, d *decision, problem *summary.Problem) {
	d.pairs, d.leaving, d.unchanged = nil, nil, true
	d.plan.Problem = problem
	d.plan.Order, d.plan.Wants = nil, map[kube.Key]fleetstate.Desired{}
	for key, bd := range s.deployments {
		if bd.Annotations[fleet.AnnotationWithdrawn] == "" {
			d.plan.Order = append(d.plan.Order, key)
			d.plan.Wants[key] = fleetstate.Desired{}
		}
	}
	slices.SortFunc(d.plan.Order, fleetstate.CompareKeys)
}

// matchClusters adds to a decision a pair for each targeted cluster, and a
// staleDeployment for each deployment on other clusters. If the Bundle targets no
// cluster, the result is the reason.
func matchClusters(s *snapshot, d *decision) string {
	clusters, first := 0, ""
	for _, c := range s.candidates {
		if c.Deleting || s.withdrawEmptied(d, c) {
			continue
		}
		v, beyond := s.mappingVerdict(c.Key)
		if !beyond {
			v = s.compiled.Pick(&c.Place.Cluster)
		}
		if v.Deploy {
			p := &pair{key: c.Key, place: deployment.AtOverride(c.Place, s.deployments[c.Key], s.now), offline: c.Offline, silent: c.Silent, verdict: v, old: s.deployments[c.Key]}
			if p.old != nil {
				p.mark = deployment.MarkOf(p.old)
			}
			p.want.Held, p.want.Coming = notPlacedReason(c)
			p.want.Barred = p.want.Held != "" && p.old != nil
			if p.refused = s.unreadableReason(c.Protocol); p.refused != "" && c.Unseen && p.want.Held == "" {
				p.refused = ""
				p.want.Held, p.want.Coming = "waits for the first report of the agent, to know whether it can read a bundle of this size", true
			}
			s.holdPair(p)
			d.pairs = append(d.pairs, p)
			continue
		}
		why := s.rejectCluster(d, c, v, clusters == 0)
		if clusters++; clusters == 1 {
			first = why
		}
	}
	if len(d.leaving) > 0 {
		d.plan.Withdrawing = d.leaving[0].reason
	}
	return target.Refusal(s.namespaceList(), clusters, first)
}

// withdrawEmptied reports whether a user has ordered that everything is withdrawn from
// a cluster, and adds its deployment to the decision. The Bundle of the agent stays.
func (s *snapshot) withdrawEmptied(d *decision, c *fleetstate.Candidate) bool {
	if !c.Emptied || s.bundle.Name == naming.AgentBundle(c.Key.Name) {
		return false
	}
	if bd := s.deployments[c.Key]; bd != nil {
		d.leaving = append(d.leaving, &staleDeployment{cluster: c.Key, bd: bd, reason: withdrawal.ReasonEmptied, ordered: true})
	}
	return true
}

// rejectCluster handles a cluster that the Bundle does not target: its deployment
// becomes a staleDeployment. It returns the reason if asked is true or the cluster has
// a deployment.
func (s *snapshot) rejectCluster(d *decision, c *fleetstate.Candidate, v target.Verdict, asked bool) string {
	bd := s.deployments[c.Key]
	if v.Reason == "" && (asked || bd != nil) {
		v = s.compiled.Match(&c.Place.Cluster)
	}
	if bd != nil {
		d.leaving = append(d.leaving, &staleDeployment{cluster: c.Key, bd: bd, reason: v.Reason})
	}
	return v.Reason
}

// notPlacedReason returns why no deployment can be written for a cluster; empty if it
// can. coming reports that the reason passes without a user.
func notPlacedReason(c *fleetstate.Candidate) (why string, coming bool) {
	switch {
	case c.Other != "":
		return "another manager, installation " + c.Other + ", looks after this cluster", false
	case c.NoPlace != "":
		return c.NoPlace, true
	}
	return "", false
}

// targetingError begins the message of a pair whose version cannot be worked out, as it
// begins that of a Bundle in Rancher Fleet v0.16.
const targetingError = "targeting error: "

// candidate returns the input of package placement for a pair.
func (p *pair) candidate() placement.Candidate {
	return placement.Candidate{Name: p.key.String(), Place: p.place, Verdict: p.verdict, Deployment: p.old, Offline: p.offline, Silent: p.silent}
}

// findVersion sets the version that a pair should have. It takes the version from the
// mark on the BundleDeployment, or from the versionCache, and otherwise renders it. It
// also completes t, the pair as the rollout sees it.
func findVersion(s *snapshot, p *pair, c placement.Candidate, t *rollout.Target) {
	p.want.Paused = t.Paused
	if p.want.Held != "" {
		p.want.Barred = p.want.Barred || p.old != nil && !s.upToDate(p)
		return
	}
	m := s.versions[p.key]
	n, err := placement.Version(s.compiled, c, placement.Rules{
		Inputs: func(inputs string) string { return deployment.WithInputs(inputs, s.sourcesDigest()) },
		Known: func(inputs string) (placement.Newest, bool) {
			if m.inputs != inputs {
				return placement.Newest{}, false
			}
			p.release = m.release
			return placement.Newest{ID: m.id, Outcome: m.outcome}, true
		},
		Render: func(target.Verdict, *deployment.Place) (deployment.Version, error) { return s.renderVersion(p) },
	})
	p.inputs, p.id, p.outcome, p.version = n.Inputs, n.ID, n.Outcome, n.Version
	if err != nil {
		p.want.Broken, p.late = targetingError+errorText(err), errors.Is(err, values.ErrTime)
		return
	}
	p.want.ID, t.Desired = p.id, p.id
	if p.refused != "" && (p.old == nil || p.old.Status.AppliedDeploymentID != p.id) {
		p.want.Broken, p.want.ID, t.Desired = p.refused, "", ""
	}
	t.Held = s.keptReason(p)
}

// upToDate reports whether the deployment of a pair has the version that its Bundle and
// its cluster ask for now.
func (s *snapshot) upToDate(p *pair) bool {
	inputs, err := s.compiled.Inputs(p.verdict, p.place)
	return err == nil && p.mark.Inputs == deployment.WithInputs(inputs, s.sourcesDigest())
}

func errorText(err error) string {
	var p *reconcile.Terminal
	if errors.As(err, &p) {
		return p.Error()
	}
	return err.Error()
}

// applyStep sets what is written for a pair, and what its status says, from the step of
// the rollout.
func applyStep(s *snapshot, p *pair) {
	if p.want.Held != "" || p.want.Broken != "" {
		p.step = rollout.Step{Reason: p.want.Held}
		return
	}
	p.write = writeKindOf(s, p)
	if s.hold != "" && p.write != nothing {
		p.write = nothing
		p.step = rollout.Step{Reason: s.hold}
		p.want.Coming = p.old == nil
	}
	if !p.step.Move {
		p.want.Held = p.step.Reason
		p.want.Coming = p.want.Coming || p.old == nil && p.step.Waits
	}
}

// writeKindOf returns the kind of write by which a pair takes its step.
func writeKindOf(s *snapshot, p *pair) writeKind {
	if p.old == nil {
		if p.step.Create {
			return create
		}
		return nothing
	}
	staged := p.mark.Outcome == p.outcome && p.old.Spec.StagedDeploymentID == p.id
	ordered := p.old.Annotations[fleet.AnnotationWithdrawn] != ""
	lost := s.stale[kube.KeyOf(p.old)]
	switch {
	case p.step.Move && (!staged || !p.mark.Moved || p.old.Spec.DeploymentID != p.id || ordered || lost):
		return replace
	case p.step.Stage && (!staged || ordered):
		return stage
	case !deployment.IsCurrent(s.compiled, p.place, p.old, p.id):
		return patchMetadata
	}
	return nothing
}
