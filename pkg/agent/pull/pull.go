// Package pull gets the chart of a deployment that names one instead of holding it,
// from a Helm repository, a registry, or as an archive over HTTP. It verifies the
// download against what the source says of it, unpacks it within limits, and returns it
// as the files of a bundle. It stores nothing.
package pull

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web"
)

// Limits of one pull.
const (
	archiveBytes  = 64 << 20 // of the packaged chart
	unpackedBytes = 2 * chart.MaxFilesBytes
	atOnce        = 2 // pulls at a time; an index takes memory
)

// ReasonNotHere is the reason of a source that only a manager can read.
const ReasonNotHere = "UnsupportedSource"

// Config says how charts are got. The zero Config works.
type Config struct {
	UserAgent string
	// Proxy chooses the proxy of a request; nil is none.
	Proxy func(*http.Request) (*url.URL, error)
	// Dir is where archives lie until they are read; the system's temporary
	// directory where empty.
	Dir string
}

// A Puller gets charts. It may be used by several goroutines.
type Puller struct {
	cfg   Config
	web   *web.Client
	oci   *oci.Client
	slots chan struct{}
}

// New makes a Puller; it sends no request.
func New(cfg Config) *Puller {
	return &Puller{
		cfg: cfg, slots: make(chan struct{}, atOnce),
		web: web.New(web.Config{UserAgent: cfg.UserAgent, Proxy: cfg.Proxy, Addresses: address.WithLoopback()}),
		oci: oci.New(oci.Config{UserAgent: cfg.UserAgent, Proxy: cfg.Proxy, Addresses: address.WithLoopback()}),
	}
}

// Chart gets the chart that r asks for. Credentials are sent to the place that r names
// and to no other. The files of the result are where a bundle has a chart that was
// downloaded for r.
//
// Errors: reconcile.Terminal with the reasons of packages chart, web, oci and
// archive, or UnsupportedSource for a chart in git; reconcile.RequeueAfter, Unreachable or
// Damaged, if the source may answer later; the error of ctx if that has ended;
// anything else is a fault of the disk.
func (p *Puller) Chart(ctx context.Context, r chart.Request, c chart.Credentials) (content.Manifest, error) {
	location, err := chart.Locate(r)
	if err != nil {
		return content.Manifest{}, err
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return content.Manifest{}, ctx.Err()
	}
	packed, err := os.CreateTemp(p.cfg.Dir, "fleet-chart-*")
	if err != nil {
		return content.Manifest{}, withoutPaths(err)
	}
	defer func() { _ = packed.Close(); _ = os.Remove(packed.Name()) }()
	e := download{Puller: p, request: r, access: chart.HelmOpAccess(c, []chart.Request{r}), into: packed}
	if err := e.fetch(ctx, location); err != nil {
		return content.Manifest{}, err
	}
	return e.unpack(ctx)
}

// A download is one pull under way.
type download struct {
	*Puller
	request chart.Request
	access  chart.Access
	into    *os.File
	as      archive.Options
	subdir  string // the part of the archive to use
}

// sourceName returns the source as the user wrote it.
func (d *download) sourceName() string {
	if d.request.Repo != "" {
		return d.request.Repo
	}
	return d.request.Chart
}

// fetch downloads the packaged chart.
func (d *download) fetch(ctx context.Context, l chart.Location) error {
	d.as = archive.Options{Format: "tar.gz", Limits: archive.Limits{Bytes: unpackedBytes, Files: 2 * chart.MaxFiles}}
	switch l.Kind {
	case chart.Repository:
		return d.fromRepository(ctx, l)
	case chart.OCI:
		c, err := d.access.Send(d.access.Default, d.sourceName())
		if err != nil {
			return err
		}
		return d.fromRegistry(ctx, l, c)
	case chart.Archive:
		return d.fromArchive(ctx, l)
	}
	return reconcile.TerminalError(ReasonNotHere, errors.New("agents read Helm repositories, registries and archives, but no git repositories"))
}

