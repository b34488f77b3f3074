package release

import "testing"

// Outside of the change windows nothing new is deployed and nothing is uninstalled; what ran
// before is repaired.
func TestDecideOutsideWindows(t *testing.T) {
	closed := with(want, func(w *Wanted) { w.Closed, w.OpensIn = "closed", HandLimit })
	applied := func(w *Wanted) { w.Applied = w.DeploymentID }
	ordered := func(w *Wanted) { w.Order, w.Applied = "order", w.DeploymentID }
	absent := Observed{ID: id, State: Absent}
	cases := map[string]struct {
		why      string
		observed Observed
		wanted   Wanted
		verb     Verb
	}{
		"New":         {"a first version", absent, closed, Hold},
		"Changed":     {"another version", at(Deployed, "s-1:a"), with(closed, func(w *Wanted) { w.Applied = "s-1:a" }), Hold},
		"Retry":       {"a version that has failed in the window", at(Failed, "s-2:b"), closed, Hold},
		"UpToDate":    {"nothing to do", at(Deployed, "s-2:b"), with(closed, applied), Keep},
		"Missing":     {"what ran is gone", absent, with(closed, applied), Install},
		"Interrupted": {"a record is put right", at(PendingUpgrade, "s-2:b"), closed, Fail},
		"Withdrawn":   {"a removal is a change", at(Deployed, "s-2:b"), with(closed, ordered), Hold},
		"Gone":        {"there is nothing to remove", absent, with(closed, ordered), Acknowledge},
		"Abandoned":   {"no object is changed", at(Deployed, "s-2:b"), with(closed, func(w *Wanted) { ordered(w); w.Abandon = true }), Forget},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := Decide(c.observed, c.wanted)
			if a.Verb != c.verb || a.Verb == Hold && (a.Reason != ReasonOutsideWindow || a.After != HandLimit || a.Message != "closed") {
				t.Errorf("%s: got %+v, want %s", c.why, a, c.verb)
			}
		})
	}
}
