// Package checkin sends check-ins to the manager, at a fixed interval or at the times
// of a schedule. Package heartbeat of pkg/plan decides these times. The answer to a
// check-in contains the Cluster; the agent may patch its status and cannot read it
// otherwise.
package checkin

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// Times of the check-in.
const (
	requestTime   = 10 * time.Second       // limit of one check-in
	haste         = 500 * time.Millisecond // at most, until a doubt is looked into
	overloadTries = 4                      // attempts with a manager that has no time
)

// An Answer is what the agent learns by a check-in.
type Answer struct {
	Mark registration.Mark // the mark of the manager; zero if it has none
	// Version is the resourceVersion of the Cluster.
	Version string
	// Interval is how often the manager wants the agent to check in; 0: it does not
	// say.
	Interval time.Duration
	// Credential is the offer of another credential; empty: there is none.
	Credential string
	// Younger is true while another, older agent has the same identity.
	Younger bool
	// Duplicate is the instance of another agent with the same identity.
	Duplicate string
	// ClusterUID is that of the cluster in which the agent of this identity works, as
	// was said last; empty: nothing was said.
	ClusterUID string
	// Rival is true if another agent has written its instance since.
	Rival bool
}

// Config says what check-ins report, and to which Cluster.
type Config struct {
	Statuses *kube.Store[*fleet.Cluster] // at the manager
	Cluster  kube.Key
	// Next is when the agent checks in after now. Each check-in reports it, so that the
	// manager knows when to miss the agent.
	Next func(now time.Time) time.Time

	Namespace  string // of the agent
	Version    string
	Kubernetes string
	Instance   string

	// Orphans are the releases that lost their deployment; false if that is not
	// known at the moment.
	Orphans func() (fleet.AgentOrphans, bool)
	// Journal is the agent's journal, packed. A check-in carries it when it has
	// changed. Nil: there is none.
	Journal func() []byte
	// Credential is the digest of the offered credential that the agent uses, and
	// when that ends (zero: it lasts). Nil: none was ever offered.
	Credential func() (digest string, expires time.Time)
	// ClusterUID is that of the agent's own cluster; empty: it is not known. It is
	// written while Claims, which is asked before each check-in, is true.
	ClusterUID string
	Claims     func() bool
	// Trouble says why the agent cannot work in its own cluster; empty: it can.
	Trouble func() string
	// OnAnswer and OnFailure are called with the result of each check-in.
	OnAnswer  func(Answer)
	OnFailure func(error)
	Now       func() time.Time // time.Now where nil
}

// A CheckIn is a running series of check-ins.
type CheckIn struct {
	cfg      Config
	rival    rivalry
	claimed  bool   // the instance was written once
	trouble  string // as the manager has it
	reported []byte // the journal, as the manager has it
	wake     chan struct{}
	doubt    chan struct{}
}

// New makes a series of check-ins; it runs with Run.
func New(cfg Config) *CheckIn {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Claims == nil {
		cfg.Claims = func() bool { return false }
	}
	if cfg.Trouble == nil {
		cfg.Trouble = func() string { return "" }
	}
	return &CheckIn{cfg: cfg, wake: make(chan struct{}, 1), doubt: make(chan struct{}, 1), rival: rivalry{own: cfg.Instance}}
}

// Soon makes the agent check in at once, unless the last check-in has failed: then the
// manager is not reachable.
func (c *CheckIn) Soon() { signal(c.wake) }

// Doubt makes the agent check in within half a second, because a request shows that the
// manager may be unreachable. The delay is random, so that agents that lose a manager
// at the same moment do not check in at once.
func (c *CheckIn) Doubt() { signal(c.doubt) }

