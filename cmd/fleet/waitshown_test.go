package main

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/wait"
)

// fleet wait ends when fleet status says the same, which the manager writes after the agents
// have reported; or after a few seconds, whatever the manager does.
func TestWaitEndsWithTheStatus(t *testing.T) {
	const bundle = "fleet-default/examples-web"
	summary := func(o *unstructured.Unstructured, value map[string]any) {
		if err := unstructured.SetNestedMap(o.Object, value, "status", "summary"); err != nil {
			t.Fatal(err)
		}
	}
	moving := map[string]any{"waitApplied": int64(3), "desiredReady": int64(3)}
	for name, written := range map[string]bool{"Written": true, "NeverWritten": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fleet := newFake(t, "testdata/fleets/push.yaml")
				summary(fleet.at("Bundle "+bundle), moving)
				f := startIn(t, fleet, "wait", "bundle/examples-web")
				f.next() // all is Ready for longer than a second
				select {
				case err := <-f.ended:
					t.Fatalf("the wait is over before the status says so: %v, %s", err, f.out.String())
				default:
				}
				if written {
					f.live.change("Bundle", bundle, func(o *unstructured.Unstructured) {
						summary(o, map[string]any{"ready": int64(3), "desiredReady": int64(3)})
					})
				} else {
					f.next()
				}
				synctest.Wait()
				f.next()
				select {
				case err := <-f.ended:
					if err != nil {
						t.Errorf("got %v: %s", err, f.notes.String())
					}
				default:
					t.Error("the wait goes on")
					f.end()
				}
			})
		})
	}
}

// A time that is over before everything has stayed Ready ends the wait as any other does, and
// says so.
func TestWaitEndsBeforeItSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startIn(t, newFake(t, "testdata/fleets/push.yaml"), "wait", "bundle/examples-web", "--timeout", "500ms")
		f.next()
		select {
		case err := <-f.ended:
			if !errors.Is(err, cli.ErrNotReady) {
				t.Errorf("got %v", err)
			}
		default:
			t.Fatal("the wait goes on")
		}
		if out := f.out.String(); !strings.Contains(out, "not in time: 3 of 3 clusters are Ready, and not for a second yet\n") {
			t.Errorf("got %s", out)
		}
		if notes := f.notes.String(); !strings.Contains(notes, "stop    not in time: "+wait.Unsettled) {
			t.Errorf("got %s", notes)
		}
	})
}
