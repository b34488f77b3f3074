package agentmanagement

import (
	"context"
	"maps"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/agents"
	"github.com/fleetworkspace/fleet/pkg/plan/imports"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// wishes is a digest of what a Cluster asks of its agent; empty where nobody updates
// that agent.
func (l *importLoop) wishes(c *fleet.Cluster) string {
	m := agents.Manager{Settings: l.cfg.Settings, System: l.system}
	if !m.Manages(c) {
		return ""
	}
	return m.Own(c)
}

// handed tells whether the agent has deployed, itself, what it was installed with.
// From then on it knows what to take back.
func (l *importLoop) handed(ctx context.Context, f imports.Facts) (bool, error) {
	b, ok := l.agents.known.Get(bundleOf(f.Cluster))
	if !ok || b.Status.Summary.Ready == 0 || b.Annotations[agents.AnnotationOwn] != f.Record.Own {
		return false, nil
	}
	return l.agents.arrived(ctx, f.Cluster, b)
}

// remake makes the objects of an agent as its Cluster asks for them now. limit is
// how long the cluster has to answer.
func (l *importLoop) remake(ctx context.Context, f imports.Facts, limit time.Duration) error {
	c := f.Cluster
	secret, err := l.kubeconfig(ctx, c)
	if err != nil {
		return err
	}
	agent, err := l.wantedAgent(ctx, c)
	if err != nil {
		return err
	}
	access, err := l.reach(ctx, secret, limit)
	if err != nil {
		return err
	}
	d, err := l.dial(c, access)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importLimit)
	defer cancel()
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
	keepBudget, keepClass := "", ""
	if o.Budget != nil {
		keepBudget = o.Budget.Name
	}
	if o.PriorityClass != nil {
		keepClass = o.PriorityClass.Name
	}
	if err := discard(ctx, d, kube.StoreOf[*policyv1.PodDisruptionBudget](d.client), a.Namespace, keepBudget); err != nil {
		return err
	}
	return discard(ctx, d, kube.StoreOf[*schedulingv1.PriorityClass](d.client), "", keepClass)
}

// discard deletes the objects of one kind that were made for the agent of a Cluster,
// but for one.
func discard[P kube.Object](ctx context.Context, d *downstream, store *kube.Store[P], in, keep string) error {
	list, err := store.List(ctx, in, fleet.LabelManagerID+"="+d.mark.Manager)
	if err != nil {
		return err
	}
	mark := d.mark.Annotations()
	for _, o := range list {
		have := maps.Clone(o.GetAnnotations())
		maps.DeleteFunc(have, func(key, value string) bool { return mark[key] != value })
		if o.GetName() == keep || !maps.Equal(have, mark) {
			continue
		}
		if err := store.Delete(ctx, kube.KeyOf(o), exactly(o)); err != nil {
			return err
		}
	}
	return nil
}
