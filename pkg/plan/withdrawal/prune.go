package withdrawal

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// PruneMark returns the value of AnnotationPrune for Bundles that are removed together:
// their number, and a digest that identifies them. It is empty for none.
func PruneMark(list []*fleet.Bundle) string {
	if len(list) == 0 {
		return ""
	}
	var ids []string
	for _, b := range list {
		ids = append(ids, b.Name+"\x00"+string(b.UID))
	}
	slices.Sort(ids)
	sum := sha256.Sum256([]byte(strings.Join(ids, "\x01")))
	return fmt.Sprintf("%d-%s", len(ids), hex.EncodeToString(sum[:16]))
}

// MarkedBundles returns those of a GitRepo's Bundles that its mark asks to remove, those that are
// going already included, and whether that is all of them. No mark asks for nothing.
func MarkedBundles(mark string, list []*fleet.Bundle) (marked []*fleet.Bundle, all bool) {
	count, _, _ := strings.Cut(mark, "-")
	want, err := strconv.Atoi(count)
	if err != nil || mark == "" {
		return nil, true
	}
	for _, b := range list {
		if b.Annotations[fleet.AnnotationPrune] == mark {
			marked = append(marked, b)
		}
	}
	return marked, len(marked) >= want
}
