package monitor

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
)

// maxEvents is how many events a snapshot has.
const maxEvents = 20

// maxText is how many bytes of a message a snapshot has.
const maxText = 1024

// maxLabels is how many labels of an object a snapshot has.
const maxLabels = 100

func timeText(t *metav1.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := t.UTC().Format(time.RFC3339)
	return &text
}

// shown returns a message without credentials, of at most maxText bytes.
func shown(text string) string {
	text = redact.Credentials(text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

func objectOf(o metav1.Object) Object { return Object{Namespace: o.GetNamespace(), Name: o.GetName()} }

func removalOf(o metav1.Object) Removal {
	return Removal{DeletionTimestamp: timeText(o.GetDeletionTimestamp()), Finalizers: o.GetFinalizers()}
}

func readinessOf(list []fleet.Condition) Readiness {
	c := condition.Find(list, fleet.ConditionReady)
	if c == nil {
		return Readiness{}
	}
	return Readiness{Ready: c.Status == corev1.ConditionTrue, ReadyMessage: shown(c.Message)}
}

// errorOf returns the message of the condition that says why an object failed.
func errorOf(list []fleet.Condition, conditionType string) string {
	if c := condition.Find(list, conditionType); c != nil && c.Status == corev1.ConditionFalse {
		return shown(c.Message)
	}
	return ""
}

func labelsOf(o metav1.Object) map[string]string {
	if l := o.GetLabels(); len(l) <= maxLabels {
		return l
	}
	return nil
}

func newGitRepo(r *fleet.GitRepo) GitRepo {
	out := GitRepo{
		Object: objectOf(r), Readiness: readinessOf(r.Status.Conditions), Generation: r.Generation, ObservedGeneration: r.Status.ObservedGeneration,
		Commit: r.Status.Commit, PollingCommit: r.Status.PollingCommit, WebhookCommit: r.Status.WebhookCommit, ForceSyncGeneration: r.Spec.ForceSyncGeneration,
	}
	if t := r.Status.LastPollingTime; !t.IsZero() {
		at := t.UTC()
		out.LastPollingTime = &at
	}
	if i := r.Spec.PollingInterval; i != nil {
		out.PollingInterval = i.Duration
	}
	return out
}

func newBundle(b BundleObject) Bundle {
	out := Bundle{
		Object: objectOf(b), Removal: removalOf(b), Readiness: readinessOf(b.Status.Conditions), UID: string(b.UID), Generation: b.Generation,
		ObservedGeneration: b.Status.ObservedGeneration, Commit: b.Labels[fleet.LabelCommit], RepoName: b.Labels[fleet.LabelRepoName], Labels: labelsOf(b),
		ForceSyncGeneration: b.Spec.ForceSyncGeneration, ResourcesSHA256Sum: b.Status.ResourcesSHA256Sum,
		ErrorMessage: errorOf(b.Status.Conditions, fleet.ConditionAccepted),
	}
	if b.Bytes > 0 {
		out.SizeBytes = &b.Bytes
	}
	return out
}

func newDeployment(bd *fleet.BundleDeployment) Deployment {
	bundle := bundleOf(bd)
	return Deployment{
		Object: objectOf(bd), Removal: removalOf(bd), Readiness: readinessOf(bd.Status.Conditions), UID: string(bd.UID), Generation: bd.Generation,
		Commit: bd.Labels[fleet.LabelCommit], Labels: labelsOf(bd), BundleName: bundle.Name, BundleNamespace: bundle.Namespace,
		ErrorMessage: errorOf(bd.Status.Conditions, fleet.ConditionDeployed),
		DeploymentVersions: DeploymentVersions{
			ForceSyncGeneration: bd.Spec.Options.ForceSyncGeneration, SyncGeneration: bd.Status.SyncGeneration, DeploymentID: bd.Spec.DeploymentID,
			StagedDeploymentID: bd.Spec.StagedDeploymentID, AppliedDeploymentID: bd.Status.AppliedDeploymentID,
		},
	}
}

func newCluster(c ClusterObject, now time.Time) Cluster {
	out := Cluster{
		Object: objectOf(c), Readiness: readinessOf(c.Status.Conditions), AgentNamespace: c.Status.Agent.Namespace,
		BundleDeployments: c.Status.Summary.DesiredReady, ReadyBundleDeployments: c.Status.Summary.Ready,
	}
	if !c.LastSeen.IsZero() {
		out.AgentLastSeen = timeText(&metav1.Time{Time: c.LastSeen})
		out.AgentLastSeenAge = now.Sub(c.LastSeen).Round(time.Second).String()
	}
	return out
}

func newGroup(g *fleet.ClusterGroup) ClusterGroup {
	out := ClusterGroup{Object: objectOf(g), ClusterCount: g.Status.ClusterCount}
	if g.Spec.Selector != nil {
		out.Selector = metav1.FormatLabelSelector(g.Spec.Selector)
	}
	return out
}

func newSecret(s SecretObject) Secret {
	out := Secret{Object: objectOf(&s), Removal: removalOf(&s), Type: s.Type, Commit: s.Labels[fleet.LabelCommit]}
	if o := ownerOf(s); o != nil {
		out.OwnerKind, out.OwnerName, out.OwnerUID = o.Kind, o.Name, string(o.UID)
	}
	return out
}

// ownerOf returns the owner reference of a Secret to a Bundle or BundleDeployment; nil if it has none.
func ownerOf(s SecretObject) *metav1.OwnerReference {
	for i, o := range s.OwnerReferences {
		if o.Kind == "Bundle" || o.Kind == "BundleDeployment" {
			return &s.OwnerReferences[i]
		}
	}
	return nil
}

// processes are the names of the manager's Deployments, which are in label app of their pods.
var processes = []string{"fleet-controller", "gitjob", "helmops"}

func newProcesses(pods []*corev1.Pod) []Process {
	var out []Process
	for _, p := range pods {
		if !slices.ContainsFunc(processes, func(name string) bool { return strings.HasPrefix(p.Labels["app"], name) }) {
			continue
		}
		one := Process{Name: p.Name, Status: string(p.Status.Phase)}
		if t := timeText(p.Status.StartTime); t != nil {
			one.StartTime = *t
		}
		for _, c := range p.Status.ContainerStatuses {
			one.Restarts += c.RestartCount
			if c.State.Waiting != nil {
				one.Status = c.State.Waiting.Reason
			}
		}
		out = append(out, one)
	}
	return out
}

// eventTime returns when an event last happened.
func eventTime(e *corev1.Event) time.Time {
	if s := e.Series; s != nil && !s.LastObservedTime.IsZero() {
		return s.LastObservedTime.Time
	}
	for _, t := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return e.CreationTimestamp.Time
}

// NewestEvents returns the events that a snapshot has, newest first.
func NewestEvents(list []*corev1.Event) []*corev1.Event {
	slices.SortStableFunc(list, func(a, b *corev1.Event) int {
		return cmp.Or(eventTime(b).Compare(eventTime(a)), strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name))
	})
	return list[:min(len(list), maxEvents)]
}

func newEvents(list []*corev1.Event) []Event {
	var out []Event
	for _, e := range NewestEvents(slices.Clone(list)) {
		one := Event{
			Namespace: e.Namespace, Type: e.Type, Reason: e.Reason, Message: shown(e.Message),
			InvolvedKind: e.InvolvedObject.Kind, InvolvedName: e.InvolvedObject.Name, Count: max(e.Count, 1),
		}
		if e.Series != nil {
			one.Count = max(one.Count, e.Series.Count)
		}
		if t := timeText(&metav1.Time{Time: eventTime(e)}); t != nil {
			one.LastTimestamp = *t
		}
		out = append(out, one)
	}
	return out
}