// signal puts a value into a channel, unless it has one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Run checks in at once, and then at the times of the configuration, until ctx ends.
// After a failure it tries again after the delay of heartbeat.Again.
func (c *CheckIn) Run(ctx context.Context) error {
	failures := 0
	for {
		answer, err := c.Once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		now := c.cfg.Now()
		var at time.Time
		if err != nil {
			failures++
			c.cfg.OnFailure(err)
			at = c.nextTry(failures, now)
		} else {
			failures = 0
			c.cfg.OnAnswer(answer) // may change the time of the next check-in
			at = c.cfg.Next(now)
			if c.rival.claim && c.rival.seen <= proof {
				c.Soon() // the next answer shows whether the other agent runs
			}
		}
		if !c.waitForNext(ctx, max(0, at.Sub(now)), err != nil) {
			return nil
		}
	}
}

// nextTry returns the time of the next try after some failures in a row: that of
// heartbeat.Again, or that of the next regular check-in if the agent checks in more
// often.
func (c *CheckIn) nextTry(failures int, now time.Time) time.Time {
	at, regular := heartbeat.RetryTime(failures, now, c.cfg.Cluster.String()), c.cfg.Next(now)
	if often := c.cfg.Next(regular).Sub(regular) < heartbeat.RetryInterval; often && regular.Before(at) {
		return regular
	}
	return at
}

// waitForNext waits until the next check-in; false: ctx has ended.
func (c *CheckIn) waitForNext(ctx context.Context, wait time.Duration, failed bool) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	wake, doubt := c.wake, c.doubt
	if failed { // after a failure only the delay counts
		wake, doubt = nil, nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
	case <-wake:
	case <-doubt:
		t.Reset(rand.N(haste)) //nolint:gosec // spreads load, keeps no secret
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
	if failed { // the next check-in answers earlier signals too
		drainSignal(c.wake)
		drainSignal(c.doubt)
	}
	return true
}

func drainSignal(ch chan struct{}) {
	select {
	case <-ch:
	default:
	}
}

// Once checks in one time, and takes at most 10 s.
func (c *CheckIn) Once(ctx context.Context) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	journal, trouble := c.journal(), c.cfg.Trouble()
	body, err := c.body(journal, trouble)
	if err != nil {
		return Answer{}, err
	}
	cluster, err := c.patch(ctx, body)
	if err != nil {
		return Answer{}, fmt.Errorf("check in: %w", err)
	}
	c.claimed, c.reported, c.trouble = true, journal, trouble
	out := Answer{Version: cluster.ResourceVersion}
	if mark, err := registration.ParseMark(cluster.Annotations[fleet.AnnotationManager]); err == nil {
		out.Mark = mark
	}
	if interval, err := heartbeat.ParseInterval(cluster.Annotations[fleet.AnnotationCheckInInterval]); err == nil {
		out.Interval = interval
	}
	out.Credential = cluster.Annotations[fleet.AnnotationCredential]
	moving := registration.LocalMoveOf(cluster).ExpectsOtherAgent(c.cfg.Namespace, cluster.Spec.AgentNamespace)
	out.Duplicate, out.Younger = c.rival.judgeInstance(cluster.Status.Agent.Instance, moving)
	out.ClusterUID, out.Rival = cluster.Status.Agent.ClusterUID, c.rival.claim
	if out.ClusterUID == c.cfg.ClusterUID && differentClusters(c.cfg.Instance, out.Duplicate) {
		out.Younger = false // the other agent then finds that the identity is not its own
	}
	return out, nil
}

// patch sends the patch. If the manager is overloaded (429), it tries a few times.
func (c *CheckIn) patch(ctx context.Context, body []byte) (*fleet.Cluster, error) {
	var delays kube.Backoff
	for turn := 1; ; turn++ {
		cluster, err := c.cfg.Statuses.PatchRaw(ctx, c.cfg.Cluster, types.MergePatchType, body, "status")
		if turn == overloadTries || !kube.IsBusy(err) || delays.Wait(ctx) != nil {
			return cluster, err
		}
	}
}

