package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
)

// monitored runs fleet monitor for a time and returns what it prints.
func monitored(t *testing.T, d time.Duration, api func(*fake) client.API, args ...string) (out, notes string, err error) {
	t.Helper()
	f := newFake(t, "testdata/fleets/monitor.yaml")
	g := (&stage{fake: f}).globals(func() {})
	g.Dial = func(printer.Stdio) (client.Access, error) {
		return client.Access{API: api(f), Server: "https://x"}, nil
	}
	var o, n bytes.Buffer
	root := command(g, printer.Stdio{In: strings.NewReader(""), Out: &o, Err: &n})
	root.SetArgs(append([]string{"monitor"}, args...))
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	err = root.ExecuteContext(ctx)
	if len(f.writes) > 0 {
		t.Errorf("the command writes: %v", f.writes)
	}
	return o.String(), n.String(), err
}

// away is an API server that does not answer in its second minute.
type away struct {
	*fake
	began time.Time
}

func (a away) List(ctx context.Context, q client.Query, p client.Page) (*unstructured.UnstructuredList, error) {
	if since := time.Since(a.began); since >= time.Minute && since < 2*time.Minute {
		return nil, errors.New("connection refused")
	}
	return a.fake.List(ctx, q, p)
}

// With --watch there is a line after each interval. One that fails is noted, and the next one is printed.
func TestMonitorWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		out, notes, err := monitored(t, 150*time.Second, func(f *fake) client.API { return away{f, began} }, "--watch", "--interval", "60")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("want the end of the time, got %v", err)
		}
		if n := strings.Count(out, "\n"); n != 2 {
			t.Errorf("want 2 lines, got %d:\n%s", n, out)
		}
		if !strings.Contains(notes, "warning: no snapshot: ") || !strings.Contains(notes, "connection refused") {
			t.Errorf("notes are %q", notes)
		}
	})
}

// brokenOff is an API server that loses the second page of Bundles and knows no ClusterGroups.
type brokenOff struct{ *fake }

func (b brokenOff) List(ctx context.Context, q client.Query, p client.Page) (*unstructured.UnstructuredList, error) {
	switch {
	case q.Resource.Resource == "bundles" && p.Limit > 1:
		return nil, apierrors.NewResourceExpired("the continue token is too old")
	case q.Resource.Resource == "clustergroups":
		return nil, apierrors.NewGenericServerResponse(404, "list", q.Resource.GroupResource(), "", "404 page not found", 0, true)
	}
	return b.fake.List(ctx, q, p)
}

// A list that breaks off is an entry, and nothing is diagnosed that needs it.
func TestMonitorOfAHalfBrokenServer(t *testing.T) {
	out, _, err := monitored(t, time.Hour, func(f *fake) client.API { return brokenOff{f} })
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"unread":[{"resource":"bundles","cause":"failure"`, `{"resource":"clustergroups","cause":"failure"`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	for _, wrong := range []string{"gitReposWithNoBundles", "bundleDeploymentsWithMissingBundle"} {
		if strings.Contains(out, wrong) {
			t.Errorf("%s in\n%s", wrong, out)
		}
	}
}

// A snapshot holds no data of Secrets, no content, and no credentials.
func TestMonitorHoldsNoCredential(t *testing.T) {
	out, _, err := monitored(t, time.Hour, func(f *fake) client.API { return f })
	if err != nil || strings.Contains(out, "CANARY") || strings.Contains(out, "Q0FOQVJZ") {
		t.Errorf("%v: %s", err, out)
	}
}
