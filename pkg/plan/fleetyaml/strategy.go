package fleetyaml

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
	"github.com/fleetworkspace/fleet/pkg/plan/rollout"
)

// rollout checks the rollout strategy: limits that cannot be read, that update no
// cluster, or that count as another value than the one that is written.
func (v *validator) rollout() {
	s := v.f.Spec.RolloutStrategy
	if s == nil {
		return
	}
	v.unavailable(s.MaxUnavailable, "rolloutStrategy", "maxUnavailable")
	if place := []any{"rolloutStrategy", "maxUnavailablePartitions"}; v.checkLimit(s.MaxUnavailablePartitions, place...) {
		v.warnUnusualLimit(s.MaxUnavailablePartitions, limitWords{
			over: "no partition waits for another one", under: "one partition is tolerated", remedy: "write 0 to tolerate no unfinished partition",
		}, place...)
	}
	if place := []any{"rolloutStrategy", "autoPartitionSize"}; v.checkLimit(s.AutoPartitionSize, place...) {
		v.warnUnusualLimit(s.AutoPartitionSize, limitWords{
			over: "all clusters are in one partition", under: "each cluster is a partition of its own", remedy: "write 0 to make no partitions",
		}, place...)
	}
	v.numbers(s)
	v.warnUnlimitedPartitions(s)
	for i := range s.Partitions {
		p, place := &s.Partitions[i], []any{"rolloutStrategy", "partitions", i}
		v.members(p, i)
		v.unavailable(p.MaxUnavailable, childPlace(place, "maxUnavailable")...)
		v.selector(p.ClusterSelector, childPlace(place, "clusterSelector")...)
		v.selector(p.ClusterGroupSelector, childPlace(place, "clusterGroupSelector")...)
	}
}

// members warns of a partition without criteria: no cluster is in it.
func (v *validator) members(p *fleet.Partition, i int) {
	if p.ClusterName == "" && p.ClusterGroup == "" && p.ClusterSelector == nil && p.ClusterGroupSelector == nil {
		v.addFinding(finding.Warning, finding.RuleUnreachable, rollout.PartitionTitle(p, i)+" selects no cluster",
			"give it a clusterSelector, clusterName or clusterGroup", "rolloutStrategy", "partitions", i)
	}
}

// warnUnlimitedPartitions warns of partitions that hold back nothing since they have no limit: all of
// their clusters may be unavailable. A partition is left without one on purpose before one
// with maxUnavailable 0, which waits for a commit; and one cluster holds back nothing
// with any limit.
func (v *validator) warnUnlimitedPartitions(s *fleet.RolloutStrategy) {
	for i := range s.Partitions {
		p := &s.Partitions[i]
		several := p.ClusterName == "" && (p.ClusterSelector != nil || p.ClusterGroup != "" || p.ClusterGroupSelector != nil)
		if i+1 == len(s.Partitions) || s.MaxUnavailable != nil || p.MaxUnavailable != nil || !several || allowsNoChange(s.Partitions[i+1].MaxUnavailable) {
			continue
		}
		v.addWarning(rollout.PartitionTitle(p, i)+" has no maxUnavailable: the partitions after it do not wait for it",
			"without one all of its clusters may be unavailable; write 1, or a percentage such as 10%", "rolloutStrategy", "partitions", i)
	}
}

// allowsNoChange reports whether a limit lets no cluster change.
func allowsNoChange(limit *intstr.IntOrString) bool {
	if limit == nil {
		return false
	}
	n, err := rollout.Limit(1000, limit)
	return err == nil && n == 0
}

