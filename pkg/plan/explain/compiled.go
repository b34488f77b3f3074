package explain

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/placement"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/target"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A compiledSubject is a Subject, compiled.
type compiledSubject struct {
	Subject
	matcher  *target.Matcher          // nil with fault
	fault    error                    // why the targets cannot be read
	compiled *deployment.Compiled     // nil where values are missing, or with fault
	content  string                   // id of the resources
	groups   map[string]target.Groups // by namespace
	reach    target.MappedNamespaces
	limits   policy.Namespaces
	problem  *fleet.Condition // why the Bundle as a whole cannot be Ready
}

func newStudy(s Subject) *compiledSubject {
	b := s.Bundle
	out := &compiledSubject{
		Subject: s, content: preview.ContentID(b), problem: view.ReadyProblem(b), groups: map[string]target.Groups{},
		reach:  target.CompileMappings(s.Mappings).ReachOf(b.Namespace, b.Labels, s.Spaces),
		limits: policy.Of(s.Restrictions, s.Policies),
	}
	spaces := map[string][]*fleet.ClusterGroup{}
	for _, g := range s.Groups {
		spaces[g.Namespace] = append(spaces[g.Namespace], g)
	}
	for namespace, list := range spaces {
		out.groups[namespace], _ = target.CompileGroups(list)
	}
	if out.matcher, out.fault = target.Compile(&s.Bundle.Spec); out.fault == nil {
		if compiled, err := deployment.CompileWithin(s.Bundle, out.content, s.Values, out.limits); err == nil {
			out.compiled = compiled
		}
	}
	return out
}

// isForbidden reports whether a resource could not be read.
func (s *compiledSubject) isForbidden(resource string) bool {
	for _, h := range s.Hidden {
		if h.Resource == resource {
			return true
		}
	}
	return false
}

// A pair is the Bundle on one cluster.
type bundleOnCluster struct {
	*compiledSubject
	deploymentPlace Place
	place           *deployment.Place // nil: nothing is known of the cluster
	verdict         target.Verdict
	wanted          string // deployment id that it should have; empty: not known
	broken          error  // why that cannot be worked out for this cluster
	// behind reports that the newest version is not the one that the agent has to
	// deploy.
	outdated    bool
	offline     bool
	agentSilent bool // as far as objects say: it has left a promotion unanswered
	state       fleet.BundleState
	reported    *fleet.NonReadyResource // what the Bundle's status says of the cluster
	step        *rollout.Step           // what a plan of the whole Bundle says, if there is one
}

func (s *compiledSubject) newPair(at Place) *bundleOnCluster {
	p := &bundleOnCluster{compiledSubject: s, deploymentPlace: at, verdict: target.Verdict{Target: -1}, reported: view.SummaryEntry(&s.Bundle.Status.Summary, at.Key)}
	for i := range s.Bundle.Status.PartitionStatus {
		if p.reported == nil {
			p.reported = view.SummaryEntry(&s.Bundle.Status.PartitionStatus[i].Summary, at.Key)
		}
	}
	if c := at.Cluster; c != nil {
		p.offline = view.ClusterState(c) == fleet.Offline
		namespace, _ := registration.DeploymentNamespace(c)
		p.place = deployment.NewPlace(c, s.groups[c.Namespace], namespace)
		p.verdict = s.matchCluster(&p.place.Cluster)
	}
	p.findVersion()
	p.agentSilent = rollout.Unanswered(at.Deployment) && !at.Written.IsZero() && s.Now.Sub(at.Written) > rollout.SilentAfter &&
		p.lastSeen().Before(at.Written)
	p.state = p.stateOf()
	return p
}

// matchCluster decides whether the Bundle is meant for a cluster. A cluster of another namespace
// is reachable only by a mapping.
func (s *compiledSubject) matchCluster(c *target.Cluster) target.Verdict {
	if s.matcher == nil {
		return target.Verdict{Target: -1}
	}
	if led, why := s.reach.Includes(c.Namespace); !led {
		return target.Verdict{Target: -1, Reason: why}
	}
	return s.matcher.Match(c)
}