// fromRepository finds the chart in the index of a Helm repository, which has the
// address and the digest of the archive, and downloads it.
func (d *download) fromRepository(ctx context.Context, l chart.Location) error {
	c, err := d.access.Send(d.access.Default, l.URL)
	if err != nil {
		return err
	}
	at, err := chart.IndexURL(l.URL)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	q := web.Request{URL: at, Credentials: credentials(c), MaxBytes: chart.MaxIndexBytes, Compressed: true}
	if _, err := d.web.Get(ctx, q, &text); err != nil {
		return err
	}
	index, err := chart.ParseIndex(text.Bytes())
	if err != nil {
		return fmt.Errorf("repository %q: %w", chart.Redact(l.URL), err)
	}
	entry, err := index.Choose(l.Chart, l.Version)
	if err != nil {
		return fmt.Errorf("repository %q: %w", chart.Redact(l.URL), err)
	}
	from, err := entry.Resolve(l.URL)
	if err != nil {
		return err
	}
	if c, err = d.access.SendOn(d.access.Default, l.URL, from); err != nil {
		return err
	}
	if strings.HasPrefix(from, "oci://") {
		inner, err := chart.Locate(chart.Request{Chart: from})
		if err != nil {
			return err
		}
		return d.fromRegistry(ctx, inner, c)
	}
	_, err = d.web.Get(ctx, web.Request{URL: from, Credentials: credentials(c), MaxBytes: archiveBytes, Checksum: entry.Digest}, d.into)
	return err
}

// fromRegistry downloads the artifact of a digest, or of the tag that equals or
// satisfies the version.
func (d *download) fromRegistry(ctx context.Context, l chart.Location, c chart.Credentials) error {
	from := oci.Registry{
		Reference: strings.TrimPrefix(l.URL, "oci://"), Username: c.Username, Password: c.Password,
		CABundle: c.CABundle, InsecureSkipVerify: c.InsecureSkipVerify, BasicHTTP: c.BasicHTTP,
	}
	save := func(tag string) error {
		_, err := d.oci.SaveChart(ctx, from, tag, archiveBytes, d.into)
		return err
	}
	if l.Ref != "" {
		return save(l.Ref)
	}
	if exact, ok := chart.ExactTag(l.Version); ok {
		if err := save(exact); reconcile.ReasonOf(err) != oci.ReasonNotFound {
			return err
		}
	}
	tags, err := d.oci.Tags(ctx, from)
	if err != nil {
		return err
	}
	tag, err := chart.ChooseTag(tags, l.Version)
	if err != nil {
		return fmt.Errorf("registry of %q: %w", l.URL, err)
	}
	return save(tag)
}

// fromArchive downloads one file over HTTP.
func (d *download) fromArchive(ctx context.Context, l chart.Location) error {
	c, err := d.access.Send(d.access.Default, d.sourceName())
	if err != nil {
		return err
	}
	d.as.Format, d.subdir = l.Format, l.Subdir
	if u, err := url.Parse(l.URL); err == nil {
		d.as.Name = u.Path
	}
	_, err = d.web.Get(ctx, web.Request{URL: l.URL, Credentials: credentials(c), MaxBytes: archiveBytes, Checksum: l.Checksum}, d.into)
	return err
}

// unpack makes the files of a bundle from the archive.
func (d *download) unpack(ctx context.Context) (m content.Manifest, err error) {
	size, err := d.into.Seek(0, io.SeekEnd)
	if err != nil {
		return m, withoutPaths(err)
	}
	dir, err := os.MkdirTemp(d.cfg.Dir, "fleet-chart-*")
	if err != nil {
		return m, withoutPaths(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return m, withoutPaths(err)
	}
	defer func() { _ = root.Close() }()
	if _, err := archive.Unpack(ctx, d.into, size, d.as, root); err != nil {
		return m, fmt.Errorf("unpack the chart: %w", err)
	}
	files := root.FS()
	if d.subdir != "" {
		if info, err := fs.Stat(files, d.subdir); err != nil || !info.IsDir() {
			return m, reconcile.TerminalError(chart.ReasonInvalidSource, fmt.Errorf("the archive has no directory %q; name one that is there after //", d.subdir))
		}
		if files, err = fs.Sub(files, d.subdir); err != nil {
			return m, withoutPaths(err)
		}
	}
	m.Resources, err = chart.Resources(d.request.Dir(), files)
	return m, err
}

func credentials(c chart.Credentials) web.Credentials {
	return web.Credentials{Username: c.Username, Password: c.Password, CABundle: c.CABundle, InsecureSkipVerify: c.InsecureSkipVerify}
}

// withoutPaths returns an error of the disk without the names of temporary files.
func withoutPaths(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		err = at.Err
	}
	return fmt.Errorf("keep a chart on disk for a moment: %w", err)
}
