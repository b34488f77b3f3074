package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

func server(s Observed) Finding {
	f := Finding{Check: Server, Verdict: OK}
	if hop := s.Server.Failed; hop != nil {
		f.Verdict, f.Message = Fail, fmt.Sprintf("%s: %s: %s", s.Server.URL, hop.Part, hop.Text)
		return f
	}
	f.Message = fmt.Sprintf("%s, Kubernetes %s, %d ms", s.Server.URL, s.Server.Version, s.Server.Took.Milliseconds())
	return f
}

func manager(s Observed) []Finding {
	m := s.Manager
	f := Finding{Check: Manager, Verdict: OK}
	switch {
	case m == nil || m.Version == "" && m.Leader == "" && m.LastSign == nil:
		f.Verdict, f.Message = Fail, "none in namespace "+s.Namespace
		f.Hint = "to install one: fleet install controller | kubectl apply -f -"
		if len(s.Others) > 0 {
			f.Message += "; there is one in " + strings.Join(s.Others, ", ")
			f.Hint = "--system-namespace " + s.Others[0]
		}
		return []Finding{f}
	case m.Leader == "" && m.LastSign == nil:
		f.Verdict, f.Message = Fail, managerName(m)+" has never led"
	case m.Leader == "":
		f.Verdict, f.Message = Fail, fmt.Sprintf("%s does not run, last sign of life %s ago", managerName(m), view.Ago(*m.LastSign, s.Now))
	default:
		f.Message = managerName(m) + ", leader " + m.Leader
		if m.Since != nil {
			f.Message += " for " + view.Ago(*m.Since, s.Now)
		}
	}
	if texts := m.CrashTexts(s.Now); len(texts) > 0 {
		f.Verdict, f.Message = Fail, f.Message+"; "+strings.Join(texts, "; ")
	}
	if f.Verdict == Fail {
		f.Hint = "kubectl -n " + s.Namespace + " get pods,events"
	}
	switch {
	case len(s.Others) > 0:
		f.Message += "; further managers in " + strings.Join(s.Others, ", ")
		if f.Verdict == OK {
			f.Verdict = Warn
			f.Hint = "each leaves the clusters of the others alone; --system-namespace checks another one"
		}
	case f.Verdict == OK:
		f.Message += "; no other manager"
	}
	return []Finding{f}
}

func managerName(m *view.Manager) string {
	name := "rancher/fleet"
	if m.Implementation != "" {
		name = m.Implementation
	}
	if m.Version != "" {
		name += " " + m.Version
	}
	return name
}

// crds compares the kinds of the server with those of this program.
func crds(s Observed) []Finding {
	have := map[string]int{}
	for _, c := range s.CRDs {
		have[c.Name] = c.Revision
	}
	var missing, older, newer []string
	for _, kind := range fleet.Kinds() {
		plural := kind.Plural
		revision, ok := have[kind.Name()]
		switch {
		case !ok:
			missing = append(missing, plural)
		case revision < fleet.CRDRevision:
			older = append(older, plural)
		case revision > fleet.CRDRevision:
			newer = append(newer, plural)
		}
	}
	f := Finding{Check: CRDs, Verdict: OK, Message: fmt.Sprintf("%d, newest", len(s.CRDs))}
	const hint = "fleet install controller --crds-only | kubectl apply -f -"
	switch {
	case len(missing) > 0:
		f.Verdict, f.Message, f.Hint = Fail, "missing: "+firstNames(missing, 5), hint
	case len(older) > 0:
		f.Verdict, f.Hint = Warn, hint
		f.Message = fmt.Sprintf("%d, of which %d are older than this program: %s", len(s.CRDs), len(older), firstNames(older, 3))
	case len(newer) > 0:
		f.Verdict, f.Message = Warn, fmt.Sprintf("%d, newer than this program", len(s.CRDs))
		f.Hint = "use the fleet program of the manager's version"
	}
	return []Finding{f}
}

// address judges where agents are sent. It is said only where the manager has
// an address to give.
func address(s Observed) []Finding {
	a := s.Address
	switch {
	case !a.Known || a.URL == "":
		return nil
	case a.Failed != nil:
		return []Finding{{
			Check: Address, Verdict: Warn, Message: fmt.Sprintf("agents are sent to %s, and from here: %s: %s", a.URL, a.Failed.Part, a.Failed.Text),
			Hint: "if agents cannot reach it either: values apiServerURL and apiServerCA of the chart fleet",
		}}
	}
	return []Finding{{Check: Address, Verdict: OK, Message: "agents are sent to " + a.URL + ", which answers here"}}
}

// tokens warns of tokens that never expire.
func tokens(s Observed) []Finding {
	var endless []*fleet.ClusterRegistrationToken
	for _, t := range s.Tokens {
		// What a Cluster owns ends with it, and the manager renews it.
		if (t.Spec.TTL == nil || t.Spec.TTL.Duration <= 0) && len(t.OwnerReferences) == 0 {
			endless = append(endless, t)
		}
	}
	if len(endless) == 0 {
		return []Finding{{Check: Tokens, Verdict: OK, Message: fmt.Sprintf("%d, each ends", len(s.Tokens))}}
	}
	slices.SortStableFunc(endless, func(a, b *fleet.ClusterRegistrationToken) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	var names []string
	for _, t := range endless {
		names = append(names, fmt.Sprintf("%s/%s (%s)", t.Namespace, t.Name, view.Ago(t.CreationTimestamp.Time, s.Now)))
	}
	verb := "never expire"
	if len(endless) == 1 {
		verb = "never expires"
	}
	return []Finding{{
		Check: Tokens, Verdict: Warn, Message: fmt.Sprintf("%d %s: %s", len(endless), verb, firstNames(names, 3)),
		Hint: fmt.Sprintf("whoever has one may join for ever; to end one: kubectl -n %s delete clusterregistrationtoken %s", endless[0].Namespace, endless[0].Name),
	}}
}

// firstNames are the first of a list, and how many more there are.
func firstNames(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), len(list)-n)
}

// seconds is a difference of clocks in words.
func seconds(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return view.Age(d)
}
