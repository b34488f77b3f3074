package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
)

// A command may stop a watch at any event. The fake server then sends no more, closes
// the channel of events, and does not end the test's context.
func TestFakeWatchStopped(t *testing.T) {
	for taken := range 4 {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, "testdata/fleets/push.yaml")
			f.end = func() { t.Error("a watch that was stopped has ended the context") }
			w, err := f.Watch(context.Background(), client.Query{Resource: cli.MustKind("bundles").Resource()}, "")
			if err != nil {
				t.Fatal(err)
			}
			for range taken {
				<-w.ResultChan()
			}
			synctest.Wait() // the sender waits for the next event to be taken
			w.Stop()
			w.Stop()
			synctest.Wait()
			if e, open := <-w.ResultChan(); open {
				t.Errorf("after %d events and Stop: got %v", taken, e.Type)
			}
		})
	}
}
