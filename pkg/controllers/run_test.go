package controllers

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// Of two processes one works, and the other one after it. Without leader election each
// works at once.
func TestLead(t *testing.T) {
	for name, c := range map[string]struct {
		elect bool
		want  []string // who works before and after the first has ended
	}{
		"Elected": {true, []string{"first", "second"}},
		"Alone":   {false, []string{"first second", "second"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := kubetest.New(t)
				at := map[string]bool{}
				begin := func(identity string) (end func()) {
					ctx, cancel := context.WithCancel(t.Context())
					cfg := Default()
					cfg.Namespace, cfg.Identity, cfg.LeaderElect = "default", identity, c.elect
					done := make(chan error, 1)
					go func() {
						done <- Lead(ctx, cfg, s.Connect(identity), LeaseController, func(ctx context.Context) error {
							at[identity] = true
							<-ctx.Done()
							delete(at, identity)
							return nil
						})
					}()
					time.Sleep(time.Minute)
					synctest.Wait()
					return func() {
						cancel()
						if err := <-done; err != nil {
							t.Error(err)
						}
						time.Sleep(time.Minute)
						synctest.Wait()
					}
				}
				works := func() string { return strings.Join(slices.Sorted(maps.Keys(at)), " ") }
				first, second := begin("first"), begin("second")
				got := []string{works()}
				first()
				got = append(got, works())
				second()
				if !slices.Equal(got, c.want) {
					t.Errorf("want %q, got %q", c.want, got)
				}
			})
		})
	}
}

// Each accepted key of an SSH host is logged once, and however many keys a host shows, no
// more than a bounded number of them.
func TestUnknownHosts(t *testing.T) {
	logger, hook := logtest.NewNullLogger()
	if (GitJob{}).unknownHost(logrus.NewEntry(logger)) != nil {
		t.Error("unknown hosts are accepted by default")
	}
	accept := GitJob{AcceptUnknownHosts: true}.unknownHost(logrus.NewEntry(logger))
	hook.Reset() // that of the start
	accept("a", "1")
	accept("a", "1")
	accept("a", "2")
	if got := len(hook.AllEntries()); got != 2 {
		t.Errorf("%d lines for two keys", got)
	}
	for i := range 2 * maxUnknownHosts {
		accept("b", strconv.Itoa(i))
	}
	if got := len(hook.AllEntries()); got != maxUnknownHosts {
		t.Errorf("%d lines, want %d", got, maxUnknownHosts)
	}
}
