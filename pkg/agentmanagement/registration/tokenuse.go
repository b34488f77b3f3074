package registration

import (
	"sync"
	"time"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// labelLastUsed is the label that the API server sets on the Secret of an
// account's token when the token is used, once a day. Kubernetes has it since
// 1.27.
const labelLastUsed = "kubernetes.io/legacy-token-last-used"

// uses remembers since when the tokens of requests are in use, as far as this
// process has seen.
type uses struct {
	now   func() time.Time
	mu    sync.Mutex
	since map[string]time.Time // by key of the request
}

func newUses(now func() time.Time) *uses { return &uses{now: now, since: map[string]time.Time{}} }

// observe records whether the token in a Secret was used. It reports whether that is
// new.
func (u *uses) observe(s *cache.Meta) bool {
	changes := false
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, key := range cache.RequestOf(s) {
		if _, known := u.since[key]; !known && s.Labels[labelLastUsed] != "" {
			u.since[key], changes = u.now(), true
		}
	}
	return changes
}

// forget drops the record of a deleted request.
func (u *uses) forget(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, key)
}

// usedSince returns since when the token of a request is in use; false: it is not.
func (u *uses) usedSince(r *fleet.ClusterRegistration) (time.Time, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, ok := u.since[kube.KeyOf(r).String()]
	return since, ok
}

// setUsed records that a request's credential is in use, because its agent reports
// that.
func (u *uses) setUsed(request string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, known := u.since[request]; !known {
		u.since[request] = u.now()
	}
}

// Used reports whether the token of a request has been used at the API server. It reads
// the cache, which is ahead of the loop.
func (l *Loop) Used(r *fleet.ClusterRegistration) bool {
	if _, used := l.uses.usedSince(r); used {
		return true
	}
	s, ok := l.caches.AccountTokens.Get(kube.Key{
		Namespace: l.cfg.System.RegistrationNamespace(), Name: naming.AccountToken(registration.Account(r)),
	})
	return ok && s.Labels[labelLastUsed] != ""
}