// numbers warns of numbers below what they can mean.
func (v *validator) numbers(s *fleet.RolloutStrategy) {
	if n := s.MaxNew; n != nil && *n <= 0 {
		v.addFinding(finding.Warning, finding.RuleFrozen, fmt.Sprintf("maxNew %d holds back first installations: no cluster gets the bundle that does not have it", *n),
			"leave it out for 50 at a time; paused: true holds everything back on purpose", "rolloutStrategy", "maxNew")
	}
	if n := s.AutoPartitionThreshold; n != nil && *n < 0 {
		v.addWarning(fmt.Sprintf("autoPartitionThreshold %d counts as 0: no partitions are made", *n), "", "rolloutStrategy", "autoPartitionThreshold")
	}
}

// checkLimit refuses a limit that cannot be read. It reports whether there is one that
// can.
func (v *validator) checkLimit(value *intstr.IntOrString, place ...any) (usable bool) {
	if value == nil {
		return false
	}
	name := place[len(place)-1]
	_, err := rollout.Limit(100, value)
	number, noNumber := strconv.Atoi(value.StrVal)
	switch quoted := value.Type == intstr.String && noNumber == nil; {
	case err != nil && quoted:
		v.addError(fmt.Sprintf("%s: %q in quotes is refused: a number is written without quotes, a percentage with %%", name, value.StrVal), place...)
	case err != nil:
		v.addError(fmt.Sprintf("%s: %s", name, err), place...)
	case quoted && number >= percentLike:
		v.addWarning(fmt.Sprintf("%s %q counts as %d %s, not as a percentage", name, value.StrVal, number, limitUnit(name)),
			fmt.Sprintf("write %d%% for a percentage, or %d without quotes", number, number), place...)
	}
	return err == nil
}

// percentLike is from which number on a limit in quotes was probably meant as a
// percentage.
const percentLike = 5

// limitUnit names the unit of the limit of that name.
func limitUnit(name any) string {
	if name == "maxUnavailablePartitions" {
		return "partitions"
	}
	return "clusters"
}

// unavailable warns of a maxUnavailable that stops updates, or that is used as another
// value.
func (v *validator) unavailable(value *intstr.IntOrString, place ...any) {
	if !v.checkLimit(value, place...) {
		return
	}
	const remedy = "write 1 for one cluster at a time, or a percentage such as 10%; paused: true holds updates back on purpose"
	switch n, _ := rollout.Limit(1000, value); {
	case n == 0:
		v.addFinding(finding.Warning, finding.RuleFrozen,
			fmt.Sprintf("maxUnavailable %s freezes updates: no cluster on which the bundle is Ready gets a new version", value), remedy, place...)
	case percentage(value) <= 0:
		v.addFinding(finding.Warning, finding.RuleFrozen,
			fmt.Sprintf("maxUnavailable %s counts as 1: a percentage is at least one cluster", value), remedy, place...)
	default:
		v.warnUnusualLimit(value, limitWords{over: "all clusters may be unavailable at once"}, place...)
	}
}

// limitWords say what comes of a limit beyond the values that it can have.
type limitWords struct{ over, under, remedy string }

// warnUnusualLimit warns of a limit that is used as another value: a percentage above 100 or of at
// most 0, and a number below 0.
func (v *validator) warnUnusualLimit(value *intstr.IntOrString, words limitWords, place ...any) {
	name, percent := place[len(place)-1], percentage(value)
	switch {
	case value.Type == intstr.Int && value.IntValue() < 0:
		v.addWarning(fmt.Sprintf("%s %s counts as 0", name, value), "", place...)
	case percent > 100:
		v.addWarning(fmt.Sprintf("%s %s counts as 100%%: %s", name, value, words.over), "", place...)
	case percent <= 0:
		v.addWarning(fmt.Sprintf("%s %s counts as 1: %s", name, value, words.under), words.remedy, place...)
	}
}

// percentage is the number of a percentage; 1, which is an ordinary one, for what
// is none.
func percentage(value *intstr.IntOrString) float64 {
	number, ok := strings.CutSuffix(value.StrVal, "%")
	n, err := strconv.ParseFloat(number, 64)
	if value.Type != intstr.String || !ok || err != nil {
		return 1
	}
	return n
}
