package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A rotation is done when the manager has taken the order down.
func TestClusterRotateWaits(t *testing.T) {
	st := stage{fake: newFake(t, "testdata/fleets/gate.yaml")}
	var out, notes bytes.Buffer
	root := command(st.globals(func() {}), printer.Stdio{In: strings.NewReader(""), Out: &out, Err: &notes})
	root.SetArgs([]string{"cluster", "rotate", "-n", "fleet-default", "c1"})
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	go func() { // the manager
		clusters := cli.MustKind("clusters").Resource()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			<-tick.C
			u, err := st.fake.Get(ctx, clusters, "fleet-default", "c1")
			if err != nil || u.GetAnnotations()[fleet.AnnotationRotate] == "" {
				continue
			}
			_, _ = st.fake.Patch(ctx, clusters, "fleet-default", "c1", []byte(`{"metadata":{"annotations":{"`+fleet.AnnotationRotate+`":null}}}`))
			return
		}
	}()
	if err := root.ExecuteContext(ctx); err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	if want := "the agent of cluster fleet-default/c1 uses a new credential; the one before is void\n"; out.String() != want {
		t.Errorf("want %q, got %q", want, out.String())
	}
}
