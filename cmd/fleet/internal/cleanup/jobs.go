package cleanup

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	planleftover "github.com/fleetworkspace/fleet/pkg/plan/leftover"
)

// JobOptions are the flags of fleet cleanup gitjob.
type JobOptions struct {
	Options
	// BatchSize is how many Jobs one request lists.
	BatchSize int
}

var (
	jobs        = batchv1.SchemeGroupVersion.WithResource("jobs")
	cronJobs    = batchv1.SchemeGroupVersion.WithResource("cronjobs")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")
)

// Check refuses flags that are not possible.
func (o JobOptions) Check() error {
	if o.BatchSize < 1 {
		return fmt.Errorf("--batch-size: %d is not a number above 0", o.BatchSize)
	}
	return o.checkBefore()
}

// Jobs deletes the Jobs of GitRepos that have succeeded. If no manager of the reference
// runs in the system namespace, it also deletes those that have failed, the accounts of
// Jobs, and the Jobs of the reference's chart. Without -n it works in all workspaces.
func Jobs(ctx context.Context, o JobOptions, s *client.Session) error {
	d := &deleter{s: s, dryRun: o.DryRun}
	return d.report(o.Options, d.jobs(ctx, int64(o.BatchSize)))
}

// A job is one Job as it was read.
type job struct {
	object *unstructured.Unstructured
	typed  *batchv1.Job
}

func (d *deleter) jobs(ctx context.Context, batch int64) error {
	replaced, err := d.referenceReplaced(ctx)
	if err != nil {
		return err
	}
	all, err := d.listJobs(ctx, batch)
	if err != nil {
		return err
	}
	var typed []*batchv1.Job
	for _, j := range all {
		typed = append(typed, j.typed)
		var reason string
		if d.s.Scope == "" || j.typed.Namespace == d.s.Scope {
			reason = planleftover.GitJob(j.typed, replaced)
		}
		if reason == "" && replaced && j.typed.Namespace == d.s.System {
			reason = planleftover.ChartJob(j.typed)
		}
		if reason == "" {
			continue
		}
		if err := d.delete(ctx, leftover{resource: jobs, object: j.object, reason: reason}); err != nil {
			return err
		}
	}
	if !replaced {
		d.s.Std.Note("a manager of the reference runs in %s: failed Jobs, accounts of Jobs and the Jobs of its chart stay", d.s.System)
		return nil
	}
	if err := d.gitAccounts(ctx, typed); err != nil {
		return err
	}
	return d.chartCronJobs(ctx)
}

// referenceReplaced reports whether no Deployment in the system namespace runs a manager of
// the reference.
func (d *deleter) referenceReplaced(ctx context.Context) (bool, error) {
	items, err := d.s.ListAll(ctx, client.Query{Resource: deployments, Namespace: d.s.System})
	if err != nil {
		return false, err
	}
	all, err := client.AllAs[appsv1.Deployment](items)
	if err != nil {
		return false, err
	}
	for _, deployment := range all {
		if planleftover.RunsReference(deployment) {
			return false, nil
		}
	}
	return true, nil
}

// listJobs lists the Jobs of all namespaces in scope, and those of the system namespace,
// so many in one request.
func (d *deleter) listJobs(ctx context.Context, batch int64) ([]job, error) {
	var out []job
	namespaces := []string{d.s.Scope}
	if d.s.Scope != "" && d.s.Scope != d.s.System {
		namespaces = append(namespaces, d.s.System)
	}
	for _, namespace := range namespaces {
		q := client.Query{Resource: jobs, Namespace: namespace}
		_, err := client.VisitPages(ctx, d.s.API, q, batch, func(u *unstructured.Unstructured) error {
			out = append(out, job{object: u})
			return nil
		})
		if err != nil {
			return nil, client.DescribeServerError(d.s.Server, err)
		}
	}
	for i := range out {
		var err error
		if out[i].typed, err = client.Convert[batchv1.Job](out[i].object); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// gitAccounts deletes the accounts of git jobs, with their rights. Accounts are first.
func (d *deleter) gitAccounts(ctx context.Context, all []*batchv1.Job) error {
	running := planleftover.Running(all)
	for _, resource := range []schema.GroupVersionResource{serviceAccounts, roleBindings, roles} {
		items, err := d.s.ListAll(ctx, client.Query{Resource: resource, Namespace: d.s.Scope})
		if err != nil {
			return err
		}
		for _, u := range items {
			reason := planleftover.GitAccount(u, running)
			if reason == "" {
				continue
			}
			if err := d.delete(ctx, leftover{resource: resource, object: u, reason: reason}); err != nil {
				return err
			}
		}
	}
	return nil
}

// chartCronJobs deletes the CronJob of the reference's chart.
func (d *deleter) chartCronJobs(ctx context.Context) error {
	items, err := d.s.ListAll(ctx, client.Query{Resource: cronJobs, Namespace: d.s.System})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, u := range items {
		c, err := client.Convert[batchv1.CronJob](u)
		if err != nil {
			return err
		}
		reason := planleftover.ChartCronJob(c)
		if reason == "" {
			continue
		}
		if err := d.delete(ctx, leftover{resource: cronJobs, object: u, reason: reason}); err != nil {
			return err
		}
	}
	return nil
}
