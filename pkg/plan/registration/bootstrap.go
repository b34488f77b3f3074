package registration

import (
	"strings"
)

// Keys of the Secret fleet-agent that say with what its credential was got.
const (
	keyOriginURL   = "registeredURL"
	keyOriginCA    = "registeredCAHash"
	keyOriginToken = "registeredTokenHash"
)

// An Origin says with what an agent got its credential. It is kept beside the credential,
// so that the agent recognizes the same values when they are given again.
type Origin struct {
	URL       string
	CA        string // digest; empty for none
	Workspace string
	Token     string // digest; empty: not known
}

// Origin returns the origin of a credential that is got with this.
func (b Bootstrapping) Origin() Origin {
	o := Origin{URL: b.APIServerURL, Workspace: b.ClusterNamespace, Token: digest(b.Token)}
	if ca := strings.TrimSpace(string(b.APIServerCA)); ca != "" {
		o.CA = digest(ca)
	}
	return o
}

// Data returns the origin as it stands in the Secret, without the workspace, which has a
// key of its own there.
func (o Origin) Data() map[string][]byte {
	return map[string][]byte{
		keyOriginURL: []byte(o.URL), keyOriginCA: []byte(o.CA), keyOriginToken: []byte(o.Token),
	}
}

// ReadOrigin reads what Data wrote.
func ReadOrigin(data map[string][]byte, workspace string) Origin {
	return Origin{
		URL: string(data[keyOriginURL]), CA: string(data[keyOriginCA]), Token: string(data[keyOriginToken]),
		Workspace: workspace,
	}
}

// MissingParts names what a bootstrap Secret lacks, in words; empty: nothing.
func (b Bootstrapping) MissingParts() string {
	var missing []string
	for _, v := range []struct{ name, value string }{
		{"apiServerURL", b.APIServerURL}, {"token", b.Token}, {"tokenName", b.TokenName},
		{"clusterNamespace", b.ClusterNamespace}, {"systemRegistrationNamespace", b.RegistrationNamespace},
	} {
		if strings.TrimSpace(v.value) == "" {
			missing = append(missing, v.name)
		}
	}
	return strings.Join(missing, ", ")
}

// Contact is the state of the connection between an agent and its manager.
type Contact int

// Contacts.
const (
	ContactUnknown Contact = iota // the agent has not tried yet
	ContactReached
	ContactLost
)

// A Use is what an agent does with a registration token that it is given.
type Use int

// Uses.
const (
	UseLater Use = iota // it depends on what the manager says
	UseNot              // it leads where the agent is: it is forgotten
	UseNow              // the agent registers
)

// DecideBootstrap decides what an agent does with a bootstrap Secret, with the
// reason. o is where its present credential is from; the zero Origin says that
// there is none.
func DecideBootstrap(b Bootstrapping, o Origin, c Contact) (Use, string) {
	if o == (Origin{}) {
		return UseNow, "this agent has no credential"
	}
	given := b.Origin()
	var differs []string
	for _, v := range []struct{ name, was, is string }{
		{"URL", o.URL, given.URL}, {"certificate authority", o.CA, given.CA},
		{"namespace", o.Workspace, given.Workspace}, {"token", o.Token, given.Token},
	} {
		if v.was != v.is {
			differs = append(differs, v.name)
		}
	}
	switch {
	case o.Token == "":
		return UseNow, "it is not known with which token the present credential was got"
	case len(differs) > 0:
		return UseNow, "other than that of the present credential: " + strings.Join(differs, ", ")
	case c == ContactLost:
		return UseNow, "the present credential does not reach the manager"
	case c == ContactReached:
		return UseNot, "it is the token that the present credential was got with, and that works"
	}
	return UseLater, "the manager was not asked yet"
}
