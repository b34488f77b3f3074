package credential

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	plan "github.com/fleetworkspace/fleet/pkg/plan/credential"
)

// checksIn does what an agent does with the answers to its check-ins, until ctx ends. An
// answer is a read here, so that what the rotator writes can be counted.
func checksIn(ctx context.Context, c *kube.Client) error {
	var delays kube.Backoff
	var k *Rotator
	for {
		var err error
		if k, err = rotatorFor(ctx, c, "process/v0", func(_, _, _ string) {}); err == nil {
			break
		}
		if delays.Wait(ctx) != nil {
			return nil
		}
	}
	up, err := kube.Connect(kube.Config{REST: k.REST(), UserAgent: "answers", FieldManager: "process"})
	if err != nil {
		return err
	}
	for {
		cluster, err := kube.StoreOf[*fleet.Cluster](up).Get(ctx, clusterKey)
		switch {
		case err == nil:
			k.Observe(ctx, cluster.Annotations[fleet.AnnotationCredential], time.Now().Add(often))
		case kube.IsUnauthorized(err):
			_, _ = k.Recover(ctx)
		}
		if kube.Sleep(ctx, often) != nil {
			return nil
		}
	}
}

// Whatever goes wrong, an offered credential is in use in the end, and an ended one is
// recovered: the token in the Secret, its record and the token that is shown belong together.
func TestRotationFaults(t *testing.T) {
	offered := func(offer string) func(w *looptest.World) {
		return func(w *looptest.World) {
			looptest.Change(w, clusterKey.Namespace, clusterKey.Name, func(c *fleet.Cluster) {
				c.Annotations = map[string]string{fleet.AnnotationCredential: offer}
			})
		}
	}
	for name, l := range map[string]looptest.Loop{
		"Lasting": {
			Given: func(w *looptest.World) { given(w.T, w.User, oldToken, nil) },
			When:  offered(offerLasting()),
			Then: func(w *looptest.World) {
				if token := consistent(w, offerLasting()); token != lastToken {
					w.Errorf("holds %q", token)
				}
			},
		},
		"Ending": {
			Given: func(w *looptest.World) { given(w.T, w.User, oldToken, nil) },
			When:  offered(offerDay()),
			Then: func(w *looptest.World) {
				if token := consistent(w, offerDay()); !isOf("agent", token) {
					w.Errorf("holds %q", token)
				}
			},
		},
		"Ended": {
			Given: func(w *looptest.World) {
				ended := endedToken()
				text, err := json.Marshal(record{Offer: offerDay(), Token: "renewal", For: tokenDigest(ended)})
				w.Must(err)
				given(w.T, w.User, ended, text)
				offered(offerDay())(w)
				w.Server.Refuse(kubetest.Always, kubetest.Match{Token: ended})
			},
			Then: func(w *looptest.World) {
				if token := consistent(w, offerDay()); !isOf("agent", token) {
					w.Errorf("holds %q", token)
				}
			},
		},
	} {
		l.Start = func(c *kube.Client) []kube.Runner {
			return []kube.Runner{kube.RunnerFunc(func(ctx context.Context) error { return checksIn(ctx, c) })}
		}
		l.Settles = 10 * time.Minute // one that was refused is asked for again after five
		t.Run(name, func(t *testing.T) { looptest.Run(t, l) })
	}
}

// offerDay is the offer of tokens that no test lives to see renewed.
func offerDay() string {
	return plan.Offer{
		Namespace: "default", Account: "agent", Renewal: plan.RenewalAccount("agent"),
		Life: plan.Lifetimes{TTL: 24 * time.Hour, Grace: plan.DefaultGrace},
	}.String()
}

// consistent checks that the agent shows the token of the Secret, whose record is that of
// the offer, and returns it.
func consistent(w *looptest.World, offer string) string {
	w.Helper()
	cfg, s, err := kept(w.Context(), w.User)
	w.Must(err)
	if got, _ := readRecord(s.Data[KeyRecord], cfg.BearerToken); got != offer {
		w.Errorf("want the record of the offer, got %q", got)
	}
	shown := ""
	for _, r := range w.Server.Requests() {
		if strings.HasPrefix(r.UserAgent, "answers") {
			shown = r.Token
		}
	}
	w.Pass(2 * often)
	if shown == "" || cfg.BearerToken != shown {
		w.Errorf("the Secret holds %q, and the agent shows %q", cfg.BearerToken, shown)
	}
	return cfg.BearerToken
}
