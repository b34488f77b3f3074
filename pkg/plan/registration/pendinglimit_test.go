package registration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestCrowded(t *testing.T) {
	var unseen []*fleet.Cluster
	by := map[string][]*fleet.ClusterRegistration{}
	add := func(tokens ...string) {
		c := aCluster(fmt.Sprintf("c%d", len(unseen)), fmt.Sprintf("id%d", len(unseen)), 0)
		unseen = append(unseen, c)
		for _, token := range tokens {
			r := request("r-"+c.Name, c.Spec.ClientID, 0)
			r.Labels = map[string]string{fleet.LabelRegistrationToken: token}
			by[c.Name] = append(by[c.Name], r)
		}
	}
	add("t", "t") // asked for twice
	add("t")
	add("other")
	add() // made by a person
	token := &fleet.ClusterRegistrationToken{}
	token.Name = "t"
	for name, c := range map[string]struct {
		why   string
		limit int
		waits bool
	}{
		"Room":      {"two of the token's own are pending", 3, false},
		"Full":      {"what one token brings in must not fill the management cluster", 2, true},
		"NoLimit":   {"an administrator wants none", 0, false},
		"FewUnseen": {"most fleets", 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := PendingLimitReason(token, c.limit, unseen, func(c *fleet.Cluster) []*fleet.ClusterRegistration { return by[c.Name] })
			if (got != "") != c.waits {
				t.Errorf("%s: got %q", c.why, got)
			}
			if c.waits && !strings.Contains(got, "registration.maxPending") {
				t.Errorf("want what helps, got %q", got)
			}
		})
	}
}

func TestAbandoned(t *testing.T) {
	external := request("e", "a", 0)
	external.Labels = map[string]string{fleet.LabelClusterManagement: "x"}
	for name, c := range map[string]struct {
		why   string
		r     *fleet.ClusterRegistration
		after time.Duration
		want  bool
	}{
		"Young":         {"its agent waits for the answer", request("r", "a", 0), time.Hour, false},
		"Old":           {"its agent has given up", request("r", "a", 0), AbandonedAfter + time.Second, true},
		"Granted":       {"its rights are those of an agent", granted(request("r", "a", 0)), 240 * time.Hour, false},
		"ExternalYoung": {"another program may answer", external, AbandonedAfter + time.Second, false},
		"ExternalOld":   {"a label must not keep requests for ever", external, ExternalAfter + time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsAbandoned(c.r, noon.Add(c.after)); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}
