package imagescan

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/imagescan"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Events of ImageScans.
const (
	eventNewTag     = "NewImageTag"
	eventScanFailed = "ImageScanFailed"
)

// Reconcile asks the registry of one ImageScan if that is due, and writes the status.
func (s *Controller) Reconcile(ctx context.Context, key kube.Key) (kube.Result, error) {
	scan, ok := s.cache.Get(key)
	if !ok || scan.DeletionTimestamp != nil || !s.cfg.Scope.Owns(scan) {
		s.forget(key)
		return kube.Done, nil
	}
	if scan.Spec.Suspend {
		return kube.Done, nil
	}
	failed := s.failureOf(scan)
	due := failed.next
	if failed.count == 0 {
		due = imagescan.Due(scan)
	}
	if wait := due.Sub(s.now()); wait > 0 {
		return kube.Result{After: wait}, nil
	}
	found := s.scan(ctx, scan)
	if ctx.Err() != nil {
		return kube.Done, ctx.Err()
	}
	if found.Err == nil {
		s.forget(key)
	} else {
		failed.count++
		failed.next = s.now().Add(imagescan.RetryDelay(found.Err, &scan.Spec, failed.count))
		s.setFailure(scan, failed)
	}
	if err := s.report(ctx, scan, found); err != nil {
		return kube.Done, err
	}
	next := imagescan.Interval(&scan.Spec)
	if found.Err != nil {
		next = failed.next.Sub(s.now())
	}
	return kube.Result{After: max(next, time.Millisecond)}, nil
}

// scan asks the registry.
func (s *Controller) scan(ctx context.Context, scan *fleet.ImageScan) (f imagescan.Found) {
	if f.Image, f.Err = imagescan.ParseImage(scan.Spec.Image); f.Err != nil {
		return f
	}
	r, err := s.registry(ctx, scan, f.Image)
	if err != nil {
		f.Err = err
		return f
	}
	tags, err := s.listings.tags(ctx, s.cfg.Registry, r)
	if err != nil {
		f.Err = err
		return f
	}
	f.Listed = true
	if f.Tag, f.Err = imagescan.Latest(tags, scan.Spec.Policy); f.Err != nil {
		f.Err = fmt.Errorf("image %s: %w", f.Image.Name(), f.Err)
		return f
	}
	f.Digest, f.Err = s.cfg.Registry.Digest(ctx, r, f.Tag)
	return f
}

// registry returns the place of an image, with the account of the ImageScan's Secret. A
// Terminal error: the Secret is missing, or cannot be used.
func (s *Controller) registry(ctx context.Context, scan *fleet.ImageScan, image imagescan.Image) (oci.Registry, error) {
	r := oci.Registry{Reference: image.Name(), BasicHTTP: image.PlainHTTP()}
	var err error
	if r.CABundle, err = s.rancher.PEM(ctx); err != nil || scan.Spec.SecretRef == nil {
		return r, err
	}
	key := secretKey(scan)
	secret, err := s.secrets.Get(ctx, key)
	if kube.IsGone(err) {
		return r, reconcile.TerminalError(imagescan.ReasonInvalidCredentials, fmt.Errorf("secretRef: there is no Secret %q in namespace %s", key.Name, key.Namespace))
	}
	if err != nil {
		return r, err
	}
	r.Username, r.Password, err = imagescan.Credentials(secret, image.Registry)
	return r, err
}

// report writes the status, and sends an event when a new tag or a failure was found.
func (s *Controller) report(ctx context.Context, scan *fleet.ImageScan, f imagescan.Found) error {
	var old fleet.ImageScanStatus
	got, err := s.scans.MutateStatus(ctx, scan, func(live *fleet.ImageScan) error {
		if live.Generation != scan.Generation {
			return nil // its watch event starts another scan
		}
		old = live.Status
		live.Status = imagescan.Status(live, f, s.now())
		return nil
	})
	if err != nil {
		return kube.IgnoreGone(err)
	}
	log := s.log.WithFields(naming.LogFields("imagescan", scan)).WithField("image", f.Image.Name())
	if f.Err == nil && old.LatestTag != f.Tag {
		s.events.Event(got, kube.Normal, eventNewTag, "the newest tag is "+f.Tag)
		log.WithField("tag", f.Tag).Info("new tag found")
	}
	if c := condition.Turned(old.Conditions, got.Status.Conditions, fleet.ConditionImageScanned, corev1.ConditionFalse); c != nil {
		s.events.Event(got, kube.Warning, eventScanFailed, c.Message)
		log.WithFields(logrus.Fields{"reason": c.Reason, "error": c.Message}).Warn("image not scanned")
	}
	return nil
}
