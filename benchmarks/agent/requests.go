package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// requests are what the agent has asked both API servers since a moment.
func (w *world) requests(since time.Time) ([]harness.Request, error) {
	var out []harness.Request
	for _, s := range []*side{w.hub, w.site} {
		list, err := harness.ReadAudit(s.Name(), s.AuditLog(), since)
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if r.User == serviceAccount(deployments, account) || r.User == serviceAccount(agentNamespace, agentAccount) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

func serviceAccount(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// regular reports whether a request is one that an agent at rest makes: a sign of
// life, a lease, or a watch that is opened again.
func regular(r harness.Request) bool {
	return r.Verb == "watch" || r.Resource == "leases" || r.Verb == "patch" && r.Group == fleet.Group && r.What() == "clusters/status"
}

// others are the requests that are not regular.
func others(list []harness.Request) []harness.Request {
	return slices.DeleteFunc(slices.Clone(list), regular)
}

// counted is a list of requests in words, by server, verb and resource.
func counted(list []harness.Request) string {
	counts := map[string]int{}
	for _, r := range list {
		counts[r.Cluster+": "+r.Verb+" "+r.What()]++
	}
	if len(counts) == 0 {
		return "none"
	}
	var texts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%s %d", what, counts[what]))
	}
	return strings.Join(texts, ", ")
}

// settled is for how long an agent must have asked for nothing to be at rest.
const settled = 5 * time.Second

// quiet waits until the agent has come to rest and has checked in after that: a
// check-in carries the rest of its report.
func (w *world) quiet(ctx context.Context, since time.Time) error {
	last, err := w.settle(ctx, since)
	for err == nil {
		var list []harness.Request
		if list, err = w.requests(last.Add(time.Millisecond)); err != nil {
			break
		}
		if slices.ContainsFunc(list, func(r harness.Request) bool { return r.What() == "clusters/status" }) {
			_, err = w.settle(ctx, last)
			break
		}
		err = kube.Sleep(ctx, time.Second)
	}
	return err
}

// settle waits until the agent has come to rest, and returns its last request
// since a moment that is none of rest.
func (w *world) settle(ctx context.Context, since time.Time) (last time.Time, err error) {
	limit := time.Now().Add(w.timeout)
	last = since
	for {
		list, err := w.requests(last)
		if err != nil {
			return last, err
		}
		for _, r := range others(list) {
			if r.At.After(last) {
				last = r.At
			}
		}
		switch {
		case time.Since(last) >= settled:
			return last, nil
		case time.Now().After(limit):
			return last, fmt.Errorf("the agent does not come to rest: %w", errTimeout)
		}
		if err := kube.Sleep(ctx, settled-time.Since(last)); err != nil {
			return last, err
		}
	}
}
