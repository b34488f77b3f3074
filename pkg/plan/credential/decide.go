package credential

import (
	"fmt"
	"slices"
	"time"
)

// Timeout is for how long a manager has been at work before it takes any agent
// for one that has not come back: they may all have waited for it.
const Timeout = time.Hour

// lookAgain is how often it is looked whether an agent that was away is back.
const lookAgain = time.Minute

// Reasons of the condition Credential.
const (
	ReasonExpired   = "Expired"   // it gets a new one by itself, within the grace
	ReasonGraceOver = "GraceOver" // it has to join again
	ReasonPending   = "Pending"   // it has not taken what it was offered
	ReasonForeign   = "Foreign"   // another Fleet has made its account
)

// A State is what is known of the credential of a Cluster, for its one current request.
type State struct {
	Life      Lifetimes
	Namespace string   // of the accounts
	First     string   // the account that the request was granted at first
	Order     string   // a person's, to rotate; empty: there is none
	Accounts  []string // those that exist, without those for renewal
	Offered   string   // the offer that stands on the Cluster
	Uses      string   // the Digest of the offer that the agent says it uses

	Seen  time.Time // the last sign of life, or when the request was made
	Now   time.Time
	Since time.Time // since when the manager is at work
}

// A Plan is the wanted state of a credential. Account is empty where nothing can be done:
// the manager has no account of this agent.
type Plan struct {
	Account string   // the one to be used
	Offer   string   // the annotation; empty: none
	Settled bool     // the agent uses it: an order to rotate is carried out
	Holders []string // the accounts with the rights of the agent
	Fetch   []string // the accounts that may fetch the token of Account
	Drop    []string // the accounts that go, and their tokens with them

	Lasting ObjectAction // the Secret with a lasting token of Account
	Renewal ObjectAction // the account for renewal
	Renew   bool         // it may fetch tokens now

	Reason, Message string        // of the condition Credential; empty: there is none
	After           time.Duration // when to look again; 0: when something changes
}

// A ObjectAction says what to do with an object.
type ObjectAction int

// Wishes.
const (
	Leave ObjectAction = iota // as it is
	Have
	Gone
)

// RotationAccount returns the name of the account that an order to rotate asks for.
func RotationAccount(first, text string) string { return first + "-" + rotationSuffix(text) }

// Decide plans the credential of one Cluster.
//
// The agent's credential stays valid until the agent reports that it uses the offered one.
// So an interruption on either side never leaves it without a credential.
func Decide(s State) Plan {
	if o, err := ParseOffer(s.Offered); err != nil || o.Namespace != s.Namespace || !slices.Contains(s.Accounts, o.Account) {
		s.Offered = "" // to an agent that registered before, or not written by the manager
	}
	p := Plan{Account: s.account()}
	if p.Account == "" {
		if s.Order != "" {
			p.Reason, p.Message = ReasonForeign, "no account of this agent is the manager's: to give it another credential, register it again with a registration token"
		}
		return p
	}
	p.Offer = s.desiredOffer(p.Account)
	p.Settled = p.Offer == "" || s.Uses == Digest(p.Offer)
	p.Holders = []string{p.Account}
	for _, a := range s.Accounts {
		switch {
		case a == p.Account:
		case p.Settled:
			p.Drop = append(p.Drop, a)
		default:
			p.Holders = append(p.Holders, a)
		}
	}
	slices.Sort(p.Holders)
	lasting := s.Life.TTL == 0
	if !p.Settled || !lasting {
		p.Fetch = p.Holders
	}
	switch {
	case p.Offer == "": // as it was granted
	case lasting:
		p.Lasting = Have
		if p.Settled {
			p.Renewal = Gone
		}
	default:
		p.Renewal = Have
		if p.Settled {
			p.Lasting = Gone
		}
	}
	p.reportState(s)
	return p
}

// account is the account that the agent is to use.
func (s State) account() string {
	if len(s.Accounts) == 0 {
		return ""
	}
	if s.Order != "" {
		return RotationAccount(s.First, s.Order)
	}
	if o, err := ParseOffer(s.Offered); err == nil {
		return o.Account
	}
	if slices.Contains(s.Accounts, s.First) {
		return s.First
	}
	return slices.Max(s.Accounts)
}

// desiredOffer returns the offer for the Cluster. An account that was granted with the
// registration and is the wanted one needs no offer.
func (s State) desiredOffer(account string) string {
	o := Offer{Namespace: s.Namespace, Account: account, Life: s.Life}
	if s.Life.TTL > 0 {
		o.Renewal = RenewalAccount(account)
		return o.String()
	}
	if account == s.First && s.Offered == "" {
		return ""
	}
	o.Token = LastingToken(account)
	return o.String()
}

// RenewalAccount returns the name of the account that may renew the credential of another
// one.
func RenewalAccount(account string) string { return account + "-renewal" }

// LastingToken returns the name of the Secret with the lasting token of an account.
func LastingToken(account string) string { return account + "-token" }

// reportState reports how it stands with an agent that is away, and with one that does not
// take what it is offered.
func (p *Plan) reportState(s State) {
	if s.Life.TTL == 0 {
		if !p.Settled {
			p.Reason, p.Message = ReasonPending, pendingText
		}
		return
	}
	ends, over := s.Seen.Add(s.Life.TTL), s.Seen.Add(s.Life.Grace)
	if waited := s.Since.Add(Timeout); over.Before(waited) {
		over = waited
	}
	p.Renew = s.Now.Before(over)
	expired := !s.Now.Before(ends)
	switch {
	case !p.Renew:
		p.Reason, p.Message = ReasonGraceOver, fmt.Sprintf(
			"not seen for longer than credentialGrace (%s): its credential has ended and cannot be renewed. Register it again with a registration token (fleet cluster join)", FormatDuration(s.Life.Grace))
	case expired && p.Settled:
		p.Reason, p.Message = ReasonExpired, fmt.Sprintf(
			"its credential (credentialTTL %s) has ended while it was away; it fetches a new one when it is back within credentialGrace (%s)", FormatDuration(s.Life.TTL), FormatDuration(s.Life.Grace))
	case !p.Settled:
		p.Reason, p.Message = ReasonPending, pendingText
	}
	p.After = s.Life.TTL
	for _, at := range []time.Time{ends, over} {
		if left := at.Sub(s.Now); left > 0 {
			p.After = min(p.After, left+time.Second)
		}
	}
	if expired {
		p.After = min(p.After, lookAgain)
	}
}

const pendingText = "another credential lies ready, and the agent has not taken it yet; until it does, the one before is good"

// FormatDuration returns a duration for people: 30d, 36h, 90m.
func FormatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d >= 2*day && d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
