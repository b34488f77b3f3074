// Package epoch is the one time that stands in what is built, so that it is the
// same whenever and wherever it is built.
package epoch

import (
	"fmt"
	"strconv"
	"time"
)

// Parse reads a number of seconds since 1970, as SOURCE_DATE_EPOCH has it
// (reproducible-builds.org); empty is 0.
func Parse(text string) (time.Time, error) {
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("%q is not a number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
