// Package explain says why a Bundle is not Ready on a cluster, or that it is: it looks
// at the ten links from the source to healthy objects and names the first that stops
// it, since when, and what helps.
//
// It reads objects as the manager and the agents write them, asks packages target,
// deployment, rollout and view as the manager does, and repeats the texts of
// conditions. If an object could not be read, the links that depend on it are unknown;
// explain still reports the others.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A Name names a link.
type Name string

// The links, in the order in which they follow each other.
const (
	Source    Name = "source"    // the repository is read
	Bundle    Name = "bundle"    // it became a Bundle that the manager can work on
	Target    Name = "target"    // the Bundle is meant for the cluster
	Policy    Name = "policy"    // nothing forbids it
	Pause     Name = "pause"     // no pause holds it back
	Rollout   Name = "rollout"   // limits and partitions let it through
	Depends   Name = "depends"   // what it depends on is Ready there
	Delivered Name = "delivered" // the agent has it
	Applied   Name = "applied"   // the agent could deploy it
	Healthy   Name = "healthy"   // the objects are as they should be
)

// Names lists the links in order.
var Names = []Name{Source, Bundle, Target, Policy, Pause, Rollout, Depends, Delivered, Applied, Healthy}

// A Verdict is the state of a link.
type Verdict string

// The verdicts. Only Wait and Stop end a chain; Wait passes by itself.
const (
	OK      Verdict = "ok"
	Wait    Verdict = "wait"
	Stop    Verdict = "stop"
	Unknown Verdict = "unknown"
)

// Reasons that only this package gives; the others are those of conditions.
const (
	// ReasonNotTargeted: no target of the Bundle matches the cluster.
	ReasonNotTargeted = "NotTargeted"
	// ReasonDoNotDeploy: a target says doNotDeploy.
	ReasonDoNotDeploy = "DoNotDeploy"
	// ReasonNoPartition: the Bundle's rollout lists partitions, and the cluster
	// is in none of them: it never gets the Bundle.
	ReasonNoPartition = "NoPartition"
	// ReasonLeaving: the Bundle, the cluster or the repository is being removed, or
	// a person wants the cluster to be empty.
	ReasonLeaving = "BeingRemoved"
	// ReasonNotWritten: the manager has not written it yet.
	ReasonNotWritten = "NotWritten"
	// ReasonNotReported: the agent has not said anything about it yet.
	ReasonNotReported = "NotReported"
	// ReasonPaused: a user or a program has set spec.paused.
	ReasonPaused = "Paused"
)

// A Link is one link of a chain.
type Link struct {
	Name    Name
	Verdict Verdict
	// Reason is one CamelCase word; empty where the link is ok.
	Reason string
	// Since is when it began, if that is known.
	Since *time.Time
	// Text says it in one line, and Details in further ones. Screen is Text with
	// clock times and ages, for people; empty where it is the same.
	Text    string
	Screen  string
	Details []string
	// Evidence has the facts behind the text, for programs.
	Evidence map[string]any
}

// A Hint is one thing that helps. For is its purpose ("to deploy it there"), Do is a
// command or an edit.
type Hint struct{ For, Do string }

// A Hidden is a resource that the user may not read. Namespace is empty where it is hidden
// everywhere.
type Hidden struct{ Resource, Namespace string }

// String returns "<resource> in <namespace>".
func (h Hidden) String() string {
	if h.Namespace == "" {
		return h.Resource
	}
	return h.Resource + " in " + h.Namespace
}

// Names of resources, as in Hidden.
const (
	Repositories = "gitrepos"
	HelmOps      = "helmops"
	Clusters     = "clusters"
	Groups       = "clustergroups"
	Deployments  = "bundledeployments"
	ConfigMaps   = "configmaps"
	Secrets      = "secrets"
)

