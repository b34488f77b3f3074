package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/fleetworkspace/fleet/pkg/agent"
)

// off is an address at which nothing is served, as rancher/fleet has it.
const off = "0"

// serve opens the requested endpoints, until ctx ends, and returns the agent's metrics;
// nil without metrics.
func serve(ctx context.Context, o options) (*agent.Metrics, error) {
	health, profiles := http.NewServeMux(), http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz"} {
		health.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	}
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	endpoints := []endpoint{{o.healthAddress, health}, {o.profileAddress, profiles}}
	var metrics *agent.Metrics
	if served(o.metricsAddress) {
		metrics = agent.NewMetrics()
		mux := http.NewServeMux()
		mux.Handle("/metrics", promhttp.HandlerFor(metrics.Gatherer(), promhttp.HandlerOpts{}))
		endpoints = append(endpoints, endpoint{o.metricsAddress, mux})
	}
	for _, e := range endpoints {
		if !served(e.address) {
			continue
		}
		if err := listen(ctx, e.address, e.handler); err != nil {
			return nil, err
		}
	}
	return metrics, nil
}

type endpoint struct {
	address string
	handler http.Handler
}

func served(address string) bool { return address != "" && address != off }

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
