package diagnose

import (
	"fmt"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// credentials reports how it stands with what agents show to the manager: who cannot
// come back by himself, who will when he is back, and whose ends next.
func credentials(s Observed) []Finding {
	about := map[string][]string{}
	lasting, first, where := 0, time.Time{}, ""
	for _, a := range s.Agents {
		c := a.Cluster
		name := c.Namespace + "/" + c.Name
		if cond := condition.Find(c.Status.Conditions, fleet.ConditionCredential); cond != nil {
			about[cond.Reason] = append(about[cond.Reason], name)
			if cond.Reason != credential.ReasonPending {
				continue
			}
		}
		switch ends := c.Status.Agent.CredentialExpires; {
		case c.Status.Agent.LastSeen.IsZero():
		case ends == nil:
			lasting++
		case first.IsZero() || ends.Time.Before(first):
			first, where = ends.Time, name
		}
	}
	var out []Finding
	for _, kind := range []struct {
		reason  string
		verdict Verdict
		text    string
		hint    string
	}{
		{credential.ReasonGraceOver, Fail, "%d ended too long ago for the agent to come back by itself: %s", "let it join again: fleet cluster join -n %s %s"},
		{credential.ReasonExpired, Warn, "%d ended while the agent was away: %s", "each fetches a new one when it is back; until when, its condition Credential says"},
		{credential.ReasonPending, Warn, "%d agents have not taken the one that lies ready: %s", "until they do, the ones before are good"},
		{credential.ReasonForeign, Warn, "%d are of another Fleet's accounts: %s", "this manager neither renews nor revokes these"},
	} {
		names := about[kind.reason]
		if len(names) == 0 {
			continue
		}
		f := Finding{Check: Credentials, Verdict: kind.verdict, Message: fmt.Sprintf(kind.text, len(names), firstNames(names, 3)), Hint: kind.hint}
		if kind.verdict == Fail {
			namespace, name, _ := strings.Cut(names[0], "/")
			f.Hint = fmt.Sprintf(kind.hint, namespace, name)
		}
		out = append(out, f)
	}
	if len(out) > 0 {
		return out
	}
	f := Finding{Check: Credentials, Verdict: OK, Message: "none yet"}
	switch {
	case !first.IsZero() && first.After(s.Now):
		f.Message = fmt.Sprintf("the next one ends in %s (%s), and is renewed before", view.Age(first.Sub(s.Now)), where)
	case !first.IsZero():
		f = Finding{Check: Credentials, Verdict: Warn, Message: "that of " + where + " has ended " + view.Age(s.Now.Sub(first)) + " ago",
			Hint: "on the site: fleet-agent status"}
	case lasting > 0:
		f.Message = fmt.Sprintf("%d, each good until it is revoked", lasting)
	}
	return []Finding{f}
}
