// Package managertest starts single loops of agent management in tests.
package managertest

import (
	"io"

	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/cache"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Installation is the manager that tests run.
var Installation = registration.Installation{ID: "manager", ClusterUID: "upstream"}

// System is the manager that tests run, in the words of the planner.
var System = registration.System{Namespace: "manager", ManagerID: Installation.ID}

// Ports are the arguments of the constructor of a loop.
type Ports struct {
	Client *kube.Client
	Caches *cache.Shared
	Events *kube.Recorder
	Log    *logrus.Entry
}

// Start returns a function that makes the runnables of a process with some loops.
func Start(loops func(p Ports) []kube.Runner) func(*kube.Client) []kube.Runner {
	return func(c *kube.Client) []kube.Runner {
		log := logrus.New()
		log.SetOutput(io.Discard)
		p := Ports{Client: c, Caches: cache.New(c, System), Events: kube.NewRecorder(c, "agentmanagement"), Log: logrus.NewEntry(log)}
		out := loops(p)
		return append(append(p.Caches.Runnables(), p.Events), out...)
	}
}