// body returns the patch. The first check-in writes the instance. Later check-ins write
// it again only if the Cluster has the instance of another agent: two agents with one
// identity then overwrite each other's instance, and each notices the other.
func (c *CheckIn) body(journal []byte, trouble string) ([]byte, error) {
	now := c.cfg.Now().UTC()
	agent := map[string]any{
		"lastSeen":    metav1.NewTime(now),
		"nextCheckIn": metav1.NewTime(c.cfg.Next(now).UTC()),
		"namespace":   c.cfg.Namespace,
		"version":     c.cfg.Version,
		"kubernetes":  c.cfg.Kubernetes,
	}
	if o, known := c.cfg.Orphans(); known {
		agent["orphans"] = nil
		if o.Count > 0 {
			agent["orphans"] = o
		}
	}
	if !bytes.Equal(journal, c.reported) {
		agent["journal"] = journal
	}
	if trouble != c.trouble || !c.claimed {
		agent["trouble"] = nil
		if trouble != "" {
			agent["trouble"] = trouble
		}
	}
	c.credential(agent)
	if !c.claimed || c.rival.claim {
		agent["instance"] = c.cfg.Instance
	}
	if c.cfg.ClusterUID != "" && c.cfg.Claims() {
		agent["clusterUID"] = c.cfg.ClusterUID
	}
	return json.Marshal(map[string]any{"status": map[string]any{"agent": agent}})
}

// credential adds to a patch which credential the agent uses. An agent whose credential
// was not offered reports that once, to replace the report about an earlier credential.
func (c *CheckIn) credential(agent map[string]any) {
	digest, expires := "", time.Time{}
	if c.cfg.Credential != nil {
		digest, expires = c.cfg.Credential()
	}
	if digest == "" && c.claimed {
		return
	}
	agent["credential"], agent["credentialExpires"] = nil, nil
	if digest != "" {
		agent["credential"] = digest
	}
	if !expires.IsZero() {
		agent["credentialExpires"] = metav1.NewTime(expires.UTC())
	}
}

// journal returns the part of the journal that the check-in reports.
func (c *CheckIn) journal() []byte {
	if c.cfg.Journal == nil {
		return nil
	}
	return c.cfg.Journal()
}

// NewInstance returns a name for this run of the agent in its cluster; clusterUID may
// be empty. Of two names the greater one is of the younger process.
func NewInstance(now time.Time, clusterUID string) (string, error) {
	var b [4]byte
	if _, err := crand.Read(b[:]); err != nil {
		return "", err
	}
	name := fmt.Sprintf("%012x-%s", now.UnixMilli(), hex.EncodeToString(b[:]))
	if clusterUID != "" {
		name += "-" + naming.KeyHash(clusterUID)[:8]
	}
	return name, nil
}

// differentClusters reports whether two agents are known to run in different clusters.
func differentClusters(one, other string) bool {
	a, b := strings.Split(one, "-"), strings.Split(other, "-")
	return len(a) == 3 && len(b) == 3 && a[2] != b[2]
}

// A rivalry finds out whether another agent uses the same identity. To see another
// instance once is no proof: a process that has ended may have written it. It is proof
// if the other instance is back after this agent wrote its own name. While the agent
// moves to another namespace, the other instance is its predecessor or successor: both
// may check in until the manager has removed the predecessor, and neither treats the
// other as a rival.
type rivalry struct {
	own   string
	other string // other instance that was seen
	seen  int    // how often
	quiet int    // check-ins since
	claim bool   // write the own instance with the next check-in
}

// Rivalry limits.
const (
	proof    = 2 // answers with another instance
	allQuiet = 4 // check-ins without one after which it is over: each of two writes at every third at least
)

// judgeInstance handles the instance in the answer of a check-in. duplicate is the
// proven other instance, or empty; younger reports that this agent is the younger one.
func (r *rivalry) judgeInstance(instance string, moving bool) (duplicate string, younger bool) {
	r.claim = false
	if moving {
		r.other, r.seen, r.quiet = "", 0, 0
		return "", false
	}
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
