package differential_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/support"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A snapshot is everything that there is, as the API server lists it.
type snapshot struct {
	at          time.Time
	bundles     []*fleet.Bundle
	deployments []*fleet.BundleDeployment
	clusters    []*fleet.Cluster
	groups      []*fleet.ClusterGroup
	repos       []*fleet.GitRepo
	contents    map[string]bool
	secrets     map[kube.Key]*corev1.Secret
	brake       *corev1.ConfigMap
}

// snapshot reads everything.
func (w *world) snapshot() *snapshot {
	w.t.Helper()
	s := &snapshot{at: time.Now(), contents: map[string]bool{}, secrets: map[kube.Key]*corev1.Secret{}}
	s.bundles = list[*fleet.Bundle](w, w.workspace, "")
	s.deployments = list[*fleet.BundleDeployment](w, "", "")
	s.clusters = list[*fleet.Cluster](w, w.workspace, "")
	s.groups = list[*fleet.ClusterGroup](w, w.workspace, "")
	s.repos = list[*fleet.GitRepo](w, w.workspace, "")
	for _, c := range list[*fleet.Content](w, "", "") {
		s.contents[c.Name] = true
	}
	for _, secret := range list[*corev1.Secret](w, "", fleet.LabelManaged+"=true") {
		s.secrets[kube.KeyOf(secret)] = secret
	}
	brake, err := kube.StoreOf[*corev1.ConfigMap](w.admin).Get(w.t.Context(), brakeKey)
	if !kube.IsGone(err) {
		w.must(err)
		s.brake = brake
	}
	return s
}

func list[P kube.Object](w *world, namespace, selector string) []P {
	w.t.Helper()
	out, err := kube.StoreOf[P](w.admin).List(w.t.Context(), namespace, selector)
	w.must(err)
	slices.SortFunc(out, func(a, b P) int { return cmp.Compare(kube.KeyOf(a).String(), kube.KeyOf(b).String()) })
	return out
}

// A plan is what a Bundle should be everywhere, worked out from nothing.
type plan struct {
	bundle   *fleet.Bundle
	digest   string // of its resources
	compiled *deployment.Compiled
	shape    rollout.Shape
	pairs    []*pair // that get the Bundle, in the order of the rollout
	leaving  []*pair // that do not get it any more
	why      string  // of the first one that is leaving
	problem  *summary.Problem
	complete bool // everything that may be written can be written
}

// A pair is a Bundle on one cluster.
type pair struct {
	cluster kube.Key
	place   *deployment.Place
	bd      *fleet.BundleDeployment // nil: there is none
	verdict target.Verdict
	inputs  string
	version deployment.Version
	id      string // deployment id that it should have; empty: it cannot be worked out
	held    string
	broken  string
	coming  bool
	paused  bool
	step    rollout.Step
	view    summary.Deployment
}

// A recount is the naive recomputation.
type recount struct {
	*snapshot
	hold  string // why nothing new may be written
	plans []*plan
	notes []string // what a person may want to know where the two sides disagree
}

func newRecount(s *snapshot) *recount {
	r := &recount{snapshot: s}
	if s.brake != nil {
		if brake := view.ParseGlobalPause(s.brake.Data); brake.On {
			brake.Since = nil
			r.hold = brake.Text(time.Time{})
		}
	}
	for _, b := range s.bundles {
		r.plans = append(r.plans, r.plan(b))
	}
	return r
}

// ownersOf are the Bundle and the Cluster that a deployment belongs to, by its
// labels. If another client has removed them, its name and its namespace decide.
func (r *recount) ownersOf(bd *fleet.BundleDeployment) (b, c kube.Key) {
	b, _ = fleetstate.BundleOf(bd)
	c, _ = fleetstate.ClusterOf(bd)
	for _, cluster := range r.clusters {
		if ns, ok := registration.DeploymentNamespace(cluster); ok && ns == bd.Namespace {
			b, c = kube.Key{Namespace: cluster.Namespace, Name: bd.Name}, kube.KeyOf(cluster)
		}
	}
	return b, c
}

