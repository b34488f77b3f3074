// Package checkin tells the manager regularly that the agent lives, and learns
// from the answer what the agent has to know of its Cluster: it may patch that
// status and read nothing.
package checkin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Times of the check-in.
const (
	firstRetry  = time.Second // after a check-in that failed, doubling
	lastRetry   = 30 * time.Second
	requestTime = 10 * time.Second // limit of one check-in
)

// An Answer is what the agent learns by a check-in.
type Answer struct {
	Mark registration.Mark // the manager; zero if it does not say
	// Younger is true while another, older agent has the same identity.
	Younger bool
	// Duplicate is the instance of another agent with the same identity.
	Duplicate string
}

// Config says what is told, and to whom.
type Config struct {
	Statuses *kube.Store[*fleet.Cluster] // at the manager
	Cluster  kube.Key
	Interval time.Duration

	Namespace  string // of the agent
	Version    string
	Kubernetes string
	Instance   string

	// Orphans are the releases that lost their deployment; false if that is not
	// known at the moment.
	Orphans func() (fleet.AgentOrphans, bool)
	// OnAnswer and OnFailure are told how each check-in went.
	OnAnswer  func(Answer)
	OnFailure func(error)
	Now       func() time.Time // time.Now where nil
}

// A CheckIn is a running series of check-ins.
type CheckIn struct {
	cfg     Config
	rival   rivalry
	claimed bool // the instance was written once
	wake    chan struct{}
}

// New makes a series of check-ins; it runs with Run.
func New(cfg Config) *CheckIn {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &CheckIn{cfg: cfg, wake: make(chan struct{}, 1), rival: rivalry{own: cfg.Instance}}
}

// Soon checks in at once instead of at the next time.
func (c *CheckIn) Soon() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run checks in at once and then at each interval until ctx ends. After a
// failure it tries again after 1 s, doubling up to 30 s.
func (c *CheckIn) Run(ctx context.Context) error {
	retry := firstRetry
	for {
		wait := c.cfg.Interval
		answer, err := c.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			wait, retry = min(retry, c.cfg.Interval), min(2*retry, lastRetry)
			c.cfg.OnFailure(err)
		default:
			retry = firstRetry
			c.cfg.OnAnswer(answer)
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-c.wake:
		}
		t.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// once checks in.
func (c *CheckIn) once(ctx context.Context) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	body, err := c.body()
	if err != nil {
		return Answer{}, err
	}
	cluster, err := c.cfg.Statuses.PatchRaw(ctx, c.cfg.Cluster, types.MergePatchType, body, "status")
	if err != nil {
		return Answer{}, fmt.Errorf("check in: %w", err)
	}
	c.claimed = true
	var out Answer
	if mark, err := registration.ParseMark(cluster.Annotations[fleet.AnnotationManager]); err == nil {
		out.Mark = mark
	}
	out.Duplicate, out.Younger = c.rival.meet(cluster.Status.Agent.Instance)
	return out, nil
}

// body is the patch. The instance is written by the first check-in, and again
// when another one stands there: two agents with one identity then take turns,
// and each sees the other.
func (c *CheckIn) body() ([]byte, error) {
	agent := map[string]any{
		"lastSeen":   metav1.NewTime(c.cfg.Now().UTC()),
		"namespace":  c.cfg.Namespace,
		"version":    c.cfg.Version,
		"kubernetes": c.cfg.Kubernetes,
	}
	if o, known := c.cfg.Orphans(); known {
		agent["orphans"] = nil
		if o.Count > 0 {
			agent["orphans"] = o
		}
	}
	if !c.claimed || c.rival.claim {
		agent["instance"] = c.cfg.Instance
	}
	return json.Marshal(map[string]any{"status": map[string]any{"agent": agent}})
}

// NewInstance names this run of the agent. Of two names the greater is the
// younger one.
func NewInstance(now time.Time) (string, error) {
	var b [4]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return fmt.Sprintf("%012x-%s", now.UnixMilli(), hex.EncodeToString(b[:])), nil
}

// rivalry finds out whether another agent uses the same identity. One sight of
// another instance may be the last word of a process that is gone; that the
// other one comes back after the own name was written again is proof.
type rivalry struct {
	own   string
	other string // seen instead of the own
	seen  int    // how often
	quiet int    // check-ins since
	claim bool   // write the own name with the next check-in
}

// Rivalry limits.
const (
	proof    = 2 // sights of another instance
	allQuiet = 3 // check-ins without one after which it is over
)

// meet judges the instance in the answer of a check-in.
func (r *rivalry) meet(instance string) (duplicate string, younger bool) {
	r.claim = false
	if instance != "" && instance != r.own {
		r.other, r.quiet, r.claim = instance, 0, true
		r.seen++
	} else if r.quiet++; r.quiet >= allQuiet {
		r.other, r.seen = "", 0
	}
	if r.seen < proof {
		return "", false
	}
	return r.other, r.own > r.other
}
