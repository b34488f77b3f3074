package join

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// userAgent is how the agents name themselves.
const userAgent = "fleet-agent/bench"

// Delays between two looks for the answer, those of package register.
const (
	firstLook = 250 * time.Millisecond
	lastLook  = 2 * time.Second
)

// A fleetOf is all agents.
type fleetOf struct {
	hub    *hub
	boot   registration.Bootstrapping
	began  time.Time
	agents []*agent
}

// An agent is what one of them sends to its manager.
type agent struct {
	fleet    *fleetOf
	clientID string
	word     string
	up       *kube.Client // with the registration token
	got, in  time.Time    // its credential, and the answer to its first check-in
}

func (f *fleetOf) newAgent(i int) (*agent, error) {
	up, err := f.hub.as(f.boot.Token)
	if err != nil {
		return nil, err
	}
	return &agent{fleet: f, clientID: fmt.Sprintf("bench-%05d", i), word: rand.Text(), up: up}, nil
}

// register asks for a credential, waits for it, and checks in with it once.
func (a *agent) register(ctx context.Context) error {
	b := a.fleet.boot
	_, err := kube.StoreOf[*fleet.ClusterRegistration](a.up).Create(ctx, &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.ClusterNamespace, GenerateName: "request-",
			Labels: map[string]string{fleet.LabelRegistrationToken: b.TokenName},
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: a.clientID, ClientRandom: a.word},
	})
	if err != nil {
		return err
	}
	answer, err := a.await(ctx)
	if err != nil {
		return err
	}
	a.got = time.Now()
	if err := a.checkIn(ctx, answer); err != nil {
		return err
	}
	a.in = time.Now()
	return nil
}

// await looks for the answer until it is there.
func (a *agent) await(ctx context.Context) (*corev1.Secret, error) {
	key := kube.Key{Namespace: a.fleet.boot.RegistrationNamespace, Name: naming.RegistrationSecret(a.clientID, a.word)}
	secrets := kube.StoreOf[*corev1.Secret](a.up)
	for delay := firstLook; ; delay = min(2*delay, lastLook) {
		s, err := secrets.Get(ctx, key)
		switch {
		case err == nil && len(s.Data["token"]) > 0:
			return s, nil
		case kube.IsUnauthorized(err):
			return nil, err
		}
		if err := kube.Sleep(ctx, delay); err != nil {
			return nil, fmt.Errorf("%s waits for its credential: %w", a.clientID, context.Cause(ctx))
		}
	}
}

var errForgotten = errors.New("the manager has no time for it")

// checkIn is the first one. Rights that were just given may take a moment to be
// known.
func (a *agent) checkIn(ctx context.Context, answer *corev1.Secret) error {
	own, err := a.fleet.hub.as(string(answer.Data["token"]))
	if err != nil {
		return err
	}
	now := metav1.Now()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"agent": map[string]any{
		"lastSeen": now, "nextCheckIn": metav1.NewTime(now.Add(time.Minute)), "namespace": fleet.NamespaceSystem,
		"version": "bench", "kubernetes": "bench", "instance": a.clientID,
	}}})
	if err != nil {
		return fmt.Errorf("write a check-in: %w", err)
	}
	clusters := kube.StoreOf[*fleet.Cluster](own)
	key := kube.Key{Namespace: string(answer.Data["clusterNamespace"]), Name: string(answer.Data["clusterName"])}
	for range 20 {
		if _, err = clusters.PatchRaw(ctx, key, types.MergePatchType, body, "status"); !kube.IsForbidden(err) && !kube.IsBusy(err) {
			return err
		}
		if err := kube.Sleep(ctx, firstLook); err != nil {
			return context.Cause(ctx)
		}
	}
	return fmt.Errorf("%w: %w", errForgotten, err)
}

// times are how long after the beginning something came about for all agents.
func (f *fleetOf) times(of func(*agent) time.Time) []time.Duration {
	var out []time.Duration
	for _, a := range f.agents {
		out = append(out, of(a).Sub(f.began))
	}
	slices.Sort(out)
	return out
}

// untilNamed waits until the manager has nothing left to write: each Cluster says
// that it is connected.
func (f *fleetOf) untilNamed(ctx context.Context) error {
	for {
		clusters, err := kube.StoreOf[*fleet.Cluster](f.hub.admin).List(ctx, f.boot.ClusterNamespace, "")
		if err != nil {
			return err
		}
		n := 0
		for _, c := range clusters {
			if connected(c) {
				n++
			}
		}
		if n == len(f.agents) {
			return nil
		}
		if err := kube.Sleep(ctx, time.Second); err != nil {
			return fmt.Errorf("%w: %d of %d Clusters are connected", context.Cause(ctx), n, len(f.agents))
		}
	}
}

// split are the parts of a list.
func split(text string) iter.Seq[string] { return strings.SplitSeq(text, ",") }
