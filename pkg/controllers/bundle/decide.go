package bundle

import (
	"cmp"
	"errors"
	"slices"

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

// A snapshot is all that decide needs to know.
type snapshot struct {
	key         kube.Key
	bundle      *fleet.Bundle
	compiled    *deployment.Compiled // nil with compiledErr
	compiledErr error
	parts       int // in how many parts the content is kept; 0: every agent reads it
	deployments map[kube.Key]*fleet.BundleDeployment
	replacing   replacing // which releases may be replaced
	releaseName string    // see named
	hold        string    // why nothing new may be written; empty: it may
	restricted  bool      // hold is a limit of the namespace, not the brake
	carriedSources
	candidateSet
	known
}

// carriedSources are the Secrets and ConfigMaps that deployments may take
// along.
type carriedSources struct {
	sources    map[deployment.Source]string // digests
	loaded     *loads                       // the same with their data, as they are needed
	secretUses []deployment.SecretUse       // of Secrets of the namespace, where sources are taken along
}

// A candidateSet is the clusters that a Bundle may be meant for.
type candidateSet struct {
	candidates []*fleetstate.Candidate // by name
	reach      target.Reach
	guests     map[kube.Key]guest  // of other namespaces
	taken      map[kube.Key]string // why the name of a deployment is not free, by Cluster
}

// known is the state of the table and the controllers when the snapshot was
// taken.
type known struct {
	seen     uint64 // of the deployments
	moves    uint64 // of the clusters
	versions map[kube.Key]versionCache
	lost     map[kube.Key]bool // deployments that have to be written again
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

// A pair is the Bundle on one cluster, as decided.
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
	release release.ID          // that the version makes; zero where it was not worked out
	version *deployment.Version // nil where it was not worked out this time
	late    bool                // working it out took too long, perhaps of a busy machine
}

// A decision is what becomes of a Bundle now.
type decision struct {
	plan     fleetstate.Plan
	pairs    []*pair // in the order of the rollout
	versions map[kube.Key]versionCache
	// leaving are deployments on clusters that do not get the Bundle any more.
	leaving []*staleDeployment
	// replaced are deployments whose release would be replaced, or may be.
	replaced []*replaced
	frozen   bool // nothing was worked out

	batch int  // how many deployments may be created at once; 0: any number
	costs bool // a limit has counted what moving takes down
	late  bool // of a pair
	next  int  // pairs before it were written
	delta bool // writing has changed a Want
}

// A staleDeployment is a deployment that is no longer desired, and why.
type staleDeployment struct {
	cluster kube.Key
	bd      *fleet.BundleDeployment
	reason  string
	action  withdrawal.Action
	ordered bool // by a person, who has seen what is removed: at once, whatever it is
}

// decide works out what a Bundle should be everywhere. It changes nothing.
func decide(s *snapshot) *decision {
	d := &decision{versions: map[kube.Key]versionCache{}}
	d.plan.Generation, d.plan.Seen = s.bundle.Generation, s.seen
	d.plan.ResourcesDigest, d.plan.Named = resourcesOf(s.bundle), fleetstate.NamedBy(s.bundle)
	d.plan.Accepted = accepted(s)
	if problem := impossible(s); problem != nil {
		holdAll(s, d, problem)
		return d
	}
	refused := match(s, d)
	if len(d.pairs) == 0 {
		d.plan.Problem = &summary.Problem{Reason: fleet.ReasonNoTargets, Message: refused}
		return d
	}
	d.plan.Content = s.compiled.Content()
	candidates := make([]placement.Candidate, len(d.pairs))
	for i, p := range d.pairs {
		candidates[i] = p.candidate()
	}
	shape, result, err := placement.Evaluate(s.compiled, s.bundle.Spec.RolloutStrategy, 0, candidates, func(i int, t *rollout.Target) {
		workOut(s, d.pairs[i], candidates[i], t)
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
		d.costs = d.costs || limited && p.step.Costs && p.write != nothing
		if p.write == nothing && p.id != "" && p.mark.Inputs != p.inputs {
			d.versions[p.key] = versionCache{p.inputs, p.id, p.outcome, p.release}
		}
		if p.replaced != nil {
			d.replaced = append(d.replaced, p.replaced)
		}
		d.late = d.late || p.late
		d.plan.Waiting = d.plan.Waiting || p.step.Waits
		d.plan.Order = append(d.plan.Order, p.key)
		d.plan.Wants[p.key] = p.want
	}
	return d
}

// unrendered are the clusters for which templates of values are not rendered, as in Rancher
// Fleet: those without labels.
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

// accepted is condition Accepted of a Bundle, or nil where there is nothing to
// say.
func accepted(s *snapshot) *fleet.Condition {
	if !s.restricted {
		return refusal(support.Missing(s.bundle), s.bundle.Generation)
	}
	return &fleet.Condition{
		Type: fleet.ConditionAccepted, Status: corev1.ConditionFalse, ObservedGeneration: s.bundle.Generation,
		Reason: fleet.ReasonRestricted, Message: condition.Message(s.hold),
	}
}

// refusal is condition Accepted of an object with fields that nothing acts on,
// or nil where there are none.
func refusal(missing []string, generation int64) *fleet.Condition {
	if len(missing) == 0 {
		return nil
	}
	return &fleet.Condition{
		Type: fleet.ConditionAccepted, Status: corev1.ConditionFalse, ObservedGeneration: generation,
		Reason: fleet.ReasonNotImplemented, Message: condition.Message(support.Message(missing)),
	}
}

// impossible is why the Bundle cannot be worked out at all.
func impossible(s *snapshot) *summary.Problem {
	if text := support.Blocks(&s.bundle.Spec); text != "" {
		return &summary.Problem{Reason: fleet.ReasonNotImplemented, Message: text}
	}
	if s.compiledErr != nil {
		return problemOf(s.compiledErr)
	}
	return nil
}

func problemOf(err error) *summary.Problem {
	return &summary.Problem{Reason: reconcile.ReasonOf(err), Message: err.Error()}
}

// holdAll keeps everything as it is: no deployment is written or withdrawn.
func holdAll(s *snapshot, d *decision, problem *summary.Problem) {
	d.pairs, d.leaving, d.frozen = nil, nil, true
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

// match finds the pairs, and the deployments on clusters that are no longer targeted.
// Where no cluster is targeted, the text says why.
func match(s *snapshot, d *decision) string {
	clusters, first := 0, ""
	for _, c := range s.candidates {
		if c.Deleting || s.empties(d, c) {
			continue
		}
		v, beyond := s.judgeGuest(c.Key)
		if !beyond {
			v = s.compiled.Pick(&c.Place.Cluster)
		}
		if v.Deploy {
			p := &pair{key: c.Key, place: c.Place, offline: c.Offline, silent: c.Silent, verdict: v, old: s.deployments[c.Key]}
			if p.old != nil {
				p.mark = deployment.MarkOf(p.old)
			}
			p.want.Held, p.want.Coming = unplaced(c)
			p.want.Barred = p.want.Held != "" && p.old != nil
			if p.refused = s.illegible(c.Protocol); p.refused != "" && c.Unseen && p.want.Held == "" {
				p.refused = ""
				p.want.Held, p.want.Coming = "waits for the first report of the agent, to know whether it can read a bundle of this size", true
			}
			s.restrain(p)
			d.pairs = append(d.pairs, p)
			continue
		}
		why := s.turnDown(d, c, v, clusters == 0)
		if clusters++; clusters == 1 {
			first = why
		}
	}
	if len(d.leaving) > 0 {
		d.plan.Withdrawing = d.leaving[0].reason
	}
	return target.Refusal(s.where(), clusters, first)
}

// empties reports whether a user no longer wants anything deployed to a cluster. Every
// deployment there is withdrawn, except that of its agent.
func (s *snapshot) empties(d *decision, c *fleetstate.Candidate) bool {
	if !c.Emptied || s.bundle.Name == naming.AgentBundle(c.Key.Name) {
		return false
	}
	if bd := s.deployments[c.Key]; bd != nil {
		d.leaving = append(d.leaving, &staleDeployment{cluster: c.Key, bd: bd, reason: withdrawal.ReasonEmptied, ordered: true})
	}
	return true
}

// turnDown notes that a cluster does not get the Bundle, and returns why, where
// that is asked or a deployment leaves it.
func (s *snapshot) turnDown(d *decision, c *fleetstate.Candidate, v target.Verdict, asked bool) string {
	bd := s.deployments[c.Key]
	if v.Reason == "" && (asked || bd != nil) {
		v = s.compiled.Match(&c.Place.Cluster)
	}
	if bd != nil {
		d.leaving = append(d.leaving, &staleDeployment{cluster: c.Key, bd: bd, reason: v.Reason})
	}
	return v.Reason
}

// unplaced says why nothing can be written for a cluster yet.
func unplaced(c *fleetstate.Candidate) (why string, coming bool) {
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

// candidate is a pair as package placement sees it.
func (p *pair) candidate() placement.Candidate {
	return placement.Candidate{Name: p.key.String(), Place: p.place, Verdict: p.verdict, Deployment: p.old, Offline: p.offline, Silent: p.silent}
}

// workOut finds the version that a pair should have: from the mark on the object, from
// memory, or else by working it out. It completes the pair as the rollout sees it.
func workOut(s *snapshot, p *pair, c placement.Candidate, t *rollout.Target) {
	p.want.Paused = t.Paused
	if p.want.Held != "" {
		p.want.Barred = p.want.Barred || p.old != nil && !s.written(p)
		return
	}
	m := s.versions[p.key]
	n, err := placement.Version(s.compiled, c, placement.Rules{
		Inputs: func(inputs string) string { return deployment.WithInputs(inputs, s.allSources()) },
		Known: func(inputs string) (placement.Newest, bool) {
			if m.inputs != inputs {
				return placement.Newest{}, false
			}
			p.release = m.release
			return placement.Newest{ID: m.id, Outcome: m.outcome}, true
		},
		Render: func(target.Verdict, *deployment.Place) (deployment.Version, error) { return s.work(p) },
	})
	p.inputs, p.id, p.outcome, p.version = n.Inputs, n.ID, n.Outcome, n.Version
	if err != nil {
		p.want.Broken, p.late = targetingError+text(err), errors.Is(err, values.ErrTime)
		return
	}
	p.want.ID, t.Desired = p.id, p.id
	if p.refused != "" && (p.old == nil || p.old.Status.AppliedDeploymentID != p.id) {
		p.want.Broken, p.want.ID, t.Desired = p.refused, "", ""
	}
	t.Held = s.keep(p)
}

// written reports whether the deployment of a pair has the version that its Bundle and
// its cluster ask for now.
func (s *snapshot) written(p *pair) bool {
	inputs, err := s.compiled.Inputs(p.verdict, p.place)
	return err == nil && p.mark.Inputs == deployment.WithInputs(inputs, s.allSources())
}

func text(err error) string {
	var p *reconcile.Terminal
	if errors.As(err, &p) {
		return p.Error()
	}
	return err.Error()
}

// applyStep turns the rollout's step into what is written for a pair and what
// its status says.
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
	lost := s.lost[kube.KeyOf(p.old)]
	switch {
	case p.step.Move && (!staged || !p.mark.Moved || p.old.Spec.DeploymentID != p.id || ordered || lost):
		return replace
	case p.step.Stage && (!staged || ordered):
		return stage
	case !deployment.Neat(s.compiled, p.place, p.old, p.id):
		return patchMetadata
	}
	return nothing
}
