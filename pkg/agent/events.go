package agent

import (
	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// events record what the agent does: as Events in its own cluster, in its journal and as
// metrics.
type events struct {
	recorder *kube.Recorder
	journal  *agentJournal
	contact  *managerState // what the Events are about
	metrics  *Metrics
}

// record records something about the agent as a whole: as an event in its own cluster,
// and in the journal.
func (e *events) record(kind, reason, text string) {
	e.recorder.Event(e.contact.object(), kind, reason, text)
	e.journal.add(journal.Entry{Verb: verbNote, Reason: reason, Message: text})
}

// recordAct records a step of the deploy controller in the journal. It emits an event
// for steps that a user of the cluster should see, once for repeated steps.
func (e *events) recordAct(act deploy.Act) {
	e.metrics.recordAct(act)
	if act.Override != "" {
		e.record(kube.Warning, "WindowOverridden", act.Deployment+": "+string(act.Verb)+" outside of the change windows, "+act.Override)
	}
	if changes := e.journal.add(entryOf(act)); !changes {
		return
	}
	if kind, reason, ok := eventOf(act); ok {
		e.recorder.Event(e.contact.object(), kind, reason, act.Deployment+": "+act.Message)
	}
}

// entryOf returns the journal entry of a step.
func entryOf(act deploy.Act) journal.Entry {
	e := journal.Entry{At: act.At, Deployment: act.Deployment, Verb: string(act.Verb), Reason: act.Reason, Message: act.Message}
	switch act.Result {
	case deploy.Waiting:
		e.Verb = verbWait
	case deploy.Failed:
		e.Message = "failed: " + e.Message
	case deploy.Permanent:
		if release.MayPass(act.Reason) {
			e.Message = "failed, and is tried again within 5 minutes: " + e.Message
			break
		}
		e.Message = "failed, and is not tried again until something else is wanted: " + e.Message
	case deploy.OK, deploy.Held:
	}
	return e
}

// eventOf returns the event of a step; false if the step causes none. Events are for
// steps that failed or were refused for a known reason, for removals, and for
// corrections. A failure without a reason is expected to pass.
func eventOf(act deploy.Act) (kind, reason string, ok bool) {
	switch {
	case act.Result == deploy.Permanent, act.Result == deploy.Failed, act.Verb == release.Refuse:
		return kube.Warning, act.Reason, act.Reason != ""
	case act.Result != deploy.OK:
		return "", "", false
	}
	switch act.Verb {
	case deploy.VerbCorrect:
		return kube.Normal, "Corrected", true
	case release.Uninstall:
		return kube.Normal, "Uninstalled", true
	case release.Forget:
		return kube.Normal, "Forgotten", true
	}
	return "", "", false
}
