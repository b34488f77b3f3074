package bundlesource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/web"
)

// indexBytes is how many bytes of indexes a session keeps in memory. Further indexes
// are read from disk again when they are needed.
const indexBytes = chart.MaxIndexBytes

// A catalogue is the index of one Helm repository: fetched once for a session.
type catalogue struct {
	once sync.Mutex
	blob *blob
	err  error

	index *chart.Index // guarded by session.reading; nil: on disk
}

// fromRepository gets a chart of a Helm repository. It looks the chart up in the index,
// which also names the place of the archive. That place may be anywhere, so Send
// decides again whether it gets credentials.
func (s *session) fromRepository(ctx context.Context, l chart.Location, who *tenant, p *payload) error {
	c, err := s.access.Send(who.credentials, l.URL)
	if err != nil {
		return err
	}
	cat, err := s.catalogue(ctx, l.URL, c)
	if err != nil {
		return err
	}
	entry, err := s.chooseEntry(cat, l)
	if err != nil {
		return err
	}
	from, err := entry.Resolve(l.URL)
	if err != nil {
		return err
	}
	if c, err = s.access.SendOn(who.credentials, l.URL, from); err != nil {
		return err
	}
	if strings.HasPrefix(from, "oci://") {
		return s.fromRegistryOf(ctx, from, c, p)
	}
	b, err := s.r.file(ctx, web.Request{
		URL: from, Credentials: webCredentials(c), Checksum: entry.Digest, MaxBytes: s.r.cfg.Limits.ArchiveBytes,
	})
	if err != nil {
		return err
	}
	p.source = chart.Redact(from)
	p.blob, p.options = s.holdBlob(b), archive.Options{Format: helmFormat, Limits: s.r.cfg.Limits.Unpacked}
	p.fetched = chart.Fetched{Name: entry.Name, Version: entry.Version, Digest: string(b.digest)}
	return nil
}

// fromRegistryOf gets a chart from a registry that an index names. It does not compare
// the digest in the index: tools write that of the archive or that of the manifest, and
// the registry's own digests prove what it sends.
func (s *session) fromRegistryOf(ctx context.Context, source string, c chart.Credentials, p *payload) error {
	l, err := chart.Locate(chart.Request{Chart: source})
	if err != nil {
		return err
	}
	return s.fromRegistry(ctx, l, c, p)
}

// catalogue is the index of a repository, for these credentials.
func (s *session) catalogue(ctx context.Context, repoURL string, c chart.Credentials) (*catalogue, error) {
	at, err := chart.IndexURL(repoURL)
	if err != nil {
		return nil, err
	}
	q := web.Request{URL: at, Credentials: webCredentials(c), MaxBytes: chart.MaxIndexBytes, Compressed: true}
	cat := getOrCreate(s, s.indexes, claimOf(q.URL, q.Credentials))
	cat.once.Lock()
	defer cat.once.Unlock()
	if cat.blob != nil || cat.err != nil {
		return cat, cat.err
	}
	b, err := s.r.file(ctx, q)
	if err != nil {
		if ctx.Err() == nil {
			cat.err = err
		}
		return nil, err
	}
	cat.blob = s.holdBlob(b)
	return cat, nil
}

// chooseEntry looks a chart up. One index at a time is read, and few are kept.
func (s *session) chooseEntry(cat *catalogue, l chart.Location) (chart.Entry, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.parsed = append(slices.DeleteFunc(s.parsed, func(c *catalogue) bool { return c == cat }), cat)
	total := int64(0)
	for i := len(s.parsed) - 1; i >= 0; i-- {
		if total += s.parsed[i].blob.packed; total > indexBytes && i < len(s.parsed)-1 {
			s.parsed[i].index = nil
			s.parsed = slices.Delete(s.parsed, i, i+1)
		}
	}
	if cat.index == nil {
		data, err := s.r.store.read(cat.blob, chart.MaxIndexBytes)
		if err != nil {
			return chart.Entry{}, err
		}
		index, err := chart.ParseIndex(data)
		if err != nil {
			return chart.Entry{}, fmt.Errorf("repository %q: %w", chart.Redact(l.URL), err)
		}
		cat.index = &index
	}
	entry, err := cat.index.Choose(l.Chart, l.Version)
	if err != nil {
		return entry, fmt.Errorf("repository %q: %w", chart.Redact(l.URL), err)
	}
	return entry, nil
}
