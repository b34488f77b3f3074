package main

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestServe(t *testing.T) {
	if turn, err := serve(t.Context(), options{}); turn != nil || err != nil {
		t.Errorf("nothing was asked for: %v", err)
	}
	o := options{metricsAddress: freeAddress(t), healthAddress: freeAddress(t)}
	turn, err := serve(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	turn("ok", time.Second)
	if text := get(t, "http://"+o.metricsAddress+"/metrics"); !strings.Contains(text, `fleet_reconcile_seconds_count{loop="deploy",result="ok"} 1`) {
		t.Errorf("got %s", text)
	}
	if text := get(t, "http://"+o.healthAddress+"/healthz"); text != "ok\n" {
		t.Errorf("got %q", text)
	}
	if _, err := serve(t.Context(), options{healthAddress: o.healthAddress}); err == nil {
		t.Error("want an error for an address that is taken")
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
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
	return string(data)
}
