package fleet

import "fmt"

// Ports is the block of ports on 127.0.0.1 that a fleet uses. With First 0
// every part takes any free port, and the methods return 0.
type Ports struct {
	First    int
	Clusters int // downstream clusters, of all managers
}

// DefaultFirstPort is where the sandbox's block begins.
const DefaultFirstPort = 31000

// stride is the distance from one cluster's API server to the link in front
// of which its agent sits, and half the block.
func (p Ports) stride() int { return max(10, p.Clusters+3) }

func (p Ports) at(offset int) int {
	if p.First == 0 {
		return 0
	}
	return p.First + offset
}

// Control is the port of the running sandbox's control server.
func (p Ports) Control() int { return p.at(0) }

// API is the API server of a cluster: 0 is the management cluster, from 1 on
// the downstream ones.
func (p Ports) API(i int) int { return p.at(1 + i) }

// Git is the git server.
func (p Ports) Git() int { return p.at(p.stride() - 1) }

// Link is what the agent of a downstream cluster, from 1 on, connects to
// instead of its manager's API server.
func (p Ports) Link(i int) int { return p.at(p.stride() + i) }

// Metrics is where a process of the management cluster's manager serves metrics: 0 is
// fleet-controller, 1 is gitjob.
func (p Ports) Metrics(i int) int { return p.at(2*p.stride() - 2 + i) }

// Webhooks is where gitjob of the management cluster receives webhooks.
func (p Ports) Webhooks() int { return p.at(p.stride()) }

// Last is the end of the block.
func (p Ports) Last() int { return p.at(2*p.stride() - 1) }

// A Use is a port and what it is for.
type Use struct {
	Port int
	For  string
}

// Uses lists all ports that a fleet of these downstream clusters takes.
func (p Ports) Uses(names []string) []Use {
	uses := []Use{
		{p.Control(), "control"}, {p.API(0), "API server of local"}, {p.Git(), "git server"},
		{p.Metrics(0), "metrics of fleet-controller"}, {p.Metrics(1), "metrics of gitjob"}, {p.Webhooks(), "webhooks"},
	}
	for i, name := range names {
		uses = append(uses,
			Use{p.API(i + 1), "API server of " + name},
			Use{p.Link(i + 1), fmt.Sprintf("link from %s to its manager", name)})
	}
	return uses
}
