package release

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 8, 24, 12, 0, 0, 0, time.UTC)

// history parses words into revisions: "deployed:b" is one that we made for
// deployment ID b, "deployed" one that another Helm client made. Further words
// of a revision are its description.
func history(words ...string) []Revision {
	var out []Revision
	for i, w := range words {
		head, text, _ := strings.Cut(w, " ")
		state, id, ours := strings.Cut(head, ":")
		r := Revision{Number: i + 1, State: State(state), Description: text, Since: noon.Add(-time.Hour)}
		if ours {
			r.Memory = Record{Owner: us, DeploymentID: id}
		}
		out = append(out, r)
	}
	return out
}

// What Helm's storage holds decides, and nothing else: each case is what a
// process finds that was started a moment ago.
func TestDecideByHistory(t *testing.T) {
	wanted := Wanted{ID: id, Self: us, DeploymentID: "b", Now: noon}
	applied := with(wanted, func(w *Wanted) { w.Applied = "b" })
	correcting := with(applied, func(w *Wanted) { w.Correct = true })
	cases := map[string]struct {
		why     string
		history []Revision
		wanted  Wanted
		verb    Verb
		reason  string
		good    int // the revision that the objects are compared with
	}{
		"Nothing": {why: "nothing is there", wanted: wanted, verb: Install, reason: "New"},
		"Ours": {
			why: "the usual case", history: history("superseded:a", "deployed:b"), wanted: wanted, verb: Keep, reason: ReasonUpToDate, good: 2,
		},

		"UpgradedByHand": {
			why:     "helm upgrade by a person is drift: reported and, where that is asked for, corrected; not a reason to deploy",
			history: history("superseded:b", "deployed"), wanted: applied, verb: Keep, reason: ReasonByHand, good: 1,
		},
		"UpgradedByHandUnknown": {
			why:     "whether this process knows what it did before makes no difference",
			history: history("superseded:b", "deployed"), wanted: wanted, verb: Keep, reason: ReasonByHand, good: 1,
		},
		"UpgradedByHandThenChanged": {
			why:     "what the manager wants next goes on top of it",
			history: history("superseded:a", "deployed"), wanted: wanted, verb: Upgrade, reason: "Changed", good: 1,
		},
		"UpgradedByHandTwice": {
			why:     "twice is as often as once",
			history: history("superseded:b", "superseded", "deployed"), wanted: wanted, verb: Keep, reason: ReasonByHand, good: 1,
		},
		"InstalledByHandInstead": {
			why:     "uninstalled and installed again by hand: nothing of it is ours",
			history: history("deployed"), wanted: applied, verb: Refuse, reason: ReasonForeignRelease, good: 1,
		},
		"RolledBackByHand": {
			why:     "helm rollback by a person copies our marks, and is drift all the same",
			history: history("superseded:a", "superseded:b", "deployed:a Rollback to 1"), wanted: applied, verb: Keep, reason: ReasonByHand, good: 2,
		},
		"RolledBackByHandTwice": {
			why:     "the second time there is nothing newer than the first",
			history: history("superseded:a", "superseded:b", "superseded:a Rollback to 1", "deployed:a Rollback to 1"), wanted: applied,
			verb: Keep, reason: ReasonByHand, good: 2,
		},
		"RolledBackByHandThenByTheManager": {
			why:     "the manager wants the old state too: it is deployed, so that it is ours again",
			history: history("superseded:b", "superseded:a", "deployed:b Rollback to 1"), wanted: wanted, verb: Upgrade, reason: "Changed", good: 2,
		},
		"RolledBackByHandThenCorrected": {
			why:     "a correction undoes a rollback by hand by another rollback",
			history: history("superseded:b", "superseded:a Rollback to 1", "deployed:b Rollback to 1 (by Fleet)"), wanted: applied,
			verb: Keep, reason: ReasonUpToDate, good: 3,
		},
		"RevertedInGit": {
			why:     "an older state that the manager wants is no rollback by hand",
			history: history("superseded:b", "deployed:a"), wanted: wanted, verb: Upgrade, reason: "Changed", good: 2,
		},
		"CorrectedByTheReference": {
			why:     "others correct drift by a rollback without a mark, to the same state",
			history: history("superseded:b", "deployed:b Rollback to 1"), wanted: applied, verb: Keep, reason: ReasonUpToDate, good: 2,
		},
		"AtomicRollback": {
			why:     "helm.atomic went back and the process was killed before it could note why",
			history: history("superseded:a", "failed:b", "deployed:a Rollback to 1 (by Fleet)"), wanted: wanted, verb: Upgrade, reason: "Changed", good: 3,
		},
		"FailedByHand": {
			why:     "a person's attempt that failed changes nothing about what is deployed",
			history: history("deployed:b", "failed"), wanted: applied, verb: Keep, reason: ReasonByHand, good: 1,
		},
		"HandsAtWork": {
			why:     "a person is at it right now: a revision that is being made is not marked as failed under their hands",
			history: begun(history("deployed:a", "pending-upgrade"), time.Minute), wanted: wanted, verb: Hold, reason: ReasonByHand, good: 1,
		},
		"HandsAtWorkElsewhere": {
			why:     "a clock that is a little ahead is no excuse",
			history: begun(history("deployed:a", "pending-upgrade"), -time.Minute), wanted: wanted, verb: Hold, reason: ReasonByHand, good: 1,
		},
		"HandsGaveUp": {
			why:     "no operation takes that long",
			history: begun(history("deployed:a", "pending-upgrade"), HandLimit), wanted: wanted, verb: Fail, reason: "Interrupted", good: 1,
		},
		"HandsOfTomorrow": {
			why:     "a clock that is far ahead must not block a release for ever",
			history: begun(history("deployed:a", "pending-upgrade"), -time.Hour), wanted: wanted, verb: Fail, reason: "Interrupted", good: 1,
		},
		"HandsRollingBack": {
			why:     "a rollback that a person has begun is not ours to take up",
			history: begun(history("superseded:a", "deployed:b", "pending-rollback:a Rollback to 1"), time.Minute), wanted: correcting,
			verb: Hold, reason: ReasonByHand, good: 2,
		},

		"InstallCutOff": {
			why: "killed while installing", history: history("pending-install:b"), wanted: wanted, verb: Fail, reason: "Interrupted",
		},
		"InstallCutOffMarked": {
			why:     "after that it is installed, not upgraded",
			history: history("failed:b " + InterruptedText(PendingInstall)), wanted: wanted, verb: Install, reason: "Retry",
		},
		"InstallCutOffTwice": {
			why:     "however often",
			history: history("failed:b", "failed:b"), wanted: wanted, verb: Install, reason: "Retry",
		},
		"InstallMended": {
			why:     "an install that failed and was mended in git is still the first",
			history: history("failed:a"), wanted: wanted, verb: Install, reason: "Retry",
		},
		"UpgradeCutOff": {
			why:     "killed while upgrading",
			history: history("deployed:a", "pending-upgrade:b"), wanted: wanted, verb: Fail, reason: "Interrupted", good: 1,
		},
		"UpgradeCutOffMarked": {
			why:     "what was deployed before is what is compared until then",
			history: history("deployed:a", "failed:b"), wanted: wanted, verb: Upgrade, reason: "Retry", good: 1,
		},
		"UpgradeCutOffAtTheEnd": {
			why:     "killed between the two last records",
			history: history("superseded:a", "pending-upgrade:b"), wanted: wanted, verb: Fail, reason: "Interrupted", good: 1,
		},
		"UpgradeCutOffAtTheEndMarked": {
			why:     "nothing is deployed by the records, but the release is no new one",
			history: history("superseded:a", "failed:b"), wanted: wanted, verb: Upgrade, reason: "Retry", good: 1,
		},
		"CorrectionCutOff": {
			why:     "a correction that was begun is brought to its end",
			history: history("deployed:b", "pending-rollback:b Rollback to 1 (by Fleet)"), wanted: correcting, verb: Resume, reason: "Interrupted", good: 1,
		},
		"CorrectionCutOffAtTheEnd": {
			why:     "the same between the two last records",
			history: history("superseded:b", "pending-rollback:b Rollback to 1 (by Fleet)"), wanted: correcting, verb: Resume, reason: "Interrupted", good: 1,
		},
		"CorrectionCutOffUnwanted": {
			why:     "unless drift is to stay now",
			history: history("superseded:b", "pending-rollback:b Rollback to 1 (by Fleet)"), wanted: applied, verb: Fail, reason: "Interrupted", good: 1,
		},
		"CorrectionCutOffMarked": {
			why:     "then the revision that runs is marked as deployed again",
			history: history("superseded:b", "failed:b "+InterruptedText(PendingRollback)), wanted: applied, verb: Mend, reason: "Interrupted", good: 1,
		},
		"CorrectionCutOffThenChanged": {
			why:     "something else is wanted by now",
			history: history("deployed:a", "pending-rollback:a Rollback to 1 (by Fleet)"), wanted: correcting, verb: Fail, reason: "Interrupted", good: 1,
		},
		"CorrectionFailed": {
			why:     "a correction that failed and is kept in the history is no reason to deploy again",
			history: history("deployed:b", "failed:b"), wanted: applied, verb: Keep, reason: ReasonUpToDate, good: 1,
		},

		"Revived": {
			why:     "an uninstall was cut off and the order taken back: what is left stays",
			history: history("superseded:a", "uninstalling:b"), wanted: wanted, verb: Fail, reason: "Interrupted", good: 1,
		},
		"RevivedAfterCorrections": {
			why:     "a removal was cut off that followed a correction: the revision before it is good, and yet objects are missing",
			history: history("superseded:b", "failed:b "+InterruptedText(Uninstalling)), wanted: applied, verb: Upgrade, reason: "Retry", good: 1,
		},
		"CutOffAndUnheard": {
			why:     "a process that is started in the middle of a removal does not know of the order yet: nothing is brought back, and nothing removed",
			history: history("superseded:b", "uninstalling:b"), wanted: with(applied, func(w *Wanted) { w.Unreported = true }),
			verb: Hold, reason: ReasonWaitsForManager, good: 1,
		},
		"RevivedMarked": {
			why:     "and the rest comes back; it is no new install, its data may be there",
			history: history("failed:b " + InterruptedText(Uninstalling)), wanted: wanted, verb: Upgrade, reason: "Retry",
		},
		"KeptHistory": {
			why:     "helm uninstall --keep-history: the release is gone, whatever the records say of it",
			history: history("superseded:a", "uninstalled:b"), wanted: wanted, verb: Forget, reason: "Uninstalled", good: 1,
		},
		"SupersededOnly": {
			why:     "the newest record is lost: it is not known what runs, so it is deployed",
			history: history("superseded:b"), wanted: applied, verb: Upgrade, reason: "Retry", good: 1,
		},
		"TakenOverAndFailed": {
			why:     "a release of another client that we took over is no new one",
			history: history("deployed", "failed:b"), wanted: wanted, verb: Upgrade, reason: "Retry",
		},
		"UnreadableOfOurs": {
			why:     "the older records say whose it is",
			history: history("superseded:a", "unreadable"), wanted: wanted, verb: Purge, reason: "Unreadable", good: 1,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			o := Summarize(id, c.history)
			check(t, c.why, Decide(o, c.wanted), c.verb, c.reason)
			if o.Good != c.good {
				t.Errorf("%s: want revision %d as the good one, got %d", c.why, c.good, o.Good)
			}
		})
	}
}

