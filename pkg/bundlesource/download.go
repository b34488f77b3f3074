package bundlesource

import (
	"context"
	"errors"
	"fmt"

	"github.com/fleetworkspace/fleet/pkg/disk"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web"
)

// Reasons of faults that are found here.
const (
	reasonTooLarge    = "TooLarge"
	reasonOffline     = "Offline" // package bundle makes finding.RuleOffline of it
	reasonSource      = "InvalidSource"
	reasonUnreachable = "Unreachable"
)

func permanentf(reason, format string, args ...any) error {
	return reconcile.TerminalError(reason, fmt.Errorf(format, args...))
}

// errCrowded is returned where a download is removed before a caller could use it: all
// the room of the store is in use.
var errCrowded = errors.New("the store of downloads has no room for it now")

// storeError names the source in faults that are about our own disk: servers are
// named in what package web and package oci report.
func storeError(from string, err error) error {
	if errors.Is(err, errDisk) || errors.Is(err, errCrowded) {
		return fmt.Errorf("keep %q: %w", from, err)
	}
	return err
}

// tries is how often a blob is fetched if it is removed before it can be used.
const tries = 3

// shareDownload does one download for all concurrent callers that want the same, and gives
// each of them its own blob. get runs until the reader is closed, even if a caller
// gives up.
func (r *Reader) shareDownload(ctx context.Context, c claim, get func(context.Context) (*blob, error)) (*blob, error) {
	for range tries {
		answers := r.flights.DoChan(string(c), func() (any, error) {
			if !r.beginDownload() {
				return nil, context.Canceled
			}
			defer r.running.Done()
			b, err := get(r.context)
			if err != nil {
				return nil, err
			}
			defer r.store.release(b)
			return b.digest, nil
		})
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case a := <-answers:
			if a.Err != nil {
				return nil, a.Err
			}
			if b := r.store.acquire(a.Val.(digest)); b != nil {
				return b, nil
			}
		}
	}
	return nil, errCrowded
}

// file gets one file over HTTP. One that has a checksum and was had before is
// not asked for again; of any other the source says whether it is still the
// same.
func (r *Reader) file(ctx context.Context, q web.Request) (*blob, error) {
	c := claimOf("web", q.URL, q.Credentials, q.Checksum, q.Compressed)
	b, err := r.shareDownload(ctx, c, func(ctx context.Context) (*blob, error) {
		d, err := r.store.newPartialBlob()
		if err != nil {
			return nil, err
		}
		defer d.discard()
		before, _ := r.answers.lookup(c)
		old := r.store.acquire(before.digest)
		if old != nil && q.Checksum != "" {
			return old, nil
		}
		if old != nil {
			q.ETag = before.etag
		}
		a, err := r.web.Get(ctx, q, d)
		if err == nil && a.NotModified && old != nil {
			return old, nil
		}
		if old != nil {
			r.store.release(old)
		}
		if err != nil {
			return nil, err
		}
		b, err := d.keep()
		if err == nil {
			r.answers.store(c, answer{digest: b.digest, etag: a.ETag})
		}
		return b, err
	})
	return b, storeError(chart.Redact(q.URL), err)
}

// artifact gets a chart from a registry.
func (r *Reader) artifact(ctx context.Context, from oci.Registry, tag string) (*blob, error) {
	b, err := r.shareDownload(ctx, claimOf("oci", from, tag), func(ctx context.Context) (*blob, error) {
		manifest, err := r.oci.Digest(ctx, from, tag)
		if err != nil {
			return nil, err
		}
		c := claimOf("manifest", from, manifest)
		if before, ok := r.answers.lookup(c); ok {
			if b := r.store.acquire(before.digest); b != nil {
				return b, nil
			}
		}
		d, err := r.store.newPartialBlob()
		if err != nil {
			return nil, err
		}
		defer d.discard()
		if _, err := r.oci.SaveChart(ctx, from, manifest, r.cfg.Limits.ArchiveBytes, d); err != nil {
			return nil, err
		}
		b, err := d.keep()
		if err == nil {
			r.answers.store(c, answer{digest: b.digest})
		}
		return b, err
	})
	return b, storeError(from.Reference, err)
}

// transientError makes an unclassified fault a passing one, so that it is tried again. It does
// not change an error of the caller's context.
func transientError(err error) error {
	if err == nil || reconcile.IsTerminal(err) || reconcile.IsRequeue(err) || errors.Is(err, context.Canceled) {
		return err
	}
	if disk.Fault(err) != nil {
		return reconcile.RequeueError(reconcile.ReasonLocal, 0, err)
	}
	return reconcile.RequeueError(reasonUnreachable, 0, err)
}
