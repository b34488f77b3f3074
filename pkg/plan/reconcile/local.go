package reconcile

import (
	"fmt"
	"time"
)

// ReasonLocal is the reason of a fault of this process's own disk, memory or
// number of open files. No remote is at fault, and it needs a person.
const ReasonLocal = "LocalFault"

// localRetry is the shortest time until something is tried again that failed
// because of a local fault.
const localRetry = 5 * time.Second

// LocalError returns a local fault: why is what is wrong, hint what helps.
func LocalError(why, hint string) error {
	return RequeueError(ReasonLocal, localRetry, fmt.Errorf("keep what is downloaded: %s; %s", why, hint))
}
