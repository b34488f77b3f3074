package leftover

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// Programs of the reference, as its charts and its git jobs call them.
const (
	programManager = "fleetcontroller"
	programFleet   = "fleet"
)

// chartJobs are the names of the Jobs and CronJobs of the reference's chart fleet, and the
// first two arguments of the program fleet that each runs.
var chartJobs = map[string][2]string{
	"fleet-cleanup-clusterregistrations":   {"cleanup", "clusterregistration"},
	"fleet-cleanup-gitrepo-jobs":           {"cleanup", "gitjob"},
	"fleet-migrate-gitrepo-helm-url-regex": {"migrate", "gitrepo-helm-url-regex"},
}

// RepoOf returns the GitRepo for whose jobs the reference made an object: the GitRepo is
// the object's controller.
func RepoOf(o metav1.Object) (types.NamespacedName, bool) {
	c := metav1.GetControllerOf(o)
	if c == nil || c.Kind != gitRepo.Kind || c.APIVersion != gitRepo.GroupVersion().String() {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: c.Name}, true
}

// RunsReference reports whether a Deployment runs a manager of the reference.
func RunsReference(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(slices.Concat(c.Command, c.Args), programManager)
	})
}

// GitJob decides on a Job that reads a GitRepo: it returns why the Job is left over, or "".
// A Job that has succeeded is. One that has failed is only if the reference is replaced,
// because its manager reports the failure. One that runs never is.
func GitJob(j *batchv1.Job, replaced bool) string {
	switch _, ok := RepoOf(j); {
	case !ok || j.DeletionTimestamp != nil:
		return ""
	case j.Status.Succeeded > 0 && j.Status.CompletionTime != nil:
		return "it has succeeded"
	case replaced && hasFailed(j):
		return "it has failed, and this manager needs no Jobs"
	}
	return ""
}

// Running returns the GitRepos with a Job that has not ended.
func Running(jobs []*batchv1.Job) map[types.NamespacedName]bool {
	out := map[types.NamespacedName]bool{}
	for _, j := range jobs {
		if repo, ok := RepoOf(j); ok && GitJob(j, true) == "" {
			out[repo] = true
		}
	}
	return out
}

// GitAccount decides on an account of git jobs, or its Role or RoleBinding, once the
// reference is replaced: it returns why the object is left over, or "".
func GitAccount(o metav1.Object, running map[types.NamespacedName]bool) string {
	repo, ok := RepoOf(o)
	if !ok || o.GetDeletionTimestamp() != nil || running[repo] || o.GetName() != naming.SafeConcat("git", repo.Name) {
		return ""
	}
	return "this manager reads GitRepo " + repo.Name + " without Jobs"
}

// ChartJob decides on a Job of the reference's chart in the system namespace, once the
// reference is replaced: it returns why the Job is left over, or "".
func ChartJob(j *batchv1.Job) string {
	if j.DeletionTimestamp != nil || !ofChart(j.Name, j.Spec.Template.Spec) {
		return ""
	}
	if j.Status.CompletionTime == nil && !hasFailed(j) {
		return ""
	}
	return "it belongs to the chart of the reference, and has ended"
}

// ChartCronJob is ChartJob for a CronJob.
func ChartCronJob(c *batchv1.CronJob) string {
	if c.DeletionTimestamp != nil || len(c.Status.Active) > 0 || !ofChart(c.Name, c.Spec.JobTemplate.Spec.Template.Spec) {
		return ""
	}
	return "it belongs to the chart of the reference"
}

// ofChart reports whether a Job of a name is one of the reference's chart: it must run the
// same command.
func ofChart(name string, pod corev1.PodSpec) bool {
	want, ok := chartJobs[name]
	if !ok || len(pod.Containers) != 1 {
		return false
	}
	line := slices.Concat(pod.Containers[0].Command, pod.Containers[0].Args)
	return len(line) >= 3 && line[0] == programFleet && line[1] == want[0] && line[2] == want[1]
}

func hasFailed(j *batchv1.Job) bool {
	return slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
	})
}
