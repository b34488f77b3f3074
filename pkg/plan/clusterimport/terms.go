// Package clusterimport has the decisions about clusters whose agent the manager installs
// through a kubeconfig in a Secret; pkg/agentmanagement/clusterimport applies them. It
// decides whether the Secret may be used, whether an agent has to be installed or needs
// new terms (how it reaches its manager), which clusters go first and how many at once,
// and which objects in a cluster the manager may change or delete.
package clusterimport

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Keys of the Secret that a Cluster names.
const (
	KeyKubeconfig   = "value"
	KeyAPIServerURL = "apiServerURL"
	KeyAPIServerCA  = "apiServerCA"
)

// Terms are how an agent reaches its manager.
type Terms struct {
	URL     string `json:"url"`
	CAHash  string `json:"caHash"` // see HashOf
	TLSMode string `json:"tlsMode"`
}

// Digest returns a digest that differs for different terms.
func (t Terms) Digest() string {
	sum := sha256.Sum256([]byte(t.URL + "\n" + t.CAHash + "\n" + t.TLSMode))
	return hex.EncodeToString(sum[:8])
}

// Change says, in words, how other terms differ. It is empty if they do not.
func (t Terms) Change(other Terms) string {
	switch {
	case t.URL != other.URL:
		return fmt.Sprintf("the manager's address is %q, the agent was told %q", other.URL, t.URL)
	case t.CAHash != other.CAHash:
		return "the manager's certificate authority is another than the agent was told"
	case t.TLSMode != other.TLSMode:
		return fmt.Sprintf("agentTLSMode is %q, the agent was told %q", other.TLSMode, t.TLSMode)
	}
	return ""
}

// HashOf returns the digest of certificates as status.apiServerCAHash has it: SHA-224 of
// their JSON, in hex. Source: rancher/fleet's agentmanagement, so that a Cluster that it
// has imported is not imported again.
func HashOf(ca []byte) string {
	text, err := json.Marshal(ca)
	if err != nil {
		return ""
	}
	sum := sha256.Sum224(text)
	return hex.EncodeToString(sum[:])
}

// An Offer is what the manager gives agents, by its settings or by the Secret of one
// Cluster.
type Offer struct {
	URL        string
	CA         []byte // PEM
	TLSMode    string
	FromSecret bool // the Secret has an address or certificates of its own
}

// OfferTo returns what the agent of a Cluster gets: the data of its Secret, and the
// settings where these are not set.
func OfferTo(settings Offer, secret map[string][]byte) Offer {
	out := settings
	out.FromSecret = false
	if url := secret[KeyAPIServerURL]; len(url) > 0 {
		out.URL, out.FromSecret = string(url), true
	}
	if ca := secret[KeyAPIServerCA]; len(ca) > 0 {
		out.CA, out.FromSecret = ca, true
	}
	return out
}

// Terms returns an offer without the certificates themselves.
func (o Offer) Terms() Terms {
	return Terms{URL: o.URL, CAHash: HashOf(o.CA), TLSMode: o.TLSMode}
}
