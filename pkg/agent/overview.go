package agent

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	"github.com/fleetworkspace/fleet/pkg/agent/register"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
)

// An Overview is how an agent and its deployments are, as their own cluster
// shows it: no manager is asked.
type Overview struct {
	Registered bool
	Cluster    string // "<namespace>/<name>" at the manager
	URL        string // of the manager
	Reached    bool   // the manager answered the last check-in
	Refused    bool   // the manager answers, and refuses the credential
	Since      time.Time
	Ends       time.Time // when the credential ends, unless it is renewed before; zero: it lasts
	Reason     string    // why the manager is not reached, in one word
	Error      string    // the same in the words of the last error
	Hint       string    // what helps
	// Next is when an agent with a schedule connects next; zero for one that is
	// always connected.
	Next time.Time

	Rows []Row
	// Accepted is when something of the manager's was kept in this cluster last;
	// KeptBytes is how much all of that is.
	Accepted  time.Time
	KeptBytes int64
	// Journal are the last decisions, the newest last, as they were kept with the
	// last check-in or attempt at one.
	Journal []journal.Entry
}

// A Row is one deployment.
type Row struct {
	Bundle string
	Commit string
	drift.LiveStatus
	// CorrectedAlone is when drift was put back while the manager was away;
	// zero if it was not.
	CorrectedAlone time.Time
	// Alone is what was done last while the manager was away, nil if nothing was.
	Alone *journal.Entry
}

// Inspect returns the state of an agent. It changes nothing.
func Inspect(ctx context.Context, cfg Config, own *rest.Config) (Overview, error) {
	var out Overview
	down, err := kube.Connect(kube.Config{REST: own, UserAgent: cfg.userAgent(), FieldManager: fleet.FieldManagerAgent})
	if err != nil {
		return out, err
	}
	cred, err := register.Read(ctx, register.Config{Down: down, Namespace: cfg.Namespace})
	if err != nil && !errors.Is(err, register.ErrNotRegistered) {
		return out, err
	}
	if err == nil {
		out.Registered, out.Cluster, out.URL = true, cred.Cluster.String(), cred.URL()
		out.Ends = credential.SpanOf(cred.REST.BearerToken).Expires
	}
	c := newManagerState(down, cfg.Namespace)
	if err := c.load(ctx); err != nil {
		return out, err
	}
	out.Reached, out.Refused = c.data[keyReached] == "true", c.data[keyRefused] == "true"
	out.Reason, out.Error, out.Hint = c.data[keyReason], c.data[keyError], c.data[keyHint]
	out.Since, _ = time.Parse(time.RFC3339, c.data[keySince])
	out.Next, _ = time.Parse(time.RFC3339, c.data[keyNext])
	if out.Journal, err = readJournal(ctx, kube.StoreOf[*corev1.ConfigMap](down), cfg.Namespace); err != nil {
		return out, err
	}
	return out, out.rows(ctx, cfg, down)
}

// NextTry returns when an agent that is always connected next tries to reach its
// manager. It is zero shortly after the connection was lost: then the tries are closer
// together.
func (o *Overview) NextTry(now time.Time) time.Time {
	if !o.Registered || o.Reached || !o.Next.IsZero() || o.Since.IsZero() || o.Reason == reasonUnusable || now.Sub(o.Since) < heartbeat.RampTime {
		return time.Time{}
	}
	return heartbeat.Retries(o.Cluster)(now)
}

// rows reads the agent's store, and the state of each release in it.
func (o *Overview) rows(ctx context.Context, cfg Config, down *kube.Client) error {
	s := store.New(down, cfg.Namespace)
	size, err := s.Measure(ctx)
	if err != nil {
		return err
	}
	o.KeptBytes, o.Accepted = size.Bytes, size.Newest
	if err := s.Load(ctx); err != nil {
		return err
	}
	h, err := helm.Connect(helm.Config{REST: down.REST(), AgentNamespace: cfg.Namespace, AgentScope: cfg.Scope})
	if err != nil {
		return err
	}
	live, err := kube.NewLive(down)
	if err != nil {
		return err
	}
	for _, rec := range s.All() {
		sight, err := drift.Look(ctx, h, live, cfg.Scope, rec)
		if err != nil {
			return err
		}
		row := Row{Bundle: rec.Key.Name, Commit: rec.Labels[fleet.LabelCommit], LiveStatus: sight, Alone: o.lastStep(rec.Key.Name)}
		if sight.Corrected && !o.Reached && sight.Since.After(o.Since) {
			row.CorrectedAlone = sight.Since
		}
		o.Rows = append(o.Rows, row)
	}
	return nil
}

// lastStep returns the last journal entry about a deployment since the manager is away.
func (o *Overview) lastStep(deployment string) *journal.Entry {
	if o.Reached || o.Since.IsZero() {
		return nil
	}
	for i := len(o.Journal) - 1; i >= 0; i-- {
		if e := o.Journal[i]; e.Deployment == deployment && !e.At.Before(o.Since) {
			return &e
		}
	}
	return nil
}