// begun says since when the newest revision is being made.
func begun(list []Revision, ago time.Duration) []Revision {
	list[len(list)-1].Since = noon.Add(-ago)
	return list
}

// A release that a deployment made under another name, or in another namespace,
// goes as if it were withdrawn.
func TestDecideFormer(t *testing.T) {
	former := Wanted{ID: ID{"prod", "old"}, Self: us, DeploymentID: "b", Order: "renamed", Now: noon}
	heir := Peer{ID: former.ID, Live: true, SameRepository: true, Tried: true}
	cases := map[string]struct {
		why     string
		history []Revision
		wanted  Wanted
		verb    Verb
		reason  string
	}{
		"Renamed": {
			why: "the new one is there, the old one goes", history: history("deployed:a"), wanted: former, verb: Uninstall, reason: "Withdrawn",
		},
		"Gone": {why: "once", wanted: former, verb: Acknowledge, reason: "Uninstalled"},
		"Foreign": {
			why: "another release has the name by now", history: history("deployed"), wanted: former, verb: Acknowledge, reason: "Uninstalled",
		},
		"Inherited": {
			why:     "another bundle of the repository wants that very release: it takes it over, nothing is uninstalled",
			history: history("deployed:a"), wanted: among(former, "new", heir), verb: Hold, reason: ReasonWaitsForOthers,
		},
		"CutOff": {
			why: "killed while it was removed", history: history("uninstalling:a"), wanted: former, verb: Uninstall, reason: "Withdrawn",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			check(t, c.why, Decide(Summarize(c.wanted.ID, c.history), c.wanted), c.verb, c.reason)
		})
	}
}

