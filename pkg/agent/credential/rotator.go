// Package credential keeps the credential of an agent valid. It accepts the credential
// that the manager offers, and renews tokens before they end. If a token has ended
// while the agent could not reach the manager, the package fetches another one with the
// renewal token. It tries a new token, and stores it before it uses it. Package
// credential of pkg/plan decides which credential an agent uses.
package credential

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	plan "github.com/fleetworkspace/fleet/pkg/plan/credential"
)

// requestLimit is the limit of one request.
const requestLimit = 10 * time.Second

// againAfter is how often an agent whose credential has ended asks for another
// one, once it was refused.
const againAfter = 5 * time.Minute

// Reasons of events.
const (
	ReasonTaken     = "CredentialTaken"     // the agent uses another credential, which the manager offered
	ReasonRecovered = "CredentialRecovered" // the credential had expired, and the agent has a new one
	ReasonNotTaken  = "CredentialNotTaken"  // the offered credential could not be fetched, or does not work
)

// Config says whose credential it is.
type Config struct {
	Down      *kube.Client // to the agent's own cluster
	Namespace string       // of the agent
	REST      *rest.Config // the credential, as it was read from the Secret
	Record    []byte       // what was kept beside it, under KeyRecord
	Cluster   kube.Key
	UserAgent string
	Log       *logrus.Entry
	// Report emits an event with this kind, reason and text.
	Report func(kind, reason, text string)
	Now    func() time.Time // time.Now where nil
}

// A Rotator keeps the credential of one agent valid. It is safe for concurrent use. The
// methods of a nil Rotator do nothing.
type Rotator struct {
	cfg    Config
	bearer bearer
	rest   *rest.Config

	mu      sync.Mutex // held while it fetches
	offer   string     // that was taken; empty: none
	renewal string     // the token that fetches others
	refused time.Time  // when Recover was refused last
	untaken string     // the offer that could not be taken, and was reported
	// sent are the digests of tokens that were written into the Secret without an answer:
	// one of them may be there.
	sent map[string]bool

	state sync.Mutex // of the two below
	uses  string
	span  plan.Validity
}

// New makes a Rotator; it sends no request.
func New(cfg Config) *Rotator {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	k := &Rotator{cfg: cfg, sent: map[string]bool{}}
	k.offer, k.renewal = readRecord(cfg.Record, cfg.REST.BearerToken)
	k.setToken(cfg.REST.BearerToken, k.offer)
	k.rest = rest.CopyConfig(cfg.REST)
	if cfg.REST.BearerToken != "" {
		k.rest.BearerToken = ""
		k.rest.Wrap(k.bearer.wrap)
	}
	return k
}

// REST returns a configuration that always uses the present token.
func (r *Rotator) REST() *rest.Config { return rest.CopyConfig(r.rest) }

// Uses returns the digest of the accepted offer, and when the present token expires.
// The check-in reports both.
func (r *Rotator) Uses() (digest string, expires time.Time) {
	if r == nil {
		return "", time.Time{}
	}
	r.state.Lock()
	defer r.state.Unlock()
	return r.uses, r.span.Expires
}

// setToken sets the present token and the offer that it belongs to.
func (r *Rotator) setToken(token, offer string) {
	r.bearer.set(token)
	r.state.Lock()
	defer r.state.Unlock()
	r.uses, r.span = plan.Digest(offer), plan.SpanOf(token)
}

// Observe handles the credential that the manager offers in an answer; next is when the
// agent connects next. It accepts a new offer, or renews a token that is due. It
// returns true if the agent must check in at once.
func (r *Rotator) Observe(ctx context.Context, offer string, next time.Time) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = time.Time{}
	switch {
	case offer != "" && offer != r.offer:
		return r.acceptOffer(ctx, offer)
	case r.renewalDue(next):
		r.renew(ctx)
	}
	return false
}

// renewalDue reports whether the present token must be renewed before the next
// connection.
func (r *Rotator) renewalDue(next time.Time) bool {
	r.state.Lock()
	defer r.state.Unlock()
	return r.span.Renew(r.cfg.Cluster.String(), r.cfg.Now(), next)
}

// acceptOffer fetches the tokens of an offer with the present credential, and stores
// them.
func (r *Rotator) acceptOffer(ctx context.Context, text string) bool {
	offer, err := plan.ParseOffer(text)
	var got tokens
	if err == nil {
		got, err = r.fetchTokens(ctx, offer)
	}
	if err == nil {
		err = r.tryToken(ctx, got.token)
	}
	if err == nil {
		err = r.storeTokens(ctx, text, got)
	}
	if err != nil {
		r.cfg.Log.WithField("error", err.Error()).Warn("credential not taken")
		if r.untaken != text {
			r.untaken = text
			r.cfg.Report(kube.Warning, ReasonNotTaken, "the manager offers another credential, which could not be taken ("+err.Error()+"); the present one is used on, and it is tried again")
		}
		return false
	}
	lasts := "it lasts until it is revoked"
	if !offer.IsLasting() {
		lasts = "it lasts " + plan.FormatDuration(offer.Life.TTL) + " and is renewed by this agent"
	}
	r.untaken = ""
	r.cfg.Log.WithField("agent", offer.Account).Info("credential taken")
	r.cfg.Report(kube.Normal, ReasonTaken, "this agent uses another credential of its manager; "+lasts)
	return true
}

