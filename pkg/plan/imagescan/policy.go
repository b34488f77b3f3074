package imagescan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Latest returns the newest of the tags by a policy; without a policy it is the highest
// version that is no prerelease. Where two policies are set, semver counts before
// alphabetical, and that before numerical. Errors are Terminal: InvalidImage for a
// policy that cannot be read, NoTag if no tag satisfies it.
func Latest(tags []string, policy fleet.ImagePolicyChoice) (string, error) {
	if len(tags) == 0 {
		return "", noTag("no tag found")
	}
	switch {
	case policy.SemVer == nil && policy.Alphabetical != nil:
		if isDescending(policy.Alphabetical.Order) {
			return slices.Max(tags), nil
		}
		return slices.Min(tags), nil
	case policy.SemVer == nil && policy.Numerical != nil:
		return latestNumber(tags, policy.Numerical.Order)
	}
	wanted := "*"
	if policy.SemVer != nil {
		wanted = cmp.Or(policy.SemVer.Range, "*")
	}
	return latestVersion(tags, wanted)
}

// isDescending reports whether an order means the largest tag.
func isDescending(order string) bool { return order == "" || strings.EqualFold(order, "desc") }

// latestVersion returns the tag with the highest version in a range, as it is spelled.
// Tags that are no version do not count. Of two spellings of one version it is the
// longer one, which says more.
func latestVersion(tags []string, wanted string) (string, error) {
	constraint, err := semver.NewConstraint(wanted)
	if err != nil {
		return "", reconcile.TerminalError(ReasonInvalidImage, fmt.Errorf("policy.semver.range %q: %w", wanted, err))
	}
	var best *semver.Version
	for _, tag := range tags {
		v, err := semver.NewVersion(tag)
		if err != nil || !constraint.Check(v) {
			continue
		}
		if best == nil || cmp.Or(v.Compare(best), cmp.Compare(len(tag), len(best.Original())), cmp.Compare(tag, best.Original())) > 0 {
			best = v
		}
	}
	if best == nil {
		return "", noTag("no available version matching %s", wanted)
	}
	return best.Original(), nil
}

// latestNumber returns the tag with the largest number, or the smallest. Tags with
// anything but digits do not count.
func latestNumber(tags []string, order string) (string, error) {
	numbers := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return strings.Trim(tag, "0123456789") != "" })
	if len(numbers) == 0 {
		return "", noTag("no tag is a number")
	}
	if isDescending(order) {
		return slices.MaxFunc(numbers, compareNumbers), nil
	}
	return slices.MinFunc(numbers, compareNumbers), nil
}

// compareNumbers compares decimal numbers of any length; of one number's spellings the
// longer one is larger.
func compareNumbers(a, b string) int {
	x, y := strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y), cmp.Compare(len(a), len(b)))
}

func noTag(format string, args ...any) error {
	return reconcile.TerminalError(ReasonNoTag, fmt.Errorf(format, args...))
}
