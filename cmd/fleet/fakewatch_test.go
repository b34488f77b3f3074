package main

import (
	"context"
	"testing"
	"testing/synctest"
)

// A command may stop a watch at any event. The fake server then sends no more, closes
// the channel of events, and does not end the test's context.
func TestFakeWatchStopped(t *testing.T) {
	for taken := range 4 {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t, "testdata/fleets/push.yaml")
			f.end = func() { t.Error("a watch that was stopped has ended the context") }
			w, err := f.Watch(context.Background(), query{resource: mustKind("bundles").resource()}, "")
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