// deploymentsOf are the deployments of a Bundle, by Cluster.
func (r *recount) deploymentsOf(b *fleet.Bundle) []*fleet.BundleDeployment {
	var out []*fleet.BundleDeployment
	for _, bd := range r.deployments {
		if bundle, _ := r.ownersOf(bd); bundle == kube.KeyOf(b) {
			out = append(out, bd)
		}
	}
	slices.SortFunc(out, func(a, b *fleet.BundleDeployment) int {
		_, x := r.ownersOf(a)
		_, y := r.ownersOf(b)
		return fleetstate.CompareKeys(x, y)
	})
	return out
}

func (r *recount) deploymentOn(b *fleet.Bundle, cluster kube.Key) *fleet.BundleDeployment {
	for _, bd := range r.deploymentsOf(b) {
		if _, c := r.ownersOf(bd); c == cluster {
			return bd
		}
	}
	return nil
}

// placeOf is a Cluster as deployments see it.
func (r *recount) placeOf(c *fleet.Cluster) *deployment.Place {
	groups, _ := target.CompileGroups(r.groups)
	namespace, _ := registration.DeploymentNamespace(c)
	return deployment.NewPlace(c, groups, namespace)
}

// lifeOf is the state of a cluster's agent: no agent misses a check-in during a
// test, so an agent that has reported once is online.
func lifeOf(c *fleet.Cluster) summary.AgentLiveness {
	if fleetstate.ReadHeartbeat(c).Time.IsZero() {
		return summary.NeverSeen
	}
	return summary.Online
}

func (r *recount) cluster(key kube.Key) *fleet.Cluster {
	for _, c := range r.clusters {
		if kube.KeyOf(c) == key {
			return c
		}
	}
	return nil
}

// plan works out a Bundle.
func (r *recount) plan(b *fleet.Bundle) *plan {
	p := &plan{bundle: b, complete: true, digest: content.Sum(content.Manifest{Resources: b.Spec.Resources})}
	if b.DeletionTimestamp != nil {
		p.digest = b.Status.ResourcesSHA256Sum
		p.problem = &summary.Problem{Reason: "Deleting", Message: "the Bundle is being deleted"}
		return p
	}
	if text := support.BlockReason(&b.Spec); text != "" {
		r.holdAll(p, &summary.Problem{Reason: fleet.ReasonNotImplemented, Message: text})
		return p
	}
	var values map[string][]byte
	if s := r.secrets[kube.KeyOf(b)]; s != nil && s.Type == fleet.SecretTypeBundleValues {
		values = s.Data
	}
	var err error
	if p.compiled, err = deployment.Compile(b, content.IDOf(p.digest), values); err != nil {
		p.complete = !reconcile.IsRequeue(err)
		r.holdAll(p, problemOf(err))
		return p
	}
	refusal := r.match(p)
	if len(p.pairs) == 0 {
		p.problem = &summary.Problem{Reason: fleet.ReasonNoTargets, Message: refusal}
		return p
	}
	r.roll(p)
	return p
}

func problemOf(err error) *summary.Problem {
	return &summary.Problem{Reason: reconcile.ReasonOf(err), Message: err.Error()}
}

// holdAll leaves a Bundle as it is.
func (r *recount) holdAll(p *plan, problem *summary.Problem) {
	p.problem, p.pairs, p.leaving, p.why, p.shape = problem, nil, nil, "", rollout.Shape{}
	for _, bd := range r.deploymentsOf(p.bundle) {
		if bd.Annotations[fleet.AnnotationWithdrawn] == "" {
			_, cluster := r.ownersOf(bd)
			x := &pair{cluster: cluster, bd: bd}
			x.look(p.bundle)
			p.pairs = append(p.pairs, x)
		}
	}
}

// match finds the clusters that get the Bundle, and those that do not get it
// any more; the text says why there is none.
func (r *recount) match(p *plan) string {
	var refused []string
	for _, c := range r.clusters {
		if c.DeletionTimestamp != nil {
			continue
		}
		x := &pair{cluster: kube.KeyOf(c), place: r.placeOf(c), bd: r.deploymentOn(p.bundle, kube.KeyOf(c))}
		x.verdict = p.compiled.Match(&x.place.Cluster)
		switch {
		case x.verdict.Deploy:
			if x.place.Namespace == "" {
				x.held, x.coming = "the cluster has no namespace for deployments yet", true
			}
			p.pairs = append(p.pairs, x)
			continue
		case x.bd != nil:
			if len(p.leaving) == 0 {
				p.why = x.verdict.Reason
			}
			p.leaving = append(p.leaving, x)
		}
		refused = append(refused, x.verdict.Reason)
	}
	return target.Refusal(p.bundle.Namespace, len(refused), append(refused, "")[0])
}

