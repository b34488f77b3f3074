package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
)

func TestServe(t *testing.T) {
	if m, err := serve(t.Context(), options{metricsAddress: off}); m != nil || err != nil {
		t.Errorf("nothing was asked for: %v", err)
	}
	o := options{metricsAddress: harness.FreeAddress(t), healthAddress: harness.FreeAddress(t), profileAddress: harness.FreeAddress(t)}
	m, err := serve(t.Context(), o)
	if err != nil || m == nil {
		t.Fatalf("no metrics: %v", err)
	}
	for path, want := range map[string]string{
		o.metricsAddress + "/metrics":          "fleet_agent_drift_found_total 0",
		o.healthAddress + "/healthz":           "ok\n",
		o.healthAddress + "/readyz":            "ok\n",
		o.profileAddress + "/debug/pprof/heap": "",
	} {
		if text := get(t, "http://"+path); !strings.Contains(text, want) {
			t.Errorf("%s: want %q in %s", path, want, text)
		}
	}
	if _, err := serve(t.Context(), options{healthAddress: o.healthAddress}); err == nil {
		t.Error("want an error for an address that is taken")
	}
}

func TestAddresses(t *testing.T) {
	env := map[string]string{"FLEET_AGENT_METRICS_BIND_ADDRESS": ":8080", "FLEET_AGENT_PROBE_BIND_ADDRESS": ":8081"}
	cmd := command(func(key string) string { return env[key] }, io.Discard, io.Discard)
	for flag, want := range map[string]string{"metrics-address": ":8080", "health-address": ":8081", "profile-address": ""} {
		if got := cmd.Flags().Lookup(flag).DefValue; got != want {
			t.Errorf("%s: want %q, got %q", flag, want, got)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url) //nolint:noctx // a test on loopback
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", url, resp.Status)
	}
	return string(data)
}
