package credential

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// An Offer is the credential that an agent is to use, without any secret: whose
// token it is, and how it is fetched.
type Offer struct {
	Namespace string // of the accounts
	Account   string // the agent's
	// Renewal is the account that may fetch tokens of Account and do nothing else.
	// It is empty for a token that lasts, which stands in the Secret Token.
	Renewal string
	Token   string
	Life    Lifetimes
}

// offerText is an Offer in its annotation.
type offerText struct {
	Namespace string `json:"namespace"`
	Account   string `json:"account"`
	Token     string `json:"token,omitempty"`
	Renewal   string `json:"renewal,omitempty"`
	TTL       string `json:"ttl,omitempty"`
	Grace     string `json:"grace,omitempty"`
}

// IsLasting reports whether the offered token lasts until it is revoked.
func (o Offer) IsLasting() bool { return o.Life.TTL == 0 }

// String returns the value of the annotation fleet.cattle.io/credential: JSON, the same for
// the same offer.
func (o Offer) String() string {
	t := offerText{Namespace: o.Namespace, Account: o.Account}
	if o.IsLasting() {
		t.Token = o.Token
	} else {
		t.Renewal, t.TTL, t.Grace = o.Renewal, o.Life.TTL.String(), o.Life.Grace.String()
	}
	text, _ := json.Marshal(t) // strings never fail
	return string(text)
}

// ParseOffer reads what String wrote. Keys that it does not know are ignored.
func ParseOffer(text string) (Offer, error) {
	var t offerText
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return Offer{}, errors.New("offer of a credential: not JSON")
	}
	o := Offer{Namespace: t.Namespace, Account: t.Account, Token: t.Token, Renewal: t.Renewal}
	if o.Namespace == "" || o.Account == "" {
		return Offer{}, errors.New("offer of a credential: it names no account")
	}
	if t.TTL == "" {
		if o.Token == "" {
			return Offer{}, errors.New("offer of a credential: it names no token")
		}
		return o, nil
	}
	var err error
	if o.Life.TTL, err = duration(t.TTL, MaxTTL); err == nil {
		o.Life.Grace, err = duration(t.Grace, MaxGrace)
	}
	if err == nil && (o.Renewal == "" || o.Life.TTL == 0 || o.Life.Grace == 0) {
		err = errors.New("it is incomplete")
	}
	if err != nil {
		return Offer{}, fmt.Errorf("offer of a credential: %w", err)
	}
	return o, nil
}

// Digest returns a digest that stands for an offer in the agent's check-in. It is empty for
// no offer.
func Digest(offer string) string {
	if offer == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(offer))
	return hex.EncodeToString(sum[:6])
}

// rotationSuffix returns the part of an account's name that distinguishes a rotation from others.
func rotationSuffix(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// timeAtShare is when a part of a token's life is over.
func timeAtShare(issued, expires time.Time, part float64) time.Time {
	return issued.Add(time.Duration(float64(expires.Sub(issued)) * part))
}