// roll works out the versions and plays one round of the rollout. At a quiet
// point that round has nothing left to do: each target that may move has moved.
func (r *recount) roll(p *plan) {
	targets := make([]rollout.Target, len(p.pairs))
	clusters := make([]*target.Cluster, len(p.pairs))
	for i, x := range p.pairs {
		x.workOut(p.compiled)
		targets[i], clusters[i] = x.target(), &x.place.Cluster
	}
	shape, err := rollout.Resolve(p.bundle.Spec.RolloutStrategy, clusters)
	if err != nil {
		r.holdAll(p, problemOf(err))
		return
	}
	p.shape = shape
	steps := rollout.Plan(shape, targets).Steps
	for i, x := range p.pairs {
		x.step = steps[i]
		r.settle(p, x)
		x.look(p.bundle)
	}
}

// workOut finds the version of a pair, without looking at what it is now.
func (pr *pair) workOut(k *deployment.Compiled) {
	pr.paused = deployment.Paused(k, pr.place)
	if pr.held != "" {
		return
	}
	var err error
	if pr.inputs, err = k.Inputs(pr.verdict, pr.place); err == nil {
		pr.version, err = k.Render(pr.verdict, pr.place)
	}
	if err != nil {
		pr.broken = "targeting error: " + text(err)
		return
	}
	pr.id = pr.version.ID
}

func text(err error) string {
	var p *reconcile.Terminal
	if errors.As(err, &p) {
		return p.Error()
	}
	return err.Error()
}

// target is a pair as the rollout sees it.
func (pr *pair) target() rollout.Target {
	t := rollout.TargetOf(pr.cluster.String(), pr.bd)
	t.Desired, t.Paused = pr.id, pr.paused
	return t
}

// settle says what holds a pair back.
func (r *recount) settle(p *plan, x *pair) {
	if x.held != "" || x.broken != "" {
		x.step = rollout.Step{Reason: x.held}
		return
	}
	if r.hold != "" {
		if why := x.unmet(p, r.snapshot); why != "" {
			r.notes = append(r.notes, fmt.Sprintf("held back by the brake: bundle %s on %s: %s", p.bundle.Name, x.cluster.Name, why))
			x.step, x.coming = rollout.Step{Reason: r.hold}, x.bd == nil
		}
	}
	if !x.step.Move {
		x.held = x.step.Reason
		x.coming = x.coming || x.bd == nil && x.step.Waits
	}
}

// look sees a pair as summaries do.
func (pr *pair) look(b *fleet.Bundle) {
	pr.view = summary.Deployment{Bundle: b.Name, Cluster: pr.cluster.String()}
	if name := b.Labels[fleet.LabelRepoName]; name != "" {
		pr.view.Repo = b.Namespace + "/" + name
	}
	if pr.bd == nil {
		pr.view = summary.Pending(pr.view, pr.held)
	} else {
		pr.view = summary.Observe(pr.view, pr.bd, pr.id, pr.held)
	}
	if pr.broken != "" {
		pr.view = summary.Uncomputable(pr.view, pr.broken)
	}
}

// blocker names a Bundle of the same repository that has to be written to a
// cluster before this one may leave it.
func (r *recount) blocker(b *fleet.Bundle, cluster kube.Key) string {
	repo := b.Labels[fleet.LabelRepoName]
	if repo == "" {
		return ""
	}
	for _, other := range r.plans {
		o := other.bundle
		if o.Name == b.Name || o.Labels[fleet.LabelRepoName] != repo || o.DeletionTimestamp != nil {
			continue
		}
		if !other.complete {
			return fmt.Sprintf("bundle %q of the same repository comes first", o.Name)
		}
		for _, x := range other.pairs {
			if x.cluster == cluster && x.bd == nil && x.coming {
				return fmt.Sprintf("bundle %q of the same repository comes first", o.Name)
			}
		}
	}
	return ""
}
