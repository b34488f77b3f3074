package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// loopName is the agent's loop in metrics.
const loopName = "deploy"

// serve opens the endpoints that were asked for, until ctx ends, and returns
// what the turns of the loop are told to; nil without metrics.
func serve(ctx context.Context, o options) (func(result string, took time.Duration), error) {
	if o.healthAddress != "" {
		mux := http.NewServeMux()
		mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
		if err := listen(ctx, o.healthAddress, mux); err != nil {
			return nil, err
		}
	}
	if o.metricsAddress == "" {
		return nil, nil
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "fleet_reconcile_seconds", Help: "Duration of one turn of a loop, by its result.",
		Buckets: []float64{.001, .005, .02, .1, .5, 2, 10, 60},
	}, []string{"loop", "result"})
	registry := prometheus.NewRegistry()
	registry.MustRegister(seconds)
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if err := listen(ctx, o.metricsAddress, mux); err != nil {
		return nil, err
	}
	return func(result string, took time.Duration) {
		seconds.WithLabelValues(loopName, result).Observe(took.Seconds())
	}, nil
}

// listen serves at an address until ctx ends. An address that cannot be opened
// is an error at once.
func listen(ctx context.Context, address string, handler http.Handler) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen on %q: %w", address, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }() // ends when it is closed
	return nil
}
