package rancher

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// Rancher's lease, and how long it holds.
const (
	leaseNamespace = "kube-system"
	leaseName      = "cattle-controllers"
	leaseSeconds   = int32(45)
)

// renewEvery is how often the lease is renewed: more often than by Rancher, so
// that a test sees it soon.
const renewEvery = 200 * time.Millisecond

// renew takes or renews the lease. A renewal of the session before may still be on its
// way to the API server.
func (s *session) renew() error {
	return retry.OnError(retry.DefaultRetry, func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }, s.renewOnce)
}

func (s *session) renewOnce() error {
	leases := s.client.CoordinationV1().Leases(leaseNamespace)
	now, seconds := metav1.NowMicro(), leaseSeconds
	spec := coordinationv1.LeaseSpec{HolderIdentity: &s.holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
	lease, err := leases.Get(s.ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(s.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName}, Spec: spec}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = leases.Update(s.ctx, lease, metav1.UpdateOptions{})
	return err
}

// keepLease renews the lease until the session ends.
func (s *session) keepLease() {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
			if err := s.renew(); err != nil {
				s.log("renew the lease: %v", err)
			}
		}
	}
}

func (r *Rancher) dropLease() error {
	err := r.client.CoordinationV1().Leases(leaseNamespace).Delete(context.Background(), leaseName, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
