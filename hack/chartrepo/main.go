// Command chartrepo packs the three charts and writes the index of a Helm
// repository that holds them:
//
//	go run ./hack/chartrepo -out dist/charts -url https://charts.example.com
//	go run ./hack/chartrepo -out dist/charts-rancher -rancher
//
// A folder made so is served as it is, or put into a git repository. Helm reads it,
// and Rancher as a ClusterRepo. With -rancher the charts have versions above those
// of Rancher's own Fleet charts (v1.2.3 is 1001.2.3+up1.2.3), so that Rancher takes
// an installed one for newer and leaves it (docs/rancher.md). Packages that are in
// the folder already stay in the index. The same source gives the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/hack/epoch"
	"github.com/fleetworkspace/fleet/hack/measure"
)

// options are the command line.
type options struct {
	out     string
	url     string
	version *semver.Version // nil: what the charts say
	rancher bool
	epoch   time.Time
	charts  string // folder of the charts
	log     io.Writer
}

func main() {
	measure.Main("chartrepo", func(args []string) (options, error) { return parse(args, os.Getenv) }, run)
}

func parse(args []string, getenv func(string) string) (options, error) {
	o := options{log: os.Stderr}
	f := flag.NewFlagSet("chartrepo", flag.ContinueOnError)
	f.StringVar(&o.out, "out", "", "`folder` of the repository")
	f.StringVar(&o.url, "url", "", "where the folder will be served; packages are named relative to the index where not given")
	version := f.String("version", "", "version and appVersion of the charts, such as v1.2.3; else what they say")
	f.BoolVar(&o.rancher, "rancher", false, "versions above those of Rancher's own charts")
	since := f.String("epoch", getenv("SOURCE_DATE_EPOCH"), "time of creation in the index, in seconds since 1970; 0 where not given (env SOURCE_DATE_EPOCH)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	case o.out == "":
		return o, errors.New("-out is needed")
	}
	if *version != "" {
		v, err := semver.StrictNewVersion(strings.TrimPrefix(*version, "v"))
		if err != nil || v.Metadata() != "" {
			return o, fmt.Errorf("-version: %q is not a version such as v1.2.3", *version)
		}
		o.version = v
	}
	var err error
	if o.epoch, err = epoch.Parse(*since); err != nil {
		return o, fmt.Errorf("-epoch: %w", err)
	}
	root, err := source.Root()
	o.charts = filepath.Join(root, "charts")
	return o, err
}

// names are the charts, in the order in which they are installed.
var names = []string{"fleet-crd", "fleet", "fleet-agent"}

// run packs all charts and writes the index.
func run(_ context.Context, o options) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		p, err := read(filepath.Join(o.charts, name))
		if err == nil {
			err = p.number(o.version, o.rancher)
		}
		var text []byte
		if err == nil {
			text, err = p.pack(o.epoch)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(o.out, p.fileName()), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("chart %s: %w", name, err)
		}
		fmt.Fprintln(o.log, filepath.Join(o.out, p.fileName()))
	}
	return writeIndex(o.out, o.url, o.epoch)
}
