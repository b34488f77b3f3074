package alone

import (
	"fmt"
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// cut is how long the link of a test is down: less than it takes to notice that
// nothing comes any more.
const cut = 3 * time.Second

// back is how long an agent may take from the end of a fault to the newest content,
// in all but one case of a hundred.
const back = 40 * time.Second

// An agent with the interval of production is back soon after its link is, also
// where it gets no error on its dead connections.
func reconnects(p *place, f wire.Fault) {
	p.Config.CheckinInterval = time.Minute
	p.Start()
	p.Order("app", harness.Order{Files: files("one")})
	p.State("app", fleet.Ready)
	if harness.Fastest(back, func(try int) time.Duration { return p.back(f, fmt.Sprint("two", try)) }) > back {
		p.Errorf("not back %s after the end of it", back)
	}
}

// back orders something while the link is down, and returns how long after its end
// that is there.
func (p *place) back(f wire.Fault, value string) time.Duration {
	p.Helper()
	p.Must(p.tcpProxy.Set(f))
	p.Order("app", harness.Order{Files: files(value)})
	time.Sleep(cut)
	p.Must(p.tcpProxy.Set(wire.None))
	healed := time.Now()
	p.Until("the agent is back", func() bool { return p.Data(p.Name+"-app", "a") == value })
	took := time.Since(healed)
	p.Logf("%s for %s: the newest content was there %s after it ended", f, cut, took.Round(10*time.Millisecond))
	p.State("app", fleet.Ready)
	return took
}
