package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// stopServing is how long a scrape may take to end.
const stopServing = 2 * time.Second

// serve opens the endpoints for metrics and probes that were asked for. An
// address that cannot be opened is an error at once.
func (p *process) serve(ctx context.Context, group *errgroup.Group) error {
	metrics := http.NewServeMux()
	metrics.Handle("/metrics", promhttp.HandlerFor(p.metrics.Gatherer(), promhttp.HandlerOpts{}))
	health := http.NewServeMux()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) }
	health.HandleFunc("/healthz", ok)
	health.HandleFunc("/readyz", ok)
	for _, e := range []struct {
		address string
		handler http.Handler
	}{{p.options.metricsAddress, metrics}, {p.options.healthAddress, health}} {
		if !isSet(e.address) {
			continue
		}
		listener, err := net.Listen("tcp", e.address)
		if err != nil {
			return fmt.Errorf("listen on %q: %w", e.address, err)
		}
		server := &http.Server{Handler: e.handler, ReadHeaderTimeout: 10 * time.Second}
		group.Go(func() error {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		})
		context.AfterFunc(ctx, func() {
			ending, cancel := context.WithTimeout(context.Background(), stopServing)
			defer cancel()
			_ = server.Shutdown(ending)
		})
	}
	return nil
}

// isSet reports whether an address is one to listen on.
func isSet(address string) bool { return address != "" && address != "0" }

// receiveWebhooks opens the endpoint for webhooks if it was asked for. An address that
// cannot be opened is an error at once.
func (p *process) receiveWebhooks(ctx context.Context, group *errgroup.Group, c *kube.Client) error {
	if !isSet(p.options.webhookAddress) {
		return nil
	}
	listener, err := net.Listen("tcp", p.options.webhookAddress)
	if err != nil {
		return fmt.Errorf("listen on %q for webhooks: %w", p.options.webhookAddress, err)
	}
	group.Go(func() error { return controllers.RunWebhooks(ctx, p.config(), listener, c, p.log) })
	return nil
}
