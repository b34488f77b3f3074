package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/agent/deploy"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/journal"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

var noon = time.Date(2026, 8, 24, 12, 0, 0, 0, time.UTC)

func TestActs(t *testing.T) {
	type event struct{ Kind, Reason string }
	cases := map[string]struct {
		why   string
		act   deploy.Act
		line  string
		event event // none where empty
	}{
		"Installed": {
			why: "the journal says it; an event for every deployment would be a write for each", act: deploy.Act{Verb: release.Install, Result: deploy.OK, Reason: "New", Message: "web/web at 8b7d410"},
			line: "2026-08-24T12:00:00Z web install New 1 web/web at 8b7d410\n",
		},
		"Waiting": {
			why: "what is waited for passes by itself", act: deploy.Act{Verb: release.Upgrade, Result: deploy.Waiting, Reason: "ContentMissing", Message: "not there yet"},
			line: "2026-08-24T12:00:00Z web wait ContentMissing 1 not there yet\n",
		},
		"Forbidden": {
			why: "somebody has to do something", act: deploy.Act{Verb: release.Install, Result: deploy.Failed, Reason: "Forbidden", Message: "no rights"},
			line:  "2026-08-24T12:00:00Z web install Forbidden 1 failed: no rights\n",
			event: event{kube.Warning, "Forbidden"},
		},
		"Hiccup": {
			why: "a failure without a reason is tried again at once", act: deploy.Act{Verb: release.Install, Result: deploy.Failed, Message: "EOF"},
			line: "2026-08-24T12:00:00Z web install - 1 failed: EOF\n",
		},
		"ForGood": {
			why: "it stays so", act: deploy.Act{Verb: release.Upgrade, Result: deploy.Permanent, Reason: "InvalidChart", Message: "no name"},
			line:  "2026-08-24T12:00:00Z web upgrade InvalidChart 1 failed, and is not tried again until something else is wanted: no name\n",
			event: event{kube.Warning, "InvalidChart"},
		},
		"InTheWay": {
			why: "somebody may remove the object that is in the way, so the agent tries again", act: deploy.Act{
				Verb: release.Install, Result: deploy.Permanent, Reason: release.ReasonNotOwned, Message: "ConfigMap web/a exists",
			},
			line:  "2026-08-24T12:00:00Z web install NotOwned 1 failed, and is tried again within 5 minutes: ConfigMap web/a exists\n",
			event: event{kube.Warning, release.ReasonNotOwned},
		},
		"Refused": {
			why: "two want the same release", act: deploy.Act{Verb: release.Refuse, Result: deploy.Held, Reason: release.ReasonReleaseTaken, Message: "web/web belongs to another"},
			line:  "2026-08-24T12:00:00Z web refuse ReleaseTaken 1 web/web belongs to another\n",
			event: event{kube.Warning, release.ReasonReleaseTaken},
		},
		"Held": {
			why: "others come first", act: deploy.Act{Verb: release.Hold, Result: deploy.Held, Reason: release.ReasonWaitsForOthers, Message: "waits"},
			line: "2026-08-24T12:00:00Z web hold WaitsForOthers 1 waits\n",
		},
		"Corrected": {
			why: "somebody on the site wonders where the change went", act: deploy.Act{Verb: deploy.VerbCorrect, Result: deploy.OK, Reason: "Modified", Message: "ConfigMap web/a /data/k"},
			line:  "2026-08-24T12:00:00Z web correct Modified 1 ConfigMap web/a /data/k\n",
			event: event{kube.Normal, "Corrected"},
		},
		"Uninstalled": {
			why: "something is gone", act: deploy.Act{Verb: release.Uninstall, Result: deploy.OK, Reason: "Withdrawn", Message: "web/web"},
			line:  "2026-08-24T12:00:00Z web uninstall Withdrawn 1 web/web\n",
			event: event{kube.Normal, "Uninstalled"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.act.At, c.act.Deployment = noon, "web"
			var j journal.Journal
			j.Add(entryOf(c.act))
			if diff := cmp.Diff(c.line, journal.Text(j.Entries())); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			var got event
			if kind, reason, ok := eventOf(c.act); ok {
				got = event{kind, reason}
			}
			if diff := cmp.Diff(c.event, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}
