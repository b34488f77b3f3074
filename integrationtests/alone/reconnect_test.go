package alone

import (
	"time"

	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// cut is how long the link of a story is down: less than it takes to notice that
// nothing comes any more.
const cut = 3 * time.Second

// back is how long an agent may take from the end of a fault to the newest content,
// in all but one case of a hundred.
const back = 40 * time.Second

// An agent with the interval of production is back soon after its link is, also
// where nobody tells it that its connections are dead.
func reconnects(p *place, f wire.Fault) {
	p.Config.CheckinInterval = time.Minute
	p.Start()
	p.Order("app", harness.Order{Files: files("one")})
	p.State("app", fleet.Ready)
	p.Must(p.cord.Set(f))
	p.Order("app", harness.Order{Files: files("two")})
	time.Sleep(cut)
	p.Must(p.cord.Set(wire.None))
	healed := time.Now()
	for p.Data(p.Name+"-app", "a") != "two" {
		if time.Since(healed) > back {
			p.Fatalf("not back %s after the end of it", back)
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.Logf("%s for %s: the newest content was there %s after it ended", f, cut, time.Since(healed).Round(10*time.Millisecond))
	p.State("app", fleet.Ready)
}