// tokens are what is fetched: the agent's, and the one that fetches others.
type tokens struct {
	token, renewal string
}

// fetchTokens fetches the tokens of an offer with the present token.
func (r *Rotator) fetchTokens(ctx context.Context, o plan.Offer) (tokens, error) {
	up, err := r.connect(r.bearer.get())
	if err != nil {
		return tokens{}, err
	}
	if o.IsLasting() {
		return r.fetchPermanent(ctx, up, o)
	}
	return fetchBoth(ctx, up, o)
}

// fetchBoth fetches a token of the agent's account, and a token of the account that
// renews it.
func fetchBoth(ctx context.Context, up *kube.Client, o plan.Offer) (tokens, error) {
	var out tokens
	var err error
	if out.token, err = requestToken(ctx, up, kube.Key{Namespace: o.Namespace, Name: o.Account}, o.Life.TTL); err != nil {
		return tokens{}, err
	}
	out.renewal, err = requestToken(ctx, up, kube.Key{Namespace: o.Namespace, Name: o.Renewal}, o.Life.RenewalTTL())
	return out, err
}

func requestToken(ctx context.Context, up *kube.Client, account kube.Key, ttl time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return up.RequestToken(ctx, account, ttl)
}

// tryToken checks that a token has the rights of an agent, by an empty patch of the
// Cluster's status.
func (r *Rotator) tryToken(ctx context.Context, token string) error {
	up, err := r.connect(token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	_, err = kube.StoreOf[*fleet.Cluster](up).PatchRaw(ctx, r.cfg.Cluster, types.MergePatchType, []byte(`{"status":{}}`), "status")
	if err != nil {
		return fmt.Errorf("try the new credential: %w", err)
	}
	return nil
}

// renew fetches new tokens while the present one is valid.
func (r *Rotator) renew(ctx context.Context) {
	offer, err := plan.ParseOffer(r.offer)
	if err != nil {
		return // no offered credential: the token has another source
	}
	got, err := r.fetchTokens(ctx, offer)
	if err == nil {
		err = r.storeTokens(ctx, r.offer, got)
	}
	if err != nil {
		r.cfg.Log.WithField("error", err.Error()).Warn("credential not renewed")
		return
	}
	r.cfg.Log.WithField("agent", offer.Account).Debug("credential renewed")
}

// Recover fetches another token if the present one was refused because it has expired.
// It returns false and no error if the present token has not expired, or never does. If
// admission denied the token, the next check-in tries it again: the account for renewal
// has its rights.
func (r *Rotator) Recover(ctx context.Context) (bool, error) {
	if r == nil {
		return false, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ends := r.Uses(); ends.IsZero() || !r.refused.IsZero() && r.cfg.Now().Sub(r.refused) < againAfter {
		return false, nil
	}
	offer, err := plan.ParseOffer(r.offer)
	if err != nil || r.renewal == "" {
		return false, nil //nolint:nilerr // nothing to fetch another one with
	}
	token, err := r.fetchWithRenewal(ctx, offer)
	if err != nil {
		if !kube.IsDenied(err) && (kube.IsUnauthorized(err) || kube.IsForbidden(err)) {
			r.refused = r.cfg.Now()
		}
		return false, err
	}
	if err := r.storeTokens(ctx, r.offer, token); err != nil {
		return false, err
	}
	r.cfg.Log.WithField("agent", offer.Account).Info("credential recovered")
	r.cfg.Report(kube.Normal, ReasonRecovered, "the credential had ended while the manager was away; this agent has fetched a new one")
	return true, nil
}

// Ended reports whether the present credential has expired and the manager offers no
// other one.
func (r *Rotator) Ended() bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.refused.IsZero()
}

// fetchWithRenewal fetches a token with the renewal token, and with that new token both
// tokens.
func (r *Rotator) fetchWithRenewal(ctx context.Context, o plan.Offer) (tokens, error) {
	up, err := r.connect(r.renewal)
	if err != nil {
		return tokens{}, err
	}
	token, err := requestToken(ctx, up, kube.Key{Namespace: o.Namespace, Name: o.Account}, o.Life.TTL)
	if err != nil {
		return tokens{}, err
	}
	if up, err = r.connect(token); err != nil {
		return tokens{}, err
	}
	renewal, err := requestToken(ctx, up, kube.Key{Namespace: o.Namespace, Name: o.Renewal}, o.Life.RenewalTTL())
	if err != nil { // the present renewal token may work the next time
		r.cfg.Log.WithField("error", err.Error()).Warn("renewal token not renewed")
		renewal = r.renewal
	}
	return tokens{token: token, renewal: renewal}, nil
}

// connect returns a connection to the manager with a token.
func (r *Rotator) connect(token string) (*kube.Client, error) {
	cfg := rest.CopyConfig(r.cfg.REST)
	cfg.BearerToken = token
	up, err := kube.Connect(kube.Config{REST: cfg, UserAgent: r.cfg.UserAgent, FieldManager: fleet.FieldManagerAgent})
	if err != nil {
		return nil, err
	}
	return up.Loop("credential"), nil
}
