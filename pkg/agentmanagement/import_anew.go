package agentmanagement

import (
	"context"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// remake makes the objects of an agent as its Cluster asks for them now. limit is
// how long the cluster has to answer.
func (l *importLoop) remake(ctx context.Context, f clusterimport.Facts, limit time.Duration) error {
	c := f.Cluster
	secret, err := l.kubeconfig(ctx, c)
	if err != nil {
		return err
	}
	agent, err := l.agents.Wanted(ctx, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importLimit)
	defer cancel()
	access, err := l.reach(ctx, secret, limit)
	if err != nil {
		return err
	}
	d, err := l.dial(c, access)
	if err != nil {
		return err
	}
	if err := plain(access.Server, d.remake(ctx, agent, f.Record.AdoptFrom)); err != nil {
		return err
	}
	record := *f.Record
	record.Own = f.Own
	return l.note(ctx, c, record)
}

// remake applies what an agent is made of, and removes what it was made of and is
// not any more.
func (d *downstream) remake(ctx context.Context, a registration.Agent, adoptFrom string) error {
	all, err := d.things(a, adoptFrom)
	if err != nil {
		return err
	}
	ours, err := d.survey(ctx, a.Namespace, all)
	if err != nil {
		return err
	}
	for _, t := range ours {
		if err := t.apply(ctx); err != nil {
			return err
		}
	}
	o, err := a.Objects()
	if err != nil {
		return err
	}
	budget, class := o.Wished()
	err = discard(ctx, kube.StoreOf[*policyv1.PodDisruptionBudget](d.client), a.Namespace, d.mark.Manager, budget,
		func(b *policyv1.PodDisruptionBudget) bool { return d.madeFor(b) })
	if err != nil {
		return err
	}
	return discard(ctx, kube.StoreOf[*schedulingv1.PriorityClass](d.client), "", d.mark.Manager, class,
		func(c *schedulingv1.PriorityClass) bool { return d.madeFor(c) })
}

// madeFor reports whether an object was made for the agent of this Cluster.
func (d *downstream) madeFor(o kube.Object) bool {
	has := o.GetAnnotations()
	for key, value := range d.mark.Annotations() {
		if has[key] != value {
			return false
		}
	}
	return true
}
