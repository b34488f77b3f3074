package deploy

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agent/drift"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	plandrift "github.com/fleetworkspace/fleet/pkg/plan/drift"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
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

// An Act is a step that the controller took, tried, or decided against.
type Act struct {
	At         time.Time
	Took       time.Duration // 0 where nothing was done
	Deployment string
	Verb       release.Verb
	Result     Result
	Reason     string // one PascalCase word
	Message    string // free of Helm values
	Override   string // why the step was taken outside of the change windows; empty: it was not
}

// A stepReporter reports the steps of the controller, and knows the state in which the
// last run of each deployment has ended.
type stepReporter struct {
	now   func() time.Time
	onAct func(Act) // nil: acts are not reported

	mu    sync.Mutex
	shown map[string]fleet.BundleState // by name of the deployment
}

func newStepReporter(now func() time.Time, onAct func(Act)) *stepReporter {
	return &stepReporter{now: now, onAct: onAct, shown: map[string]fleet.BundleState{}}
}

// stepTaken reports a step and its result.
func (sr *stepReporter) stepTaken(s *snapshot, a release.Action, stepTaken time.Duration, err error) {
	act := Act{Took: stepTaken, Verb: a.Verb, Result: OK, Reason: a.Reason, Message: s.releaseAndCommit()}
	if a.Verb != release.Install && a.Verb != release.Upgrade { // their reasons are sufficient
		act.Message += ": " + a.Message
	}
	if err != nil {
		act.Result, act.Reason, act.Message = resultOf(err), reconcile.ReasonOf(err), err.Error()
	}
	if s.override != "" && release.NeedsWindow(a, true) {
		act.Override = s.override
	}
	sr.report(s, act)
}

// forget removes what is known of a deployment.
func (sr *stepReporter) forget(name string) {
	sr.mu.Lock()
	defer sr.mu.Unlock()
	delete(sr.shown, name)
}

// releaseAndCommit returns the release and the commit of a step as text.
func (s *snapshot) releaseAndCommit() string {
	text := s.wanted.ID.String()
	if commit := s.labels[fleet.LabelCommit]; commit != "" {
		text += " at " + commit[:min(len(commit), 7)]
	}
	return text
}

// decisionMade reports a decision to do nothing, or nothing more.
func (sr *stepReporter) decisionMade(s *snapshot, a release.Action) {
	act := Act{Verb: a.Verb, Result: Held, Reason: a.Reason, Message: a.Message}
	if a.Verb == release.Acknowledge {
		act.Result = OK
	}
	sr.report(s, act)
}

// driftCorrected reports a try to revert changes of other clients. It reports only the
// names of fields: their values may be secrets.
func (sr *stepReporter) driftCorrected(s *snapshot, a drift.Attempt) {
	act := Act{
		Took: a.Took, Verb: VerbCorrect, Result: OK, Reason: string(fleet.Modified), Message: differences(a.Changed),
	}
	if a.Err != nil {
		act.Result, act.Reason, act.Message = resultOf(a.Err), reconcile.ReasonOf(a.Err), a.Err.Error()
	}
	sr.report(s, act)
}

// resultOf returns the result of a step that returned err.
func resultOf(err error) Result {
	switch {
	case reconcile.IsTerminal(err):
		return Permanent
	case reconcile.IsRequeue(err) && !needsChange(reconcile.ReasonOf(err)):
		return Waiting
	}
	return Failed
}

// report passes an Act to the function of the configuration, if there is one.
func (sr *stepReporter) report(s *snapshot, act Act) {
	if sr.onAct == nil {
		return
	}
	keep := []string{s.name, s.wanted.ID.Name, s.wanted.ID.Namespace, s.labels[fleet.LabelCommit]}
	act.At, act.Deployment = sr.now(), s.name
	act.Message = redact.New(keep, s.observed.Values).Text(act.Message)
	sr.onAct(act)
}

// Limits of a list of differences.
const (
	shownObjects = 2
	shownFields  = 3
)

// differences returns the objects that other clients changed, and the fields, as text.
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

// difference returns one changed object and its changed fields as text.
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
	fields, err := plandrift.Fields(m.Patch)
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

// setState stores the state in which a run has ended.
func (sr *stepReporter) setState(s *snapshot, f report.Found) {
	bd := s.bd
	if bd == nil {
		bd = &fleet.BundleDeployment{Spec: s.spec}
	}
	seen := &fleet.BundleDeployment{ObjectMeta: bd.ObjectMeta, Spec: bd.Spec, Status: report.Status(bd, f, sr.now())}
	sr.mu.Lock()
	defer sr.mu.Unlock()
	sr.shown[s.name] = summary.State(seen, "")
}

// states returns the number of deployments for each state.
func (sr *stepReporter) states() map[fleet.BundleState]int {
	out := map[fleet.BundleState]int{}
	sr.mu.Lock()
	defer sr.mu.Unlock()
	for _, state := range sr.shown {
		out[state]++
	}
	return out
}
