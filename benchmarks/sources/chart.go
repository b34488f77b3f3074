package sources

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/hack/measure"
	"github.com/fleetworkspace/fleet/pkg/bundlesource"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/finding"
)

// chartLimit is what one read may need at most.
const chartLimit = 256 << 10 // KiB

// chartFile is the size of the files of a large chart.
const chartFile = 512 << 10

// chart measures the memory of a process that reads one bundle whose large
// chart comes from a Helm repository, beside one that downloads and unpacks
// the same and keeps nothing.
func (e *env) chart(ctx context.Context) error {
	measure.Title(fmt.Sprintf("One chart of %d MiB unpacked, from a Helm repository over HTTP; limit of a read: %s", e.chartMiB, measure.MiB(chartLimit)))
	measure.Row("chart", "archive", "what", "wall", "CPU", "peak resident", "of the limit", "most anonymous")
	measure.Row("---", "---:", "---", "---:", "---:", "---:", "---:", "---:")
	for _, noise := range []int{0, 50} { // percent
		if err := e.oneChart(ctx, noise); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) oneChart(ctx context.Context, noise int) error {
	repo, size, err := openChartRepository(e.path(fmt.Sprint("chart-", noise)), e.chartMiB<<20, noise)
	if err != nil {
		return err
	}
	defer repo.close()
	for _, raw := range []bool{true, false} {
		o := chartOrder{Repo: repo.url, Raw: raw, Cache: e.path("chart-cache")}
		if err := os.MkdirAll(o.Cache, 0o700); err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		var r chartReport
		u, err := child(ctx, order{Chart: &o}, &r)
		if err != nil {
			return err
		}
		what := fmt.Sprintf("read as a bundle of %d files", r.Files)
		if raw {
			what = fmt.Sprintf("at best: %d files downloaded and unpacked, nothing kept", r.Files)
		}
		measure.Row(fmt.Sprintf("%d %% random bytes, the rest YAML", noise), measure.MiB(size>>10), what,
			measure.Seconds(r.Cost.Wall), measure.Seconds(r.Cost.CPU), measure.MiB(u.Peak), measure.Share(float64(u.Peak), chartLimit), measure.MiB(u.Anonymous))
	}
	return nil
}

// A chartOrder is one read of a chart in a process of its own.
type chartOrder struct {
	Repo  string // URL of the Helm repository
	Raw   bool   // only download and unpack
	Cache string // a folder for what is downloaded
}

// A chartReport is what became of a chartOrder.
type chartReport struct {
	Cost  cost
	Files int
}

func (o *chartOrder) run(ctx context.Context) (any, error) {
	var report chartReport
	var err error
	report.Cost, err = timed(func() error {
		var err error
		if o.Raw {
			report.Files, err = o.unpack(ctx)
		} else {
			report.Files, err = o.read(ctx)
		}
		return err
	})
	return report, err
}

// errNoChart is why a figure would be worth nothing.
var errNoChart = errors.New("reading did not give the chart")

// read reads a bundle that names the chart and returns how many files it has.
func (o *chartOrder) read(ctx context.Context) (int, error) {
	tree, err := os.MkdirTemp(o.Cache, "tree-")
	if err != nil {
		return 0, fmt.Errorf("make folder: %w", err)
	}
	err = writeFile(filepath.Join(tree, "app", "fleet.yaml"),
		fmt.Sprintf("defaultNamespace: big\nhelm:\n  repo: %s\n  chart: %s\n  version: %s\n", o.Repo, chartName, chartVersion))
	if err != nil {
		return 0, err
	}
	r, err := bundlesource.New(bundlesource.Config{Addresses: address.WithLoopback(), Dir: o.Cache, UserAgent: "fleet-bench"})
	if err != nil {
		return 0, err
	}
	defer r.Close()
	set, memory, err := r.Read(ctx, bundlesource.Input{
		Tree: os.DirFS(tree), Paths: []string{"app"},
		Options: bundle.Options{Repo: "chart", Namespace: "bench"}, Access: chart.Access{},
	})
	if err != nil {
		return 0, err
	}
	if len(set.Results) != 1 || set.Results[0].Bundle == nil {
		return 0, fmt.Errorf("%w: %s", errNoChart, texts(set.AllFindings()))
	}
	if memory == nil {
		return 0, fmt.Errorf("%w: nothing remembered", errNoChart)
	}
	return len(set.Results[0].Bundle.Spec.Resources), nil
}

func texts(list []finding.Finding) string {
	var out []string
	for _, f := range list {
		out = append(out, f.Short())
	}
	return strings.Join(out, "; ")
}

// unpack downloads the archive and reads each file of it.
func (o *chartOrder) unpack(ctx context.Context) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, o.Repo+"/"+archiveName, nil)
	if err != nil {
		return 0, fmt.Errorf("download chart: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("download chart: %w", err)
	}
	defer res.Body.Close()
	unzipped, err := gzip.NewReader(res.Body)
	if err != nil {
		return 0, fmt.Errorf("unpack chart: %w", err)
	}
	n := 0
	for files := tar.NewReader(unzipped); ; n++ {
		if _, err := files.Next(); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, fmt.Errorf("unpack chart: %w", err)
		}
		if _, err := io.Copy(io.Discard, files); err != nil {
			return n, fmt.Errorf("unpack chart: %w", err)
		}
	}
}

