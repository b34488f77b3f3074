package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
)

const (
	logLines   = 5000    // of each container
	maxLog     = 4 << 20 // bytes of it
	maxMetrics = 16 << 20
)

// errTooLong says that the rest of a text was left out.
var errTooLong = errors.New("the rest of it is left out")

// rawReader reads what is no object from an API server.
type rawReader struct {
	client rest.Interface
	err    error
}

func newRawReader(cfg *rest.Config) rawReader {
	if cfg == nil {
		return rawReader{err: errors.New("no connection for logs and metrics")}
	}
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return rawReader{err: err}
	}
	return rawReader{client: c.RESTClient()}
}

// stream begins to read a text.
func (r rawReader) stream(ctx context.Context, path []string, params map[string]string) (io.ReadCloser, error) {
	if r.err != nil {
		return nil, r.err
	}
	request := r.client.Get().AbsPath(path...)
	for k, v := range params {
		request = request.Param(k, v)
	}
	return request.Stream(ctx)
}

// A text is something that is read from the API server and is no object.
type text struct {
	name   []string
	path   []string
	params map[string]string
	limit  int  // bytes
	newest bool // its end is kept and not its beginning if it is longer
}

// addText reads a text and writes it without credentials. What was read before a failure is kept.
func (d *dumper) addText(ctx context.Context, t text) error {
	var data []byte
	in, err := d.raw.stream(ctx, t.path, t.params)
	if err == nil {
		data, err = readLines(in, t.limit, t.newest)
		_ = in.Close()
	}
	if len(data) > 0 || err == nil {
		d.m.Files[t.name[0]]++
		if err := d.to.add(fileName(t.name...), []byte(redact.Credentials(string(data)))); err != nil {
			return err
		}
	}
	if err != nil {
		return d.missing(ctx, err, t.name...)
	}
	return nil
}

// readLines reads at most limit bytes of whole lines: the first ones, or the newest of at most 16 times as many
// bytes. An incomplete line is left out, for it may be a part of a URL whose credentials cannot be recognized.
// With an error, errTooLong if something is left out, it returns what it has.
func readLines(in io.Reader, limit int, newest bool) ([]byte, error) {
	if !newest {
		data, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
		if err == nil && len(data) <= limit {
			return data, nil
		}
		if err == nil {
			err = tooLong(limit)
		}
		data = data[:min(limit, len(data))]
		return data[:bytes.LastIndexByte(data, '\n')+1], err
	}
	var kept []byte
	var err error
	cut := false
	for range 16 {
		var more []byte
		more, err = io.ReadAll(io.LimitReader(in, int64(limit)))
		ended := err != nil || len(more) < limit
		kept = append(kept, more...)
		if over := len(kept) - limit; over > 0 {
			kept, cut = slices.Clone(kept[over:]), true
		}
		if ended {
			break
		}
	}
	if cut {
		kept = kept[bytes.IndexByte(kept, '\n')+1:]
	}
	switch {
	case err != nil:
		return kept[:bytes.LastIndexByte(kept, '\n')+1], err
	case cut:
		return kept, tooLong(limit)
	}
	return kept, nil
}

func tooLong(limit int) error { return fmt.Errorf("longer than %d bytes: %w", limit, errTooLong) }

// logs writes the last lines of each container of a Pod, and of the run before if it was restarted.
func (d *dumper) logs(ctx context.Context, o *unstructured.Unstructured) error {
	pod, err := client.Convert[corev1.Pod](o)
	if err != nil {
		return d.missing(ctx, err, "logs", o.GetNamespace(), o.GetName())
	}
	restarted := map[string]bool{}
	for _, c := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		restarted[c.Name] = c.RestartCount > 0
	}
	path := []string{"/api/v1/namespaces", pod.Namespace, "pods", pod.Name, "log"}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		t := text{
			name: []string{"logs", pod.Namespace, pod.Name, c.Name}, path: path, limit: maxLog, newest: true,
			params: map[string]string{"container": c.Name, "tailLines": fmt.Sprint(logLines)},
		}
		if err := d.addText(ctx, t); err != nil {
			return err
		}
		if !restarted[c.Name] {
			continue
		}
		t.name, t.params["previous"] = append(t.name, "previous"), "true"
		if err := d.addText(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// metrics writes the metrics of each Service monitoring-*, which the API server fetches.
func (d *dumper) metrics(ctx context.Context) error {
	for _, ns := range d.systemNamespaces() {
		err := d.visit(ctx, client.Query{Resource: services, Namespace: ns}, func(o *unstructured.Unstructured) error {
			if !strings.HasPrefix(o.GetName(), "monitoring-") {
				return nil
			}
			svc, err := client.Convert[corev1.Service](o)
			if err != nil {
				return d.missing(ctx, err, "metrics", ns, o.GetName())
			}
			path := []string{"/api/v1/namespaces", ns, "services", svc.Name + ":" + metricsPort(svc), "proxy/metrics"}
			return d.addText(ctx, text{name: []string{"metrics", ns, svc.Name}, path: path, limit: maxMetrics})
		})
		if err != nil {
			if err := d.missing(ctx, err, "metrics", ns); err != nil {
				return err
			}
		}
	}
	return nil
}

// metricsPort is the port named metrics, or the first one.
func metricsPort(svc *corev1.Service) string {
	for _, p := range svc.Spec.Ports {
		if p.Name == "metrics" {
			return fmt.Sprint(p.Port)
		}
	}
	if len(svc.Spec.Ports) > 0 {
		return fmt.Sprint(svc.Spec.Ports[0].Port)
	}
	return "8080"
}
