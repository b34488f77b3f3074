package agent

import (
	"github.com/sirupsen/logrus"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// A base is what all parts of the agent read and report to.
type base struct {
	cfg     Config
	down    *kube.Client // of the agent's own cluster
	log     *logrus.Entry
	contact *managerState
	events  *events
}

func newBase(cfg Config, down *kube.Client, log *logrus.Entry) *base {
	c := newManagerState(down.Loop("contact"), cfg.Namespace)
	return &base{cfg: cfg, down: down, log: log, contact: c, events: &events{
		recorder: kube.NewRecorder(down, "fleet-agent"), journal: newJournal(down.Loop("checkin"), cfg.Namespace), contact: c, metrics: cfg.Metrics,
	}}
}