const (
	chartName    = "large"
	chartVersion = "1.0.0"
	archiveName  = chartName + "-" + chartVersion + ".tgz"
)

// A chartRepository serves one chart.
type chartRepository struct {
	url    string
	server *http.Server
}

// openChartRepository writes a Helm repository into dir and serves it. The
// chart is so many bytes unpacked, noise percent of them random. The size of
// the archive is in bytes.
func openChartRepository(dir string, size, noise int) (*chartRepository, int, error) {
	var archive bytes.Buffer
	if err := packChart(&archive, size, noise); err != nil {
		return nil, 0, err
	}
	index := fmt.Sprintf("apiVersion: v1\nentries:\n  %s:\n  - apiVersion: v2\n    name: %s\n    version: %s\n    digest: %s\n    urls: [%s]\ngenerated: %s\n",
		chartName, chartName, chartVersion, digest(archive.Bytes()), archiveName, time.Now().UTC().Format(time.RFC3339))
	for name, text := range map[string]string{"index.yaml": index, archiveName: archive.String()} {
		if err := writeFile(filepath.Join(dir, name), text); err != nil {
			return nil, 0, err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, 0, fmt.Errorf("serve charts: %w", err)
	}
	r := &chartRepository{
		url:    "http://" + l.Addr().String(),
		server: &http.Server{Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: 10 * time.Second},
	}
	go func() { _ = r.server.Serve(l) }() // ends with close
	return r, archive.Len(), nil
}

func (r *chartRepository) close() { _ = r.server.Close() }

// packChart writes a packaged chart: Chart.yaml, one template, and files of
// half a MiB each.
func packChart(out io.Writer, size, noise int) error {
	zipped := gzip.NewWriter(out)
	files := tar.NewWriter(zipped)
	add := func(name string, data []byte) error {
		head := &tar.Header{Name: chartName + "/" + name, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatPAX}
		if err := files.WriteHeader(head); err != nil {
			return fmt.Errorf("pack chart: %w", err)
		}
		if _, err := files.Write(data); err != nil {
			return fmt.Errorf("pack chart: %w", err)
		}
		return nil
	}
	for name, text := range chartFiles(chartName, chartVersion) {
		if err := add(name, []byte(text)); err != nil {
			return err
		}
	}
	random := newNoise()
	for i := range (size + chartFile - 1) / chartFile {
		n := min(chartFile, size-i*chartFile)
		name, data := fmt.Sprintf("files/part-%03d.yaml", i), yamlText(random, n)
		if i*100/max(1, size/chartFile) < noise {
			name, data = fmt.Sprintf("files/part-%03d.bin", i), randomBytes(random, n)
		}
		if err := add(name, data); err != nil {
			return err
		}
	}
	if err := files.Close(); err != nil {
		return fmt.Errorf("pack chart: %w", err)
	}
	if err := zipped.Close(); err != nil {
		return fmt.Errorf("pack chart: %w", err)
	}
	return nil
}

// chartFiles are the small files of a chart: what it is, and one ConfigMap
// that names the SHA-256 of its data.
func chartFiles(name, version string) map[string]string {
	return map[string]string{
		"Chart.yaml": fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version),
		"templates/sum.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sum}\ndata:\n" +
			"{{- range $path, $_ := .Files.Glob \"files/**\" }}\n  {{ base $path }}: {{ $.Files.Get $path | sha256sum | quote }}\n{{- end }}\n",
	}
}

// digest is the SHA-256 of data in hex.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// newNoise is the same sequence in each run, so that each run packs the same.
func newNoise() *rand.ChaCha8 { return rand.NewChaCha8([32]byte{'f', 'l', 'e', 'e', 't'}) }

func randomBytes(random *rand.ChaCha8, n int) []byte {
	data := make([]byte, n)
	_, _ = random.Read(data) // never fails
	return data
}

// yamlText is n bytes of YAML that compress as manifests do, about to a fifth.
func yamlText(random *rand.ChaCha8, n int) []byte {
	words := strings.Fields("metadata labels containers image name value description properties type string object required items spec replicas template")
	var b bytes.Buffer
	for r := rand.New(random); b.Len() < n; { //nolint:gosec // it shall be the same each time
		fmt.Fprintf(&b, "  %s-%d: %s\n", words[r.IntN(len(words))], r.IntN(100_000), words[r.IntN(len(words))])
	}
	return b.Bytes()[:n]
}