// A Subject is a Bundle and everything that its clusters share. Objects that are nil do not
// exist, or are Hidden.
type Subject struct {
	Bundle *fleet.Bundle
	Repo   *fleet.GitRepo
	HelmOp *fleet.HelmOp
	// Groups are those of the namespaces of the clusters, Mappings those of the
	// Bundle's namespace, and Spaces the labels of namespaces that these may lead
	// to, by name.
	Groups   []*fleet.ClusterGroup
	Mappings []*fleet.BundleNamespaceMapping
	// Clusters are the names of all clusters by namespace, where they are known.
	Clusters map[string][]string
	// Labels are those of all clusters by namespace, where they are known.
	Labels map[string][]map[string]string
	Spaces map[string]map[string]string
	// Elsewhere are namespaces that have clusters, where the Bundle's has none.
	Elsewhere []string
	// Findings are the manager's reports about files of the commit that the GitRepo shows,
	// without those that the condition Stalled names.
	Findings []string
	// Values is the data of the Secret with the Bundle's values, if it has any.
	Values map[string][]byte
	// Restrictions and Policies are those of the namespaces of Bundle and cluster.
	Restrictions []*fleet.GitRepoRestriction
	Policies     []*fleet.Policy

	Brake   view.GlobalPause
	Manager view.Manager // of the Bundle's shard
	Hidden  []Hidden
	Now     time.Time
}

// A Place is one cluster, and the Bundle's deployment there, if there is one.
type Place struct {
	Key        view.Key
	Cluster    *fleet.Cluster // nil only where it is Hidden
	Deployment *fleet.BundleDeployment
	// Written is when the manager wrote the deployment last, if that is known.
	Written time.Time
}

// An Explanation is the answer about one cluster.
type Explanation struct {
	Bundle, Cluster view.Key
	// State of the deployment; empty where it is not known, or there is none and
	// there should be none.
	State fleet.BundleState
	// StoppedAt is the first link that stops it or waits, empty where none does.
	// Reason, Since and Message are of that link; Message is what the status of
	// objects says of it. Where nothing stops, Since is since when it is Ready.
	StoppedAt Name
	Reason    string
	Since     *time.Time
	Message   string
	Hints     []Hint
	// Chain holds all links, in order. Those after the first that stops are
	// unknown, and the last of them says what runs meanwhile.
	Chain []Link
	// Paused says what is paused, by whom and why, where that holds back nothing yet.
	Paused string
	// Warnings are about files of the Bundle that can be used, and about values that
	// stay templates.
	Warnings []string
	// Hidden lists the objects that could not be read.
	Hidden []Hidden

	offline  bool
	lastSeen time.Time
	content  string // the Bundle is
	commit   string
	repo     string
	outdated bool
}

// Explain explains the state of a Bundle on one cluster. It does not change its arguments; the
// same arguments give the same answer.
func Explain(s Subject, at Place) Explanation {
	st := newStudy(s)
	return st.newPair(at).explain(Source)
}

// Ready reports whether nothing stops it, as far as is known, and the deployment
// is known to be Ready.
func (e *Explanation) Ready() bool { return e.StoppedAt == "" && e.State == fleet.Ready }

// Link returns one of the chain's links.
func (e *Explanation) Link(name Name) Link {
	return e.Chain[slices.Index(Names, name)]
}

// linkState is a link as it was judged, and what helps where it stops.
type linkState struct {
	Link
	message string // for conditions and one-line answers; empty: the text
	hints   []Hint
	paused  string // what is paused and holds back nothing
}

func ok(format string, args ...any) linkState {
	return linkState{Link: Link{Verdict: OK, Text: fmt.Sprintf(format, args...)}}
}

func wait(reason, text string) linkState {
	return linkState{Link: Link{Verdict: Wait, Reason: reason, Text: text}}
}

func stop(reason, text string) linkState {
	return linkState{Link: Link{Verdict: Stop, Reason: reason, Text: text}}
}

// hiddenLink returns a link about something that may not be read.
func (s *compiledSubject) hiddenLink(resource string) linkState {
	for _, h := range s.Hidden {
		if h.Resource == resource {
			return linkState{Link: Link{Verdict: Unknown, Reason: "Forbidden", Text: "not yours to see: " + h.String()}}
		}
	}
	return linkState{Link: Link{Verdict: Unknown}}
}

