package monitor

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
)

// A healthy fleet has no fault, whatever kinds of Bundles and clusters it has.
func TestHealthyFleet(t *testing.T) {
	s := Diagnose(*healthy(500))
	if faults := s.Faults(); len(faults) > 0 {
		t.Errorf("%+v", faults)
	}
	if diff := cmp.Diff(Diagnostics{}, *s.Diagnostics); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(s.Clusters) != 500 || len(s.BundleDeployments) != 4000 || len(s.Bundles) != 508 {
		t.Errorf("%d clusters, %d deployments, %d bundles", len(s.Clusters), len(s.BundleDeployments), len(s.Bundles))
	}
}

// A wrongFleet is a small fleet with a change, and the faults that it has.
type wrongFleet struct {
	why    string
	change func(*Input)
	want   []string // the keys of the faults
}

// Each diagnosis has a case in which it is made, and a neighbour in which it is not.
var wrongFleets = map[string]wrongFleet{
	"Well": {"nothing is wrong", func(*Input) {}, nil},

	"NotApplied": {"the agent has checked in since and applied nothing", func(in *Input) {
		in.Deployments[0].Spec.DeploymentID = "s-web:2"
	}, []string{"stuckBundleDeployments"}},
	"JustWritten": {"the agent gets some time", func(in *Input) {
		in.Deployments[0].Spec.DeploymentID = "s-web:2"
		in.Deployments[0].ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(ago(time.Minute))}}
	}, nil},
	"NotApplied/StatusIsNoChange": {"a write to the status does not move the time of the change", func(in *Input) {
		in.Deployments[0].Spec.DeploymentID = "s-web:2"
		in.Deployments[0].ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(ago(time.Minute)), Subresource: "status"}}
	}, []string{"stuckBundleDeployments"}},
	"NotApplied/Paused": {"a paused deployment is not applied", func(in *Input) {
		in.Deployments[0].Spec.DeploymentID, in.Deployments[0].Spec.Paused = "s-web:2", true
	}, nil},
	"NotApplied/Away": {"an agent that is away cannot apply", func(in *Input) {
		in.Deployments[0].Spec.DeploymentID = "s-web:2"
		in.Clusters[0].LastSeen = now.Add(-24 * time.Hour)
		in.Clusters[0].Spec.CheckIn = &fleet.ClusterCheckIn{Mode: heartbeat.ModePoll}
		in.Clusters[0].Status.Agent.LastSeen, in.Clusters[0].Status.Agent.NextCheckIn = ago(24*time.Hour), new(ago(-time.Hour))
	}, nil},
	"Staged": {"a version that a rollout holds back is not stuck", func(in *Input) { in.Deployments[0].Spec.StagedDeploymentID = "s-web:2" }, nil},
	"Deleting": {"a finalizer keeps it", func(in *Input) {
		in.Deployments[0].DeletionTimestamp, in.Deployments[0].Finalizers = new(ago(time.Hour)), []string{fleet.FinalizerBundleDeployment}
	}, []string{"stuckBundleDeployments"}},
	"Deleting/Just": {"a deletion takes a moment", func(in *Input) { in.Deployments[0].DeletionTimestamp = new(ago(time.Minute)) }, nil},
	"NotSynced": {"the forced sync is not done", func(in *Input) {
		in.Deployments[0].Spec.Options.ForceSyncGeneration = 2
	}, []string{"stuckBundleDeployments", "bundleDeploymentsWithSyncGenerationMismatch"}},
	"Synced": {"the forced sync is done", func(in *Input) {
		in.Deployments[0].Spec.Options.ForceSyncGeneration, in.Deployments[0].Status.SyncGeneration = 2, new(int64(2))
	}, nil},
	"NoBundle": {"the Bundle is gone", func(in *Input) {
		in.Bundles, in.GitRepos, in.Secrets, in.Deployments[0].Spec.ValuesHash = nil, nil, nil, ""
	}, []string{"bundleDeploymentsWithMissingBundle"}},
	"NoBundle/Kept": {"a user keeps what was deployed", func(in *Input) {
		in.Bundles, in.GitRepos, in.Secrets, in.Deployments[0].Spec.ValuesHash = nil, nil, nil, ""
		in.Deployments[0].Annotations[fleet.AnnotationKept] = "true"
	}, nil},
	"NoBundle/NotRead": {"it is not known which Bundles there are", func(in *Input) {
		in.Bundles, in.GitRepos, in.Secrets, in.Deployments[0].Spec.ValuesHash = nil, nil, nil, ""
		delete(in.Reach, Bundles)
	}, nil},

	"NeverSeen": {"the agent has not come", func(in *Input) { in.Clusters[0].LastSeen = time.Time{} }, []string{"clustersWithAgentIssues"}},
	"NeverSeen/New": {"a new cluster gets some time", func(in *Input) {
		in.Clusters[0].LastSeen, in.Clusters[0].CreationTimestamp = time.Time{}, ago(time.Minute)
	}, nil},
	"Unseen":         {"the agent is away for two days", func(in *Input) { in.Clusters[0].LastSeen = now.Add(-48 * time.Hour) }, []string{"clustersWithAgentIssues"}},
	"Unseen/Shortly": {"the agent is away for an hour, and the manager has not set the state", func(in *Input) { in.Clusters[0].LastSeen = now.Add(-time.Hour) }, nil},
	"Unseen/Late": {"it has not come when it had said", func(in *Input) {
		in.Clusters[0].LastSeen = now.Add(-48 * time.Hour)
		in.Clusters[0].Spec.CheckIn = &fleet.ClusterCheckIn{Mode: heartbeat.ModePoll}
		in.Clusters[0].Status.Agent.LastSeen, in.Clusters[0].Status.Agent.NextCheckIn = ago(48*time.Hour), new(ago(time.Hour))
	}, []string{"clustersWithAgentIssues"}},
	"ClusterNotReady": {"an object is not ready", func(in *Input) {
		in.Clusters[0].Status.Conditions = []fleet.Condition{ready(corev1.ConditionFalse, "NotReady(1)", time.Hour)}
		in.Clusters[0].Status.Display.State = string(fleet.NotReady)
	}, []string{"clustersWithAgentIssues"}},
	"ClusterNotReady/Just": {"an object gets some time", func(in *Input) {
		in.Clusters[0].Status.Conditions = []fleet.Condition{ready(corev1.ConditionFalse, "NotReady(1)", time.Minute)}
		in.Clusters[0].Status.Display.State = string(fleet.NotReady)
	}, nil},
	"Group":     {"its selector matches nothing", func(in *Input) { in.Groups[0].Status.ClusterCount = 0 }, []string{"clusterGroupsWithNoClusters"}},
	"Group/New": {"it was made now", func(in *Input) { in.Groups[0].Status.ClusterCount, in.Groups[0].CreationTimestamp = 0, ago(0) }, nil},

	"CommitNotRead": {"polling found a commit an hour ago", func(in *Input) {
		in.GitRepos[0].Status.PollingCommit, in.GitRepos[0].Status.LastPollingTime = oldCommit, ago(time.Hour)
	}, []string{"gitReposWithCommitMismatch"}},
	"CommitNotRead/Just": {"polling has found it now", func(in *Input) {
		in.GitRepos[0].Status.PollingCommit, in.GitRepos[0].Status.LastPollingTime = oldCommit, ago(time.Minute)
	}, nil},
	"CommitNotRead/Suspended": {"a suspended fleet reads no commits", func(in *Input) {
		in.GitRepos[0].Status.PollingCommit, in.GitRepos[0].Status.LastPollingTime, in.Suspended = oldCommit, ago(time.Hour), true
	}, nil},
	"CommitNotRead/Webhook": {"a webhook announced it after the last poll", func(in *Input) {
		in.GitRepos[0].Status.WebhookCommit, in.GitRepos[0].Status.LastWebhookTime = oldCommit, ago(time.Hour)
	}, []string{"gitReposWithCommitMismatch"}},
	"CommitNotRead/OldWebhook": {"polling has found a newer one since", func(in *Input) {
		in.GitRepos[0].Status.WebhookCommit, in.GitRepos[0].Status.LastWebhookTime = oldCommit, ago(23*time.Hour)
	}, nil},
	"RepoGeneration":     {"the change is not read", func(in *Input) { in.GitRepos[0].Generation = 2 }, []string{"gitReposWithGenerationMismatch"}},
	"RepoGeneration/New": {"it was changed now", func(in *Input) { in.GitRepos[0].Generation, in.GitRepos[0].CreationTimestamp = 2, ago(0) }, nil},
	"NoAnswer": {"the repository does not answer", func(in *Input) {
		in.GitRepos[0].Status.Conditions[1].Status, in.GitRepos[0].Status.LastPollingTime = corev1.ConditionFalse, ago(time.Hour)
	}, []string{"gitReposUnpolled"}},
	"NoAnswer/Polled": {"our manager does not write the time of a poll that finds nothing new", func(in *Input) {
		in.GitRepos[0].Status.LastPollingTime = ago(300 * time.Hour)
	}, nil},
	"Unpolled": {"the reference writes the time of each poll", func(in *Input) {
		ofReference(in)
		in.Bundles[0].Labels[fleet.LabelCommit] = newCommit
		in.GitRepos[0].Status.LastPollingTime = ago(time.Hour)
	}, []string{"gitReposUnpolled"}},
	"Unpolled/Disabled": {"polling is disabled", func(in *Input) {
		ofReference(in)
		in.Bundles[0].Labels[fleet.LabelCommit] = newCommit
		in.GitRepos[0].Status.LastPollingTime, in.GitRepos[0].Spec.DisablePolling = ago(time.Hour), true
	}, nil},
	"NoBundles":         {"the commit has no bundle", func(in *Input) { in.Bundles, in.Deployments, in.Secrets = nil, nil, nil }, []string{"gitReposWithNoBundles"}},
	"NoBundles/NotRead": {"it is not known", func(in *Input) { in.Bundles, in.Deployments, in.Secrets = nil, nil, nil; delete(in.Reach, Bundles) }, nil},

	"OtherBundles": {"a Bundle was changed behind the manager's back", func(in *Input) {
		in.Bundles[0].Labels[fleet.LabelCommit] = newCommit
	}, []string{"gitRepoBundleInconsistencies"}},
	"OtherBundles/BeingWritten": {"the Bundles of a commit are written before the status", func(in *Input) {
		in.Bundles[0].Labels[fleet.LabelCommit] = newCommit
		in.Bundles[0].ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(ago(time.Minute))}}
	}, nil},
	"OtherCommit": {"the reference writes its commit on all Bundles", ofReference, []string{"gitRepoBundleInconsistencies"}},
	"OtherCommit/Same": {"it has", func(in *Input) {
		ofReference(in)
		in.Bundles[0].Labels[fleet.LabelCommit] = newCommit
	}, nil},
	"OtherForceSync": {"the forced sync has not reached the Bundle", func(in *Input) { in.GitRepos[0].Spec.ForceSyncGeneration = 3 }, []string{"gitRepoBundleInconsistencies"}},
	"NoGitRepo":      {"the GitRepo is gone", func(in *Input) { in.GitRepos = nil }, []string{"bundlesWithMissingGitRepo"}},
	"NoGitRepo/HelmOp": {"the Bundle of a HelmOp has none", func(in *Input) {
		in.GitRepos, in.Bundles[0].Labels = nil, map[string]string{fleet.LabelHelmOpName: "db"}
	}, nil},
	"NoGitRepo/NotRead":    {"it is not known", func(in *Input) { in.GitRepos = nil; in.Reach[GitRepos] = Reach{Namespaces: []string{"other"}} }, nil},
	"BundleGeneration":     {"the change is not processed", func(in *Input) { in.Bundles[0].Generation = 2 }, []string{"bundlesWithGenerationMismatch"}},
	"BundleGeneration/New": {"it was changed now", func(in *Input) { in.Bundles[0].Generation, in.Bundles[0].CreationTimestamp = 2, ago(0) }, nil},
	"NoDeployments": {"its targets match no cluster", func(in *Input) {
		in.Deployments, in.Secrets = nil, in.Secrets[:1]
		in.Bundles[0].Status.Summary.DesiredReady = 0
	}, []string{"bundlesWithNoDeployments"}},
	"NoDeployments/Paused": {"it is paused", func(in *Input) { in.Deployments, in.Secrets, in.Bundles[0].Spec.Paused = nil, in.Secrets[:1], true }, nil},
	"NoDeployments/Elsewhere": {"the user does not see all namespaces", func(in *Input) {
		in.Deployments, in.Secrets, in.Reach[Deployments] = nil, in.Secrets[:1], Reach{Namespaces: []string{"cluster-c2"}}
	}, nil},
	"Large":        {"more than 1 MiB", func(in *Input) { in.Bundles[0].Bytes = 1<<20 + 1 }, []string{"largeBundles"}},
	"Large/Almost": {"the manager keeps up to 1 MiB in a Bundle", func(in *Input) { in.Bundles[0].Bytes = 1 << 20 }, nil},

	"NoContent":         {"the Content is gone", func(in *Input) { in.Contents = nil }, []string{"bundlesWithMissingContent", "contentIssues"}},
	"NoContent/InOCI":   {"it is in a registry", func(in *Input) { in.Contents, in.Deployments[0].Spec.OCIContents = nil, true }, nil},
	"NoContent/Named":   {"the Content that the Bundle names is gone", func(in *Input) { in.Bundles[0].Annotations[fleet.AnnotationContent] = "s-big" }, []string{"bundlesWithMissingContent"}},
	"NoContent/NotRead": {"it is not known", func(in *Input) { in.Contents = nil; delete(in.Reach, Contents) }, nil},
	"ContentDeleted":    {"it is being deleted", func(in *Input) { in.Contents[0].DeletionTimestamp = new(ago(0)) }, []string{"bundlesWithMissingContent", "contentIssues"}},

	"OtherOwner": {"the owner was made again", func(in *Input) {
		in.Secrets[0].OwnerReferences = []metav1.OwnerReference{{Kind: "Bundle", Name: "web-app", UID: "before"}}
	}, []string{"invalidSecretOwners"}},
	"SameOwner": {"the owner is the one that it names", func(in *Input) {
		in.Secrets[0].OwnerReferences = []metav1.OwnerReference{{Kind: "Bundle", Name: "web-app", UID: "uid-of-this"}}
	}, nil},
	"OtherValues":      {"the values are others", func(in *Input) { in.Secrets[1].Hash = "other" }, []string{"invalidSecretOwners"}},
	"OtherValues/Just": {"the Secret is written before the object", func(in *Input) { in.Secrets[1].Hash, in.Secrets[1].CreationTimestamp = "other", ago(time.Minute) }, nil},
	"NoValues":         {"the Secret is gone", func(in *Input) { in.Secrets = in.Secrets[:1] }, []string{"invalidSecretOwners"}},
	"NoValues/NotRead": {"the user may not list Secrets", func(in *Input) { in.Secrets = nil; delete(in.Reach, Secrets) }, nil},
	"Orphan": {"its Bundle is gone", func(in *Input) {
		in.Secrets = append(in.Secrets, newSecretObject(space, "gone", fleet.SecretTypeBundleValues, nil))
	}, []string{"orphanedSecrets"}},
	"Orphan/New": {"the Secret is written before its Bundle", func(in *Input) {
		in.Secrets = append(in.Secrets, newSecretObject(space, "gone", fleet.SecretTypeBundleValues, nil))
		in.Secrets[2].CreationTimestamp = ago(time.Minute)
	}, nil},

	"ForeignFinalizer": {"another program may keep it", func(in *Input) {
		in.Bundles[0].Finalizers = []string{fleet.FinalizerBundle, "example.com/backup"}
	}, []string{"resourcesWithMultipleFinalizers"}},
	"OwnFinalizers": {"several of Fleet's are no fault", func(in *Input) {
		in.Bundles[0].Finalizers = []string{fleet.FinalizerBundle, fleet.FinalizerGitRepo, "foregroundDeletion"}
	}, nil},
	"OldAnswers":   {"an answer is older than the one before", func(in *Input) { in.Versions = []string{"10", "9", "10"} }, []string{"apiConsistency"}},
	"NewerAnswers": {"others write meanwhile", func(in *Input) { in.Versions = []string{"10", "11", "12"} }, nil},
}

