package rollout

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// ReasonInvalidRollout is the reason of faults in a rollout strategy.
const ReasonInvalidRollout = "InvalidRolloutStrategy"

// Limit returns how many of count targets a setting allows. It uses the first of values
// that is set; without any it returns count.
//
// An integer is used as it is, between 0 and count. "N%" is rounded down, but at least 1
// and at most count. "N" as text is used as it is, even above count. Without targets the
// limit is 1.
func Limit(count int, values ...*intstr.IntOrString) (int, error) {
	if count <= 0 {
		return 1, nil
	}
	for _, v := range values {
		if v == nil {
			continue
		}
		if v.Type == intstr.Int {
			return min(max(v.IntValue(), 0), count), nil
		}
		return textLimit(count, v.StrVal)
	}
	return count, nil
}

func textLimit(count int, text string) (int, error) {
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		return n, nil
	}
	number, ok := strings.CutSuffix(text, "%")
	percent, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || math.IsNaN(percent) {
		return 0, reconcile.TerminalError(ReasonInvalidRollout,
			fmt.Errorf("%q is neither a number nor a percentage like \"25%%\"", text))
	}
	if percent <= 0 {
		return 1, nil
	}
	return int(min(max(math.Floor(float64(count)*percent/100), 1), float64(count))), nil
}
