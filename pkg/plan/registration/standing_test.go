package registration

import (
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestStandingOf(t *testing.T) {
	renewed := request("r", "a", time.Minute)
	renewed.Spec.ClientRandom = "other"
	external := granted(request("external", "a", time.Hour))
	external.Labels = map[string]string{fleet.LabelClusterManagement: "rancher"}
	const overlap = 3 * time.Minute
	fetchable, unused := Handed{Fetchable: true}, Handed{Over: true}
	used := func(d time.Duration) Handed { return Handed{Over: true, Used: true, For: d} }
	cases := map[string]struct {
		why    string
		r      *fleet.ClusterRegistration
		other  *fleet.ClusterRegistration
		handed map[string]Handed
		want   Standing
		left   time.Duration
	}{
		"Alone": {why: "a lone request is answered", r: request("r", "a", 0), want: Newest},
		"NewerInUse": {
			why: "an agent that joined again has no use for its old credential",
			r:   granted(request("r", "a", 0)), other: granted(request("s", "a", time.Minute)),
			handed: map[string]Handed{"r": used(time.Hour), "s": used(overlap)},
			want:   Superseded,
		},
		"NewerJustInUse": {
			why: "an agent that is alive with the old one shows itself in that time",
			r:   granted(request("r", "a", 0)), other: granted(request("s", "a", time.Minute)),
			handed: map[string]Handed{"r": used(time.Hour), "s": used(time.Minute)},
			want:   Outgoing, left: 2 * time.Minute,
		},
		"NewerNotUsedYet": {
			why: "the old credential works until the new one does",
			r:   granted(request("r", "a", 0)), other: granted(request("s", "a", time.Minute)),
			handed: map[string]Handed{"r": used(time.Hour), "s": fetchable},
			want:   Outgoing,
		},
		"NewerNeverUsed": {
			why: "an agent that could not use the new credential goes on with the old one",
			r:   granted(request("r", "a", 0)), other: granted(request("s", "a", time.Minute)),
			handed: map[string]Handed{"r": used(time.Hour), "s": unused},
			want:   Outgoing,
		},
		"NeverUsed": {
			why: "and the new one goes when it cannot be fetched any more",
			r:   granted(request("r", "a", time.Minute)), other: granted(request("s", "a", 0)),
			handed: map[string]Handed{"r": unused, "s": used(time.Hour)},
			want:   Unused,
		},
		"FirstNeverUsed": {
			why: "without one before it nothing is won by taking it back",
			r:   granted(request("r", "a", time.Minute)), handed: map[string]Handed{"r": unused},
			want: Newest,
		},
		"UseNotRecorded": {
			why: "an API server that does not say which tokens are used must not keep two credentials for ever",
			r:   granted(request("r", "a", 0)), other: granted(request("s", "a", time.Minute)),
			handed: map[string]Handed{"r": unused, "s": unused},
			want:   Superseded,
		},
		"UseNotRecordedYet": {
			why: "as long as it can be fetched it may not have been",
			r:   granted(request("r", "a", 0)), other: granted(request("s", "a", time.Minute)),
			handed: map[string]Handed{"r": unused, "s": fetchable},
			want:   Outgoing,
		},
		"NewerUseNotRecorded": {
			why: "the newer one stays",
			r:   granted(request("r", "a", time.Minute)), other: granted(request("s", "a", 0)),
			handed: map[string]Handed{"r": unused, "s": unused},
			want:   Newest,
		},
		"AskedBefore": {
			why: "a request that was never answered is of no use after a newer one was",
			r:   request("r", "a", 0), other: granted(request("s", "a", time.Minute)),
			want: Superseded,
		},
		"NewerAsks": {
			why: "the old credential works until the new one does",
			r:   granted(request("r", "a", 0)), other: request("s", "a", time.Minute),
			want: Waiting,
		},
		"OlderGranted": {
			why: "the newer request is answered",
			r:   request("r", "a", time.Minute), other: granted(request("s", "a", 0)),
			want: Newest,
		},
		"SameSecond": {
			why: "times have seconds: of two in one second neither may starve",
			r:   request("r", "a", 0), other: granted(request("s", "a", 0)),
			want: Newest,
		},
		"SameSecondUsedEarlier": {
			why: "of two that were granted in one second the one in use later is the newer",
			r:   granted(request("r", "a", 0)), other: granted(request("s", "a", 0)),
			handed: map[string]Handed{"r": used(5 * time.Minute), "s": used(4 * time.Minute)},
			want:   Superseded,
		},
		"SameSecondUsedLater": {
			why: "and stays",
			r:   granted(request("r", "a", 0)), other: granted(request("s", "a", 0)),
			handed: map[string]Handed{"r": used(4 * time.Minute), "s": used(5 * time.Minute)},
			want:   Newest,
		},
		"AsksAgain": {
			why: "an agent that was started again finds the answer to its first request; another would void it",
			r:   request("r", "a", time.Minute), other: granted(request("s", "a", 0)),
			handed: map[string]Handed{"s": fetchable},
			want:   Repeated,
		},
		"AsksAgainTooLate": {
			why: "a credential that cannot be fetched any more is no answer",
			r:   request("r", "a", time.Minute), other: granted(request("s", "a", 0)),
			handed: map[string]Handed{"s": unused},
			want:   Newest,
		},
		"AsksWithAnotherWord": {
			why: "an agent that lost its credential made up another word",
			r:   renewed, other: granted(request("s", "a", 0)),
			handed: map[string]Handed{"s": fetchable},
			want:   Newest,
		},
		"OtherClient": {
			why: "others do not matter",
			r:   request("r", "a", 0), other: granted(request("s", "b", time.Minute)),
			want: Newest,
		},
		"External": {
			why: "what another manager answers does not count",
			r:   request("r", "a", 0), other: external,
			want: Newest,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			all := []*fleet.ClusterRegistration{c.r}
			if c.other != nil {
				all = append(all, c.other)
			}
			if got, left := StandingOf(c.r, all, c.handed, overlap); got != c.want || left != c.left {
				t.Errorf("%s: want %d, %s, got %d, %s", c.why, c.want, c.left, got, left)
			}
		})
	}
}

func TestOverlap(t *testing.T) {
	for checkin, want := range map[time.Duration]time.Duration{
		time.Second: 3 * time.Second, time.Minute: 3 * time.Minute, time.Hour: 5 * time.Minute, 0: 3 * time.Minute,
	} {
		if got := Overlap(checkin); got != want {
			t.Errorf("%s: want %s, got %s", checkin, want, got)
		}
	}
}

func TestPresent(t *testing.T) {
	kept, stays := request("kept", "a", 0), request("stays", "a", 0)
	gone := at(time.Minute)
	kept.DeletionTimestamp, kept.Finalizers = &gone, []string{"example.com/x"}
	all := []*fleet.ClusterRegistration{kept, stays}
	if got := Present(all); len(got) != 1 || got[0] != stays {
		t.Errorf("a request that is being deleted counts, whatever keeps it: %v", got)
	}
	if all[0] != kept || len(all) != 2 {
		t.Error("the list of the cache is changed")
	}
}
