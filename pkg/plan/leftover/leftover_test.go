package leftover

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// request is one of Cluster cluster, made so many seconds after the first.
func request(name, cluster string, granted bool, after int) *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, CreationTimestamp: metav1.Unix(1e9+int64(after), 0)},
		Status:     fleet.ClusterRegistrationStatus{ClusterName: cluster, Granted: granted},
	}
}

func TestRegistrations(t *testing.T) {
	account := func(id string) metav1.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{fleet.LabelManagerID: id},
			Annotations: map[string]string{fleet.AnnotationClusterRegistrationNamespace: "ws", fleet.AnnotationClusterRegistration: "new"},
		}}
	}
	deleted := request("old", "site", true, 0)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
	external := request("old", "site", true, 0)
	external.Labels = map[string]string{fleet.LabelClusterManagement: "harvester"}
	cases := map[string]struct {
		why      string
		requests []*fleet.ClusterRegistration
		clusters []string
		accounts []metav1.Object
		want     []string
	}{
		"Outdated": {
			why:      "what is older than the newest granted one is of no use, granted or not",
			requests: []*fleet.ClusterRegistration{request("b", "site", false, 1), request("a", "site", true, 0), request("new", "site", true, 2), request("later", "site", false, 3)},
			clusters: []string{"site"}, want: []string{"a", "b"},
		},
		"Alone": {why: "the agent uses it", requests: []*fleet.ClusterRegistration{request("new", "site", true, 0)}, clusters: []string{"site"}},
		"SameSecond": {
			why:      "which of them is in use is not known",
			requests: []*fleet.ClusterRegistration{request("a", "site", true, 0), request("b", "site", true, 0)}, clusters: []string{"site"},
		},
		"NotGranted": {
			why:      "the newer one was not answered, so the older one is in use",
			requests: []*fleet.ClusterRegistration{request("a", "site", true, 0), request("b", "site", false, 1)}, clusters: []string{"site"},
		},
		"ClusterGone": {why: "its agent has no Cluster", requests: []*fleet.ClusterRegistration{request("a", "gone", true, 0)}, clusters: []string{"site"}, want: []string{"a"}},
		"NotAnswered": {why: "it has no Cluster yet", requests: []*fleet.ClusterRegistration{request("a", "", false, 0)}},
		"OtherCluster": {
			why:      "another Cluster's registration says nothing",
			requests: []*fleet.ClusterRegistration{request("a", "site", true, 0), request("new", "other", true, 1)}, clusters: []string{"site", "other"},
		},
		"OfThisProject": {
			why:      "the agent may still use the older credential, which its manager knows",
			requests: []*fleet.ClusterRegistration{request("old", "site", true, 0), request("new", "site", true, 1)},
			clusters: []string{"site"}, accounts: []metav1.Object{account("id")},
		},
		"AccountOfTheReference": {
			why:      "an account without the ID of a manager is the reference's",
			requests: []*fleet.ClusterRegistration{request("old", "site", true, 0), request("new", "site", true, 1)},
			clusters: []string{"site"}, accounts: []metav1.Object{account("")}, want: []string{"old"},
		},
		"BeingDeleted": {why: "it goes already", requests: []*fleet.ClusterRegistration{deleted, request("new", "site", true, 1)}, clusters: []string{"site"}},
		"External":     {why: "another program answers it", requests: []*fleet.ClusterRegistration{external, request("new", "site", true, 1)}, clusters: []string{"site"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			clusters := map[types.NamespacedName]bool{}
			for _, n := range c.clusters {
				clusters[types.NamespacedName{Namespace: "ws", Name: n}] = true
			}
			var got []string
			for _, r := range Registrations(c.requests, clusters, c.accounts) {
				got = append(got, r.Request.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestOwnerOf(t *testing.T) {
	marks := func(kind string) map[string]string {
		return map[string]string{annotationOwnerKind: kind, annotationOwnerNamespace: "ws", annotationOwnerName: "r"}
	}
	managed := map[string]string{fleet.LabelManaged: "true"}
	cases := map[string]struct {
		labels, annotations map[string]string
		want                string // the kind
	}{
		"Registration": {managed, marks("fleet.cattle.io/v1alpha1, Kind=ClusterRegistration"), KindRegistration},
		"Token":        {managed, marks("fleet.cattle.io/v1alpha1, Kind=ClusterRegistrationToken"), KindRegistrationToken},
		"OtherKind":    {managed, marks("fleet.cattle.io/v1alpha1, Kind=Cluster"), ""},
		"OtherGroup":   {managed, marks("provisioning.cattle.io/v1, Kind=ClusterRegistration"), ""},
		"Users":        {nil, marks("fleet.cattle.io/v1alpha1, Kind=ClusterRegistration"), ""},
		"Ours":         {map[string]string{fleet.LabelManaged: "true", fleet.LabelManagerID: "id"}, marks("fleet.cattle.io/v1alpha1, Kind=ClusterRegistration"), ""},
		"NoName":       {managed, map[string]string{annotationOwnerKind: "fleet.cattle.io/v1alpha1, Kind=ClusterRegistration", annotationOwnerNamespace: "ws"}, ""},
	}
	for name, c := range cases {
		got, ok := OwnerOf(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations}})
		if ok != (c.want != "") || ok && (got.Kind != c.want || got.String() != "ws/r") {
			t.Errorf("%s: got %v, %v", name, got, ok)
		}
	}
}

// job is one that the reference made for GitRepo repo, in a state.
func job(state string) *batchv1.Job {
	yes := true
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "repo-1", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "fleet.cattle.io/v1alpha1", Kind: "GitRepo", Name: "repo", Controller: &yes},
	}}}
	switch state {
	case "succeeded":
		j.Status = batchv1.JobStatus{Succeeded: 1, CompletionTime: &metav1.Time{}}
	case "failed":
		j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	}
	return j
}

