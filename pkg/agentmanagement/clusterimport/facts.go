package clusterimport

import (
	"context"
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/downstream"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// facts gathers what is known of a Cluster. It reads the Secret only if that has
// changed since the last import.
func (l *Loop) facts(ctx context.Context, c *fleet.Cluster) (clusterimport.Facts, error) {
	f := clusterimport.Facts{Cluster: c, Record: clusterimport.RecordOf(c), Namespace: l.namespace(c)}
	_, f.Token = l.caches.Tokens.Get(l.tokens.key(c))
	if f.Record != nil {
		f.Arrived = f.Record.MadeByRancherFleet() || f.Record.AgentRegistered(grantedRequests(l.caches, c))
		if f.Record.Own != "" {
			f.Own = l.cfg.Agents.DesiredDigest(c)
		}
	}
	offer, err := l.kubeconfigs.offer(ctx, c, f.Record)
	f.Offer = offer
	return f, err
}

// namespace returns the namespace for the agent of a Cluster.
func (l *Loop) namespace(c *fleet.Cluster) string {
	if c.Spec.AgentNamespace != "" {
		return c.Spec.AgentNamespace
	}
	return l.cfg.System.Namespace
}

// reportDone reports a Cluster whose agent needs no import. It deletes the token that
// the agent was installed with once the agent uses its own credential.
func (l *Loop) reportDone(ctx context.Context, f clusterimport.Facts) (kube.Result, error) {
	if f.Record.Own != "" {
		handed, err := l.cfg.Agents.Deployed(ctx, f.Cluster, f.Record.Own)
		if err != nil {
			return kube.Done, err
		}
		if handed {
			record := *f.Record
			record.Own = ""
			return kube.Done, l.reporter.writeRecord(ctx, f.Cluster, record) // the watch event of the Cluster enqueues it
		}
	}
	next, silent := kube.Done, error(nil)
	if f.Record.Own != "" {
		next.After = downstream.Retry // the event of the deployment may have come before the record
	}
	if f.Arrived && f.Token {
		next.After = downstream.Retry
		if err := l.tokens.deleteToken(ctx, f); err != nil {
			return kube.Done, err
		}
	}
	if !f.Arrived {
		if left := f.Record.Since.Add(clusterimport.DefaultPace.Timeout).Sub(l.cfg.Now()); left > 0 {
			next = next.Sooner(left)
		} else {
			silent = reconcile.RequeueError(clusterimport.ReasonSilent, 0, fmt.Errorf(
				"the agent was installed in namespace %q and told of %s, and has not registered: kubectl -n %s logs deployment/fleet-agent says why",
				f.Record.Namespace, f.Record.URL, f.Record.Namespace))
			l.waves.enqueue() // other clusters may have to wait because of this one
		}
	}
	return next, l.reporter.report(ctx, f.Cluster, silent)
}

// grantedRequests returns the ClusterRegistrations that were granted for a Cluster.
func grantedRequests(caches *cache.Shared, c *fleet.Cluster) []*fleet.ClusterRegistration {
	return caches.Requests.ByIndex(cache.ByCluster, kube.KeyOf(c).String())
}
