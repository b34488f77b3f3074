package deploy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
	"github.com/fleetworkspace/fleet/pkg/plan/suggest"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// VerbCorrect puts back what others changed. It is no step of release.Decide.
const VerbCorrect release.Verb = "correct"

// A Result is what became of a step.
type Result string

// The results. Held is a step that is not taken for now; Waiting one that lacked
// something; Permanent one that failed permanently.
const (
	OK        Result = "ok"
	Held      Result = "held"
	Waiting   Result = "wait"
	Permanent Result = "permanent"
	Failed    Result = "error"
)

// An Act is a step that the loop took, tried, or decided against, for events and
// metrics.
type Act struct {
	At         time.Time
	Took       time.Duration // 0 where nothing was done
	Deployment string
	Verb       release.Verb
	Result     Result
	Reason     string // one PascalCase word
	Message    string // free of Helm values
}

// take takes a step, and reports what became of it.
func (r *Reconciler) take(ctx context.Context, s *snapshot, a release.Action) error {
	began := r.cfg.Now()
	err := r.act(ctx, s, a)
	if ctx.Err() == nil {
		act := Act{Took: r.cfg.Now().Sub(began), Verb: a.Verb, Result: OK, Reason: a.Reason, Message: s.what()}
		if a.Verb != release.Install && a.Verb != release.Upgrade { // whose reasons say it all
			act.Message += ": " + a.Message
		}
		if err != nil {
			act.Result, act.Reason, act.Message = resultOf(err), reconcile.ReasonOf(err), err.Error()
		}
		r.reportOf(s, act)
	}
	return err
}

// what names the release and the commit of a step.
func (s *snapshot) what() string {
	text := s.wanted.ID.String()
	if commit := s.labels[fleet.LabelCommit]; commit != "" {
		text += " at " + commit[:min(len(commit), 7)]
	}
	return text
}

// decided reports a decision by which nothing is done, or nothing more.
func (r *Reconciler) decided(s *snapshot, a release.Action) {
	act := Act{Verb: a.Verb, Result: Held, Reason: a.Reason, Message: a.Message}
	if a.Verb == release.Acknowledge {
		act.Result = OK
	}
	r.reportOf(s, act)
}

// corrected reports an attempt to revert the changes of others. Only the names of
// fields are reported: their values may be secrets.
func (r *Reconciler) corrected(s *snapshot, a drift.Attempt) {
	act := Act{
		Took: a.Took, Verb: VerbCorrect, Result: OK, Reason: string(fleet.Modified), Message: differences(a.Changed),
	}
	if a.Err != nil {
		act.Result, act.Reason, act.Message = resultOf(a.Err), reconcile.ReasonOf(a.Err), a.Err.Error()
	}
	r.reportOf(s, act)
}

func resultOf(err error) Result {
	switch {
	case reconcile.IsTerminal(err):
		return Permanent
	case reconcile.IsRequeue(err) && !needsChange(reconcile.ReasonOf(err)):
		return Waiting
	}
	return Failed
}

// reportOf passes an act to OnAct, if that is set.
func (r *Reconciler) reportOf(s *snapshot, act Act) {
	if r.cfg.OnAct == nil {
		return
	}
	keep := []string{s.name, s.wanted.ID.Name, s.wanted.ID.Namespace, s.labels[fleet.LabelCommit]}
	act.At, act.Deployment = r.cfg.Now(), s.name
	act.Message = redact.New(keep, s.observed.Values).Text(act.Message)
	r.cfg.OnAct(act)
}

// Limits of a list of differences.
const (
	shownObjects = 2
	shownFields  = 3
)

// differences names the objects that others changed, and the fields.
func differences(changed []fleet.ModifiedStatus) string {
	var texts []string
	for i, m := range changed {
		if i == shownObjects {
			texts = append(texts, fmt.Sprintf("%d more objects", len(changed)-i))
			break
		}
		texts = append(texts, difference(m))
	}
	return strings.Join(texts, ", ")
}

func difference(m fleet.ModifiedStatus) string {
	text := m.Kind + " " + m.Name
	if m.Namespace != "" {
		text = m.Kind + " " + m.Namespace + "/" + m.Name
	}
	switch {
	case m.Exist:
		return text + " had lost its label"
	case m.Create:
		return text + " was gone"
	}
	fields, err := suggest.Fields(m.Patch)
	if err != nil {
		return text
	}
	for i, f := range fields {
		if i == shownFields {
			return text + fmt.Sprintf(" and %d more", len(fields)-i)
		}
		text += " " + f.Pointer
	}
	return text
}

// outcome keeps the state that a run has ended in, in the words of a status.
func (r *Reconciler) outcome(s *snapshot, f report.Found) {
	bd := s.bd
	if bd == nil {
		bd = &fleet.BundleDeployment{Spec: s.spec}
	}
	seen := &fleet.BundleDeployment{ObjectMeta: bd.ObjectMeta, Spec: bd.Spec, Status: report.Status(bd, f, r.cfg.Now())}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.state.shown = summary.State(seen, "")
}

// States returns the number of deployments for each state, as they were looked at last.
func (r *Reconciler) States() map[fleet.BundleState]int {
	out := map[fleet.BundleState]int{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, st := range r.states {
		if st.shown != "" {
			out[st.shown]++
		}
	}
	return out
}