func (l linkState) withSince(t time.Time) linkState {
	if !t.IsZero() {
		t = t.UTC()
		l.Since = &t
	}
	return l
}

// withScreenText sets the text for people.
func (l linkState) withScreenText(screen string) linkState {
	l.Screen = screen
	return l
}

func (l linkState) reported(message string) linkState {
	l.message = message
	return l
}

func (l linkState) detail(lines ...string) linkState {
	l.Details = append(l.Details, lines...)
	return l
}

// withEvidence adds evidence; empty values are left out.
func (l linkState) withEvidence(key string, value any) linkState {
	switch v := value.(type) {
	case string:
		if v == "" {
			return l
		}
	case time.Time:
		if v.IsZero() {
			return l
		}
		value = v.UTC().Format(time.RFC3339)
	}
	if l.Evidence == nil {
		l.Evidence = map[string]any{}
	}
	l.Evidence[key] = value
	return l
}

func (l linkState) hint(purpose, do string, args ...any) linkState {
	l.hints = append(l.hints, Hint{For: purpose, Do: fmt.Sprintf(do, args...)})
	return l
}

// stops reports whether the chain ends here.
func (l linkState) stops() bool { return l.Verdict == Stop || l.Verdict == Wait }

// explain goes through the links. Those in front of from are not looked at.
func (b *bundleOnCluster) explain(from Name) Explanation {
	e := Explanation{
		Bundle: keyOf(b.Bundle), Cluster: b.deploymentPlace.Key, State: b.state, Hidden: b.Hidden,
		content: contentText(b.Bundle), commit: view.ShortCommit(b.Bundle.Labels[fleet.LabelCommit]), repo: b.Bundle.Labels[fleet.LabelRepoName],
		offline: b.offline, lastSeen: b.lastSeen(), outdated: b.outdated, Warnings: append(b.warnings(), unrendered(b)...),
	}
	for i, name := range Names {
		if i < slices.Index(Names, from) {
			e.Chain = append(e.Chain, Link{Name: name, Verdict: Unknown})
			continue
		}
		if e.StoppedAt != "" {
			l := Link{Verdict: Unknown}
			if name == Healthy {
				l = agentLinks{b}.describeRunning().Link
			}
			l.Name = name
			e.Chain = append(e.Chain, l)
			continue
		}
		j := b.linkFor(name)
		j.Name = name
		if j.stops() {
			e.StoppedAt, e.Reason, e.Since, e.Hints = name, j.Reason, j.Since, j.hints
			if e.Message = j.message; e.Message == "" {
				e.Message = j.Text
			}
		}
		e.Paused += j.paused
		e.Chain = append(e.Chain, j.Link)
	}
	switch {
	case e.StoppedAt == "" && b.deploymentPlace.Deployment != nil:
		if since := view.DeploymentSince(b.deploymentPlace.Deployment); !since.IsZero() {
			e.Since = &since
		}
	case e.StoppedAt == Target && !b.verdict.Deploy && b.deploymentPlace.Deployment == nil:
		e.State = ""
	}
	return e
}

// linkFor judges one link.
func (b *bundleOnCluster) linkFor(name Name) linkState {
	switch name {
	case Source:
		return b.sourceLink()
	case Bundle:
		return b.bundleLink()
	case Target:
		return targetLink{b}.targetingLink()
	case Policy:
		return holdLinks{b}.policyLink()
	case Pause:
		return holdLinks{b}.pauseLink()
	case Rollout:
		return holdLinks{b}.rolloutLink()
	case Depends:
		return deliveryLinks{b}.dependsLink()
	case Delivered:
		return deliveryLinks{b}.deliveredLink()
	case Applied:
		return agentLinks{b}.appliedLink()
	}
	return agentLinks{b}.healthyLink()
}

// oneLine is text without line breaks and doubled blanks.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