func TestGitJob(t *testing.T) {
	users := job("succeeded")
	users.OwnerReferences = nil
	cron := job("succeeded")
	cron.OwnerReferences[0].Kind, cron.OwnerReferences[0].APIVersion = "CronJob", "batch/v1"
	for name, c := range map[string]struct {
		job      *batchv1.Job
		replaced bool
		want     bool
	}{
		"Succeeded": {job("succeeded"), false, true}, "Failed": {job("failed"), false, false}, "FailedAndReplaced": {job("failed"), true, true},
		"Running": {job("running"), true, false}, "Users": {users, true, false}, "OfCronJob": {cron, true, false},
	} {
		if got := GitJob(c.job, c.replaced); (got != "") != c.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestGitAccount(t *testing.T) {
	account := func(name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, OwnerReferences: job("").OwnerReferences}}
	}
	idle := Running([]*batchv1.Job{job("succeeded"), job("failed")})
	busy := Running([]*batchv1.Job{job("succeeded"), job("running")})
	users := account("git-repo")
	users.OwnerReferences = nil
	for name, c := range map[string]struct {
		account *corev1.ServiceAccount
		running map[types.NamespacedName]bool
		want    bool
	}{
		"Idle": {account("git-repo"), idle, true}, "JobRuns": {account("git-repo"), busy, false},
		"OtherName": {account("deployer"), idle, false}, "Users": {users, idle, false},
	} {
		if got := GitAccount(c.account, c.running); (got != "") != c.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestChartJobs(t *testing.T) {
	pod := func(line ...string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: line[:1], Args: line[1:]}}}}
	}
	ended := batchv1.JobStatus{CompletionTime: &metav1.Time{}}
	for name, c := range map[string]struct {
		name   string
		pod    corev1.PodTemplateSpec
		status batchv1.JobStatus
		want   bool
	}{
		"Ended":        {"fleet-cleanup-clusterregistrations", pod("fleet", "cleanup", "clusterregistration"), ended, true},
		"Failed":       {"fleet-migrate-gitrepo-helm-url-regex", pod("fleet", "migrate", "gitrepo-helm-url-regex"), job("failed").Status, true},
		"Running":      {"fleet-cleanup-clusterregistrations", pod("fleet", "cleanup", "clusterregistration"), batchv1.JobStatus{}, false},
		"OtherCommand": {"fleet-cleanup-clusterregistrations", pod("sh", "-c", "true"), ended, false},
		"OtherName":    {"cleanup", pod("fleet", "cleanup", "clusterregistration"), ended, false},
	} {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: c.name}, Spec: batchv1.JobSpec{Template: c.pod}, Status: c.status}
		if got := ChartJob(j); (got != "") != c.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "fleet-cleanup-gitrepo-jobs"}}
	cron.Spec.JobTemplate.Spec.Template = pod("fleet", "cleanup", "gitjob")
	if ChartCronJob(cron) == "" {
		t.Error("the CronJob of the reference's chart stays")
	}
	cron.Status.Active = []corev1.ObjectReference{{Name: "x"}}
	if ChartCronJob(cron) != "" {
		t.Error("a CronJob with a Job that runs goes")
	}
}

func TestRunsReference(t *testing.T) {
	for want, container := range map[bool]corev1.Container{
		true: {Args: []string{"fleetcontroller", "gitjob"}}, false: {Args: []string{"--roles=gitjob"}},
	} {
		d := &appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []corev1.Container{container}
		if got := RunsReference(d); got != want {
			t.Errorf("%v: got %v", container, got)
		}
	}
}