// ofReference makes the GitRepo one that a manager of rancher/fleet reads.
func ofReference(in *Input) {
	in.GitRepos[0].Status.Reading, in.GitRepos[0].Status.Conditions[1].ObservedGeneration = nil, 0
	in.GitRepos[0].Status.LastPollingTime = ago(10 * time.Second)
}

func TestDiagnose(t *testing.T) {
	for name, c := range wrongFleets {
		t.Run(name, func(t *testing.T) {
			in := small()
			c.change(in)
			s := Diagnose(*in)
			var got []string
			for _, f := range s.Faults() {
				got = append(got, f.Key)
			}
			want := slices.Clone(c.want)
			slices.Sort(want)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s\n%+v", c.why, diff, s.Faults())
			}
		})
	}
}

// Each diagnosis has a case in which it is made.
func TestEachDiagnosisHasACase(t *testing.T) {
	made := map[string]bool{}
	for _, c := range wrongFleets {
		for _, key := range c.want {
			made[key] = true
		}
	}
	raw, err := json.Marshal(every())
	if err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal(raw, &keys); err != nil {
		t.Fatal(err)
	}
	for key, value := range keys {
		if _, list := value.([]any); list && !made[key] {
			t.Errorf("no case for %s", key)
		}
	}
}

// every has an entry in each list.
func every() Diagnostics {
	return Diagnostics{
		GitRepoFaults: GitRepoFaults{[]GitRepo{{}}, []GitRepo{{}}, []GitRepo{{}}, []GitRepo{{}}},
		BundleFaults:  BundleFaults{[]Bundle{{}}, []Bundle{{}}, []Bundle{{}}, []Bundle{{}}, []Bundle{{}}, []Bundle{{}}},
		DeploymentFaults: DeploymentFaults{
			[]Deployment{{}}, []Deployment{{}}, []Deployment{{}},
		},
		ClusterFaults: ClusterFaults{[]Cluster{{}}, []ClusterGroup{{}}},
		OtherFaults:   OtherFaults{[]Secret{{}}, []FinalizerList{{}}},
	}
}

