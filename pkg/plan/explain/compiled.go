package explain

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/placement"
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
	problem  *fleet.Condition // why the Bundle as a whole cannot be Ready
}

func newStudy(s Subject) *compiledSubject {
	b := s.Bundle
	out := &compiledSubject{
		Subject: s, content: preview.ContentID(b), problem: view.ReadyProblem(b), groups: map[string]target.Groups{},
		reach: target.CompileMappings(s.Mappings).ReachOf(b.Namespace, b.Labels, s.Spaces),
	}
	spaces := map[string][]*fleet.ClusterGroup{}
	for _, g := range s.Groups {
		spaces[g.Namespace] = append(spaces[g.Namespace], g)
	}
	for namespace, list := range spaces {
		out.groups[namespace], _ = target.CompileGroups(list)
	}
	if out.matcher, out.fault = target.Compile(&s.Bundle.Spec); out.fault == nil {
		if compiled, err := deployment.Compile(s.Bundle, out.content, s.Values); err == nil {
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
func (p *bundleOnCluster) findVersion() {
	bd := p.deploymentPlace.Deployment
	if p.compiled != nil && p.place != nil && p.verdict.Deploy {
		p.wanted, p.broken = p.version()
	}
	switch {
	case bd == nil:
		p.outdated = !p.isForbidden(Deployments) || p.reported != nil && (p.reported.State == fleet.OutOfSync || p.reported.State == fleet.Pending)
	case p.wanted != "":
		p.outdated = bd.Spec.DeploymentID != p.wanted
	default: // values may not be read: compare the content and the staged id
		id, _, whole := strings.Cut(bd.Spec.StagedDeploymentID, ":")
		p.outdated = bd.Spec.StagedDeploymentID != bd.Spec.DeploymentID || whole && id != p.content
	}
}

// candidate is the pair as package placement sees it.
func (p *bundleOnCluster) candidate() placement.Candidate {
	return placement.Candidate{
		Name: p.deploymentPlace.Key.String(), Place: p.place, Verdict: p.verdict, Deployment: p.deploymentPlace.Deployment, Offline: p.offline, Silent: p.agentSilent,
	}
}

func (p *bundleOnCluster) version() (string, error) {
	n, err := placement.Version(p.compiled, p.candidate(), placement.Rules{})
	return n.ID, err
}

// stateOf is the state of the pair as summaries count it.
func (p *bundleOnCluster) stateOf() fleet.BundleState {
	switch sum := &p.Bundle.Status.Summary; {
	case p.broken != nil:
		return fleet.ErrApplied
	case p.deploymentPlace.Deployment != nil:
		state := summary.State(p.deploymentPlace.Deployment, p.wanted)
		if p.outdated && (state == fleet.Ready || state == fleet.Modified) {
			return fleet.OutOfSync
		}
		return state
	case p.reported != nil:
		return p.reported.State
	case p.isForbidden(Deployments) && sum.Ready == sum.DesiredReady && sum.Ready > 0 && p.observed() && p.isTargeted():
		return fleet.Ready
	case p.isForbidden(Deployments):
		return ""
	}
	return fleet.Pending
}

// isTargeted reports whether it is known that the Bundle is meant for the cluster: then
// what its status says of all its clusters holds for this one.
func (p *bundleOnCluster) isTargeted() bool {
	return p.place != nil && p.verdict.Deploy && (!p.isForbidden(Groups) || !p.matcher.ReadsGroups())
}

// isHidden reports whether the deployment may not be seen and the Bundle's status says
// nothing of it.
func (p *bundleOnCluster) isHidden() bool {
	return p.deploymentPlace.Deployment == nil && p.reported == nil && p.isForbidden(Deployments) && p.state != fleet.Ready
}

// observed reports whether the manager has worked on this version of the Bundle.
func (s *compiledSubject) observed() bool {
	return s.Bundle.Status.ObservedGeneration >= s.Bundle.Generation && len(s.Bundle.Status.Conditions) > 0
}

func (p *bundleOnCluster) lastSeen() time.Time {
	if p.deploymentPlace.Cluster == nil {
		return time.Time{}
	}
	return p.deploymentPlace.Cluster.Status.Agent.LastSeen.Time
}

func keyOf(o metav1.Object) view.Key {
	return view.Key{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// reasonOf is a condition's reason, or the reason of a fault.
func reasonOf(err error) string { return cmp.Or(reconcile.ReasonOf(err), fleet.ReasonError) }