// What is decided leads somewhere: each step, once taken, changes what is found,
// and a few of them bring every history to rest.
func TestDecideComesToRest(t *testing.T) {
	states := []string{"deployed", "failed", "pending-install", "pending-upgrade", "pending-rollback", "uninstalling", "uninstalled", "superseded", "unreadable"}
	for _, first := range states {
		for _, second := range append(states, "") {
			for _, id := range []string{"a", "b"} {
				words := []string{first + ":a"}
				if second != "" {
					words = append(words, second+":"+id)
				}
				for _, w := range []Wanted{
					{ID: ID{"prod", "web"}, Self: us, DeploymentID: "b", Applied: "b", Now: noon},
					{ID: ID{"prod", "web"}, Self: us, DeploymentID: "b", Applied: "a", Correct: true, Now: noon},
					{ID: ID{"prod", "web"}, Self: us, DeploymentID: "b", Applied: "b", Order: "o1", Now: noon},
				} {
					if steps, ok := play(history(words...), w); !ok {
						t.Errorf("order %q, applied %s: %s", w.Order, w.Applied, steps)
					}
				}
			}
		}
	}
}

// play takes steps as Helm would until there is none left.
func play(list []Revision, w Wanted) (steps string, ok bool) {
	for range 8 {
		a := Decide(Summarize(w.ID, list), w)
		steps += fmt.Sprintf("%s -> %s; ", text(list), a.Verb)
		switch a.Verb {
		case Keep, Hold, Refuse, Acknowledge:
			return steps, true
		case Uninstall, Forget:
			list = nil
		case Purge:
			list = keepIf(list, func(r Revision) bool { return r.State != Unreadable })
		case Fail:
			last := &list[len(list)-1]
			last.State, last.Description = Failed, InterruptedText(last.State)
		case Mend:
			list[Summarize(w.ID, list).Good-1].State = Deployed
		case Install, Upgrade, Resume:
			for i := range list {
				if list[i].State == Deployed {
					list[i].State = Superseded
				}
			}
			list = append(list, Revision{Number: len(list) + 1, State: Deployed, Memory: Record{Owner: w.Self, DeploymentID: w.DeploymentID}})
		}
	}
	return steps, false
}

func keepIf(list []Revision, f func(Revision) bool) []Revision {
	var out []Revision
	for _, r := range list {
		if f(r) {
			r.Number = len(out) + 1
			out = append(out, r)
		}
	}
	return out
}

func text(list []Revision) string {
	words := make([]string, 0, len(list))
	for _, r := range list {
		words = append(words, fmt.Sprintf("%s:%s", r.State, r.Memory.DeploymentID))
	}
	return strings.Join(words, ",")
}

func TestRollbackText(t *testing.T) {
	once := RollbackText("Rollback to 3")
	if diff := cmp.Diff([]string{"Rollback to 3 (by Fleet)", once}, []string{once, RollbackText(once)}); diff != "" {
		t.Error(diff)
	}
}
