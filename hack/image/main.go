// Command image makes the container images of the manager and of the agent
// from the project's own programs, without a container engine, a registry or
// root:
//
//	go run ./hack/image -out dist/images                    for this machine's architecture
//	go run ./hack/image -out dist/images -arch amd64,arm64  one archive for both
//	go run ./hack/image -rootfs /out -arch arm64            only the files: what the Dockerfile copies
//
// It writes fleet.tar and fleet-agent.tar, which `ctr -n k8s.io images import`,
// `docker load`, `podman load` and `skopeo copy oci-archive:` read, and beside
// each a list of what is in it: NAME-ARCH.spdx.json (SPDX 2.3). The same source,
// version, Go and certificates give the same bytes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/source"
	"github.com/fleetworkspace/fleet/hack/epoch"
	"github.com/fleetworkspace/fleet/hack/measure"
)

// options are the command line.
type options struct {
	out          string
	rootfs       string
	arch         []string
	version      string
	commit       string
	epoch        time.Time
	certificates string
	root         string // of the clone
	log          io.Writer
}

func main() {
	measure.Main("image", func(args []string) (options, error) { return parse(args, os.Getenv) }, run)
}

// certificateFiles are where systems keep their certificate authorities.
var certificateFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
}

func parse(args []string, getenv func(string) string) (options, error) {
	o := options{log: os.Stderr}
	f := flag.NewFlagSet("image", flag.ContinueOnError)
	f.StringVar(&o.out, "out", "", "`folder` for the archives")
	f.StringVar(&o.rootfs, "rootfs", "", "`folder` for the files of both images, instead of archives; one architecture")
	arch := f.String("arch", runtime.GOARCH, "architectures, comma separated: amd64, arm64")
	f.StringVar(&o.version, "version", "", "version of the programs and tag of the images; else \"v\" and the appVersion of the chart fleet")
	f.StringVar(&o.commit, "commit", "unknown", "commit that the programs say they are from")
	since := f.String("epoch", getenv("SOURCE_DATE_EPOCH"), "time of creation in the images, in seconds since 1970; 0 where not given (env SOURCE_DATE_EPOCH)")
	f.StringVar(&o.certificates, "certificates", "", "PEM `file` of certificate authorities for the images; else this machine's")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.arch = strings.Split(*arch, ",")
	for _, a := range o.arch {
		if a != "amd64" && a != "arm64" {
			return o, fmt.Errorf("-arch: %q is neither amd64 nor arm64", a)
		}
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unknown argument %q", f.Arg(0))
	case (o.out == "") == (o.rootfs == ""):
		return o, errors.New("one of -out and -rootfs is needed")
	case o.rootfs != "" && len(o.arch) != 1:
		return o, errors.New("-rootfs takes one architecture")
	}
	var err error
	if o.epoch, err = epoch.Parse(*since); err != nil {
		return o, fmt.Errorf("-epoch: %w", err)
	}
	return o, o.complete()
}

// complete finds what was not said.
func (o *options) complete() error {
	var err error
	if o.root, err = source.Root(); err != nil {
		return err
	}
	if o.version == "" {
		if o.version, err = chartVersion(o.root); err != nil {
			return err
		}
	}
	if o.certificates == "" {
		i := slices.IndexFunc(certificateFiles, func(f string) bool { _, err := os.Stat(f); return err == nil })
		if i < 0 {
			return errors.New("no file of certificate authorities on this machine: name one with -certificates")
		}
		o.certificates = certificateFiles[i]
	}
	return nil
}

// chartVersion is the tag that the charts ask for by default.
func chartVersion(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, "charts", "fleet", "Chart.yaml"))
	if err != nil {
		return "", fmt.Errorf("find the version: %w", err)
	}
	var chart struct{ AppVersion string }
	if err := yaml.Unmarshal(text, &chart); err != nil || chart.AppVersion == "" {
		return "", fmt.Errorf("find the version: charts/fleet has no appVersion (%w)", err)
	}
	return "v" + chart.AppVersion, nil
}

// run makes all that o asks for.
func run(ctx context.Context, o options) error {
	work, err := os.MkdirTemp("", "fleet-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for _, arch := range o.arch {
		if err := o.build(ctx, arch, filepath.Join(work, arch), recipes); err != nil {
			return err
		}
	}
	for _, r := range recipes {
		if o.rootfs != "" {
			err = o.files(r, filepath.Join(work, o.arch[0]))
		} else {
			err = o.images(r, work)
		}
		if err != nil {
			return fmt.Errorf("image %s: %w", r.name, err)
		}
	}
	return nil
}

// files writes the files of one image to a folder of its name.
func (o options) files(r recipe, bin string) error {
	root, err := r.rootfs(bin, o)
	if err != nil {
		return err
	}
	return root.write(filepath.Join(o.rootfs, r.name))
}

// images writes one image for all architectures, with a list for each of what is
// in it. Below work there is a folder of programs for each architecture.
func (o options) images(r recipe, work string) error {
	var list []image
	for _, arch := range o.arch {
		root, err := r.rootfs(filepath.Join(work, arch), o)
		if err != nil {
			return err
		}
		i, err := r.image(root, arch, o)
		if err != nil {
			return err
		}
		list = append(list, i)
		if err := writeFile(filepath.Join(o.out, fmt.Sprintf("%s-%s.spdx.json", r.name, arch)), root.sbom); err != nil {
			return err
		}
	}
	return o.archive(r, list)
}

// archive writes the archive of one image and says how large it is.
func (o options) archive(r recipe, images []image) error {
	path := filepath.Join(o.out, r.name+".tar")
	var text []byte
	a, err := newArchive(r.reference(o.version), images)
	if err == nil {
		text, err = a.bytes(o.epoch)
	}
	if err == nil {
		err = writeFile(path, text)
	}
	if err != nil {
		return err
	}
	for _, i := range images {
		fmt.Fprintf(o.log, "%s  %s linux/%s  %s  %.1f MiB compressed, %.1f MiB unpacked\n", path,
			r.reference(o.version), i.arch, i.manifest.Digest, mebibytes(i.layer.Size), mebibytes(i.unpackedBytes))
	}
	return nil
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// variables are where the linker puts what a build is called.
const variables = "github.com/fleetworkspace/fleet/pkg/plan/version"

// build compiles the programs of images for one architecture into a folder.
func (o options) build(ctx context.Context, arch, into string, images []recipe) error {
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-o", into + string(filepath.Separator),
		"-ldflags", fmt.Sprintf("-s -w -X %s.Version=%s -X %s.Commit=%s", variables, o.version, variables, o.commit),
	}
	for _, r := range images {
		for _, p := range r.programs {
			args = append(args, "./cmd/"+p)
		}
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.root, o.log, o.log
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("build for linux/%s: %w", arch, err)
	}
	return nil
}
