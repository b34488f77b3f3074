package dump

import (
	"errors"
	"fmt"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
)

// DefaultFetchLimit is how many objects a request lists unless the user says otherwise.
const DefaultFetchLimit = 500

// Options are what the user asks for.
type Options struct {
	Path          string // of the archive
	FetchLimit    int64  // objects of one page of a list; 0: no pages
	AllNamespaces bool
	Namespace     string // the workspace; empty with AllNamespaces

	GitRepo, Bundle, HelmOp string // at most one; empty: everything of the workspace

	Secrets         bool // --with-secrets
	SecretsMetadata bool
	Content         bool
	ContentMetadata bool
}

// Complete checks the flags, and decides which workspace is dumped. explicit is the value of -n, fallback the
// workspace without it.
func (o *Options) Complete(explicit, fallback string) error {
	if o.Path == "" {
		return errors.New("--dump-path FILE is missing: the archive's file")
	}
	if o.FetchLimit < 0 {
		return fmt.Errorf("--fetch-limit %d must not be below 0; 0 lists without pages", o.FetchLimit)
	}
	for _, pair := range []struct {
		both  bool
		names string
	}{
		{o.Secrets && o.SecretsMetadata, "--with-secrets and --with-secrets-metadata"},
		{o.Content && o.ContentMetadata, "--with-content and --with-content-metadata"},
		{o.AllNamespaces && explicit != "", "-A and -n"},
	} {
		if pair.both {
			return fmt.Errorf("%s do not go together", pair.names)
		}
	}
	if err := o.checkFilter(explicit); err != nil {
		return err
	}
	o.Namespace = explicit
	if explicit == "" && !o.AllNamespaces {
		o.Namespace = fallback
		return cli.CheckNamespace("NAMESPACE", fallback)
	}
	return nil
}

func (o *Options) checkFilter(explicit string) error {
	set := 0
	for _, name := range []string{o.GitRepo, o.Bundle, o.HelmOp} {
		if name != "" {
			set++
		}
	}
	switch {
	case set > 1:
		return errors.New("only one of --gitrepo, --bundle and --helmop can be used")
	case set == 1 && explicit == "":
		return errors.New("--gitrepo, --bundle and --helmop need the workspace: -n WORKSPACE")
	}
	return nil
}

// filtered reports whether only what belongs to one object is dumped.
func (o *Options) filtered() bool { return o.GitRepo+o.Bundle+o.HelmOp != "" }

// withContents reports whether Contents are part of the archive.
func (o *Options) withContents() bool { return o.Content || o.ContentMetadata }

// withSecrets reports whether the metadata of Secrets is part of the archive.
func (o *Options) withSecrets() bool { return o.Secrets || o.SecretsMetadata }
