package bundlesource

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"

	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web"
)

// helmFormat is the format of packaged charts, regardless of their URL.
const helmFormat = "tar.gz"

// fetch has what a request names, wherever that is, into p.
func (s *session) fetch(ctx context.Context, e download, p *payload) error {
	l, err := chart.Locate(e.request)
	if err != nil {
		return err
	}
	if s.r.cfg.Offline {
		return permanentf(reasonOffline, "it would have to be downloaded, which was not asked for")
	}
	named := e.request.Repo // the text that the regular expression matches
	if named == "" {
		named = e.request.Chart
	}
	c, err := s.access.Send(e.tenant.credentials, named)
	if err != nil {
		return err
	}
	switch l.Kind {
	case chart.Repository:
		return s.fromRepository(ctx, l, e.tenant, p)
	case chart.OCI:
		return s.fromRegistry(ctx, l, c, p)
	case chart.Git:
		return s.fromGit(ctx, l, c, p)
	}
	return s.fromArchive(ctx, l, c, p)
}

// fromArchive has one file over HTTP.
func (s *session) fromArchive(ctx context.Context, l chart.Location, c chart.Credentials, p *payload) error {
	b, err := s.r.file(ctx, web.Request{
		URL: l.URL, Credentials: webCredentials(c), Checksum: l.Checksum, MaxBytes: s.r.cfg.Limits.ArchiveBytes,
	})
	if err != nil {
		return err
	}
	name := l.URL
	if u, err := url.Parse(l.URL); err == nil {
		name = u.Path
	}
	p.source = chart.Redact(l.URL)
	p.blob, p.subdir, p.options = s.holdBlob(b), l.Subdir, archive.Options{Name: name, Format: l.Format, Limits: s.r.cfg.Limits.Unpacked}
	p.fetched = chart.Fetched{Version: l.Version, Digest: fmt.Sprintf("%s|%s|%s|%s", b.digest, name, l.Format, l.Subdir)}
	return nil
}

// fromRegistry has a chart of an OCI registry. A range is about the tags that
// the registry has now.
func (s *session) fromRegistry(ctx context.Context, l chart.Location, c chart.Credentials, p *payload) error {
	b, err := s.tagged(ctx, registryOf(l, c), l)
	if err != nil {
		return err
	}
	p.source = l.URL
	if err := s.chartIn(s.holdBlob(b), p); err != nil {
		return fmt.Errorf("read %q: %w", p.source, err)
	}
	return nil
}

// tagged has the artifact of a digest, of the tag that a version is, or of the
// tag that satisfies it: 1.2 is a tag where there is one, and else a range.
func (s *session) tagged(ctx context.Context, from oci.Registry, l chart.Location) (*blob, error) {
	if l.Ref != "" {
		return s.r.artifact(ctx, from, l.Ref)
	}
	exact, ok := chart.ExactTag(l.Version)
	if ok {
		b, err := s.r.artifact(ctx, from, exact)
		if reconcile.ReasonOf(err) != oci.ReasonNotFound {
			return b, err
		}
	}
	tags, err := s.r.oci.Tags(ctx, from)
	if err != nil {
		return nil, err
	}
	tag, err := chart.ChooseTag(tags, l.Version)
	if err != nil {
		return nil, fmt.Errorf("registry of %q: %w", l.URL, err)
	}
	return s.r.artifact(ctx, from, tag)
}

// chartIn describes a packaged chart by what it says itself.
func (s *session) chartIn(b *blob, p *payload) error {
	f, err := os.Open(b.file())
	if err != nil {
		return diskFault(err)
	}
	defer f.Close()
	data := chart.MetadataFile(f)
	if data == nil {
		return permanentf(reasonSource, "it is not a packaged chart: there is no Chart.yaml in it")
	}
	name, version, err := chart.NameAndVersion(data)
	if err != nil {
		return err
	}
	p.blob, p.options = b, archive.Options{Format: helmFormat, Limits: s.r.cfg.Limits.Unpacked}
	p.fetched = chart.Fetched{Name: name, Version: version, Digest: string(b.digest)}
	return nil
}

// A checkout is one commit of a git repository.
type checkout struct {
	once sync.Mutex
	tree *git.Tree
	err  error
}

// fromGit has a directory of a git repository.
func (s *session) fromGit(ctx context.Context, l chart.Location, c chart.Credentials, p *payload) error {
	if s.r.cfg.Git == nil {
		return permanentf(reasonSource, "git repositories cannot be read here")
	}
	src, ref := gitSource(l, c), git.Reference{Revision: l.Ref}
	if ref.Revision == "" {
		ref.Revision = git.RemoteHead
	}
	t := getOrCreate(s, s.trees, claimOf(src.ID(), ref))
	t.once.Lock()
	defer t.once.Unlock()
	if t.tree == nil && t.err == nil {
		tree, err := s.commit(ctx, src, ref)
		if err != nil && ctx.Err() != nil {
			return err
		}
		t.tree, t.err = tree, err
	}
	if t.err != nil {
		return t.err
	}
	p.tree, p.subdir, p.source = t.tree, l.Subdir, chart.Redact(l.URL)
	p.fetched = chart.Fetched{Version: l.Version, Digest: fmt.Sprintf("git:%s|%s", t.tree.Commit(), l.Subdir)}
	return nil
}

// commit has the files of a reference as it is now.
func (s *session) commit(ctx context.Context, src git.Source, ref git.Reference) (*git.Tree, error) {
	commit, err := s.r.cfg.Git.Resolve(ctx, src, ref)
	if err != nil {
		return nil, err
	}
	return s.r.cfg.Git.Fetch(ctx, src, ref, commit)
}