// findVersion finds the version that the pair should have, and whether it is the
// current one.
func (b *bundleOnCluster) findVersion() {
	bd := b.deploymentPlace.Deployment
	if b.compiled != nil && b.place != nil && b.verdict.Deploy {
		b.wanted, b.broken = b.version()
	}
	if b.limitsHidden() && bd != nil && bd.Spec.StagedDeploymentID != b.wanted {
		b.wanted = "" // limits may change it
	}
	switch {
	case bd == nil:
		b.outdated = !b.isForbidden(Deployments) || b.reported != nil && (b.reported.State == fleet.OutOfSync || b.reported.State == fleet.Pending)
	case b.wanted != "":
		b.outdated = bd.Spec.DeploymentID != b.wanted
	default: // values may not be read: compare the content and the staged id
		id, _, whole := strings.Cut(bd.Spec.StagedDeploymentID, ":")
		b.outdated = bd.Spec.StagedDeploymentID != bd.Spec.DeploymentID || whole && id != b.content
	}
}

// candidate is the pair as package placement sees it.
func (b *bundleOnCluster) candidate() placement.Candidate {
	return placement.Candidate{
		Name: b.deploymentPlace.Key.String(), Place: b.place, Verdict: b.verdict, Deployment: b.deploymentPlace.Deployment, Offline: b.offline, Silent: b.agentSilent,
	}
}

func (b *bundleOnCluster) version() (string, error) {
	if b.refusal() != nil { // the deployment stays as it is
		return "", nil
	}
	n, err := placement.Version(b.compiled, b.candidate(), placement.Rules{})
	return n.ID, err
}

// stateOf is the state of the pair as summaries count it.
func (b *bundleOnCluster) stateOf() fleet.BundleState {
	switch sum := &b.Bundle.Status.Summary; {
	case b.broken != nil:
		return fleet.ErrApplied
	case b.deploymentPlace.Deployment != nil:
		state := summary.State(b.deploymentPlace.Deployment, b.wanted)
		if b.outdated && (state == fleet.Ready || state == fleet.Modified) {
			return fleet.OutOfSync
		}
		return state
	case b.reported != nil:
		return b.reported.State
	case b.isForbidden(Deployments) && sum.Ready == sum.DesiredReady && sum.Ready > 0 && b.observed() && b.isTargeted():
		return fleet.Ready
	case b.isForbidden(Deployments):
		return ""
	}
	return fleet.Pending
}

// isTargeted reports whether it is known that the Bundle is meant for the cluster: then
// what its status says of all its clusters holds for this one.
func (b *bundleOnCluster) isTargeted() bool {
	return b.place != nil && b.verdict.Deploy && (!b.isForbidden(Groups) || !b.matcher.ReadsGroups())
}

// isHidden reports whether the deployment may not be seen and the Bundle's status says
// nothing of it.
func (b *bundleOnCluster) isHidden() bool {
	return b.deploymentPlace.Deployment == nil && b.reported == nil && b.isForbidden(Deployments) && b.state != fleet.Ready
}

// observed reports whether the manager has worked on this version of the Bundle.
func (s *compiledSubject) observed() bool {
	return s.Bundle.Status.ObservedGeneration >= s.Bundle.Generation && len(s.Bundle.Status.Conditions) > 0
}

func (b *bundleOnCluster) lastSeen() time.Time {
	if b.deploymentPlace.Cluster == nil {
		return time.Time{}
	}
	return b.deploymentPlace.Cluster.Status.Agent.LastSeen.Time
}

func keyOf(o metav1.Object) view.Key {
	return view.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// reasonOf is a condition's reason, or the reason of a fault.
func reasonOf(err error) string { return cmp.Or(reconcile.ReasonOf(err), fleet.ReasonError) }