// All lists of diagnostics are among the faults that people see.
func TestFaultsAreComplete(t *testing.T) {
	d := every()
	if got := len((&Snapshot{Diagnostics: &d}).Faults()); got != 17 {
		t.Errorf("got %d of 17 lists", got)
	}
}

// Objects that are being deleted are counted, and are no fault.
func TestCounters(t *testing.T) {
	in := small()
	in.Bundles[0].DeletionTimestamp, in.Deployments[0].DeletionTimestamp = new(ago(0)), new(ago(0))
	in.Contents = append(in.Contents, ContentObject{ObjectMeta: meta("", "s-unused")})
	s := Diagnose(*in)
	want := Counters{BundlesWithDeletionTimestamp: 1, BundleDeploymentsWithDeletionTimestamp: 1, ContentsWithZeroReferenceCount: 1}
	if diff := cmp.Diff(want, s.Diagnostics.Counters); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A snapshot has no data of Secrets, and no credentials of messages.
func TestSnapshotHoldsNoCredential(t *testing.T) {
	in := small()
	in.Secrets[0].Annotations = nil
	in.GitRepos[0].Status.Conditions[0] = ready(corev1.ConditionFalse, "https://ana:CANARY@git.example does not answer", time.Hour)
	in.Events = []*corev1.Event{{Message: "https://ana:CANARY@git.example"}}
	raw, err := json.Marshal(Diagnose(*in))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(raw); strings.Contains(text, "CANARY") {
		t.Error(text)
	}
}

// Only the newest 20 events are in a snapshot.
func TestNewestEvents(t *testing.T) {
	in := small()
	for i := range 50 {
		in.Events = append(in.Events, &corev1.Event{Reason: "R", LastTimestamp: ago(time.Duration(50-i) * time.Minute)})
	}
	s := Diagnose(*in)
	if len(s.RecentEvents) != 20 || s.RecentEvents[0].LastTimestamp != ago(time.Minute).Format(time.RFC3339) {
		t.Errorf("%d events, the first of %s", len(s.RecentEvents), s.RecentEvents[0].LastTimestamp)
	}
}
