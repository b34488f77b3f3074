package clusterimport

import (
	"context"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/downstream"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
)

// reapplyAgent applies the objects of an agent with its present configuration. limit is
// how long the cluster has to answer.
func (l *Loop) reapplyAgent(ctx context.Context, f clusterimport.Facts, limit time.Duration) error {
	c := f.Cluster
	secret, err := l.kubeconfigs.read(ctx, c)
	if err != nil {
		return err
	}
	agent, err := l.cfg.Agents.DesiredAgent(ctx, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, importLimit)
	defer cancel()
	access, err := l.findAccess(ctx, secret, limit)
	if err != nil {
		return err
	}
	d, err := l.dial(c, access)
	if err != nil {
		return err
	}
	if err := downstream.Plain(access.Server, d.Reapply(ctx, agent, f.Record.AdoptFrom)); err != nil {
		return err
	}
	record := *f.Record
	record.Own = f.Own
	return l.reporter.writeRecord(ctx, c, record)
}
