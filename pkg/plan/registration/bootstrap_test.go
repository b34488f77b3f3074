package registration

import (
	"strings"
	"testing"
)

func TestJudgeBootstrap(t *testing.T) {
	b := Bootstrapping{
		APIServerURL: "https://m", APIServerCA: []byte("PEM\n"), Token: "jwt", TokenName: "t",
		ClusterNamespace: "fleet-default", RegistrationNamespace: "r",
	}
	with := func(f func(*Bootstrapping)) Bootstrapping {
		c := b
		f(&c)
		return c
	}
	cases := map[string]struct {
		why     string
		given   Bootstrapping
		origin  Origin
		contact Contact
		want    Use
		says    string
	}{
		"First":       {why: "an agent without a credential registers", given: b, want: UseNow, says: "no credential"},
		"SameWorks":   {why: "helm upgrade brings the same values again", given: b, origin: b.Origin(), contact: ContactReached, want: UseNot},
		"SameLost":    {why: "what is of no use now may be after another registration", given: b, origin: b.Origin(), contact: ContactLost, want: UseNow, says: "does not reach"},
		"SameUnknown": {why: "an agent that has just started asks its manager first", given: b, origin: b.Origin(), want: UseLater},
		"OtherToken": {
			why: "a user wants a new registration", given: with(func(b *Bootstrapping) { b.Token = "new" }),
			origin: b.Origin(), contact: ContactReached, want: UseNow, says: ": token",
		},
		"OtherURL": {
			why: "the manager moves", given: with(func(b *Bootstrapping) { b.APIServerURL = "https://n" }),
			origin: b.Origin(), contact: ContactReached, want: UseNow, says: ": URL",
		},
		"OtherCA": {
			why: "its authority changes", given: with(func(b *Bootstrapping) { b.APIServerCA = []byte("OTHER") }),
			origin: b.Origin(), contact: ContactReached, want: UseNow, says: ": certificate authority",
		},
		"OtherNamespace": {
			why: "another workspace", given: with(func(b *Bootstrapping) { b.ClusterNamespace = "team"; b.Token = "new" }),
			origin: b.Origin(), contact: ContactReached, want: UseNow, says: "namespace, token",
		},
		"BlanksOfCA": {
			why: "a line more is no other authority", given: with(func(b *Bootstrapping) { b.APIServerCA = []byte("\nPEM") }),
			origin: b.Origin(), contact: ContactReached, want: UseNot,
		},
		"UnknownOrigin": {
			why: "the credential was got by an agent that did not note with what", given: b,
			origin: Origin{URL: "https://m", Workspace: "fleet-default"}, contact: ContactReached, want: UseNow, says: "not known",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			use, reason := DecideBootstrap(c.given, c.origin, c.contact)
			if use != c.want || !strings.Contains(reason, c.says) {
				t.Errorf("%s: got %d, %q", c.why, use, reason)
			}
		})
	}
	data := b.Origin().Data()
	if got := ReadOrigin(data, "fleet-default"); got != b.Origin() {
		t.Errorf("what is kept is read: %+v", got)
	}
	for key, value := range data {
		if strings.Contains(string(value), "jwt") {
			t.Errorf("%s shows the token", key)
		}
	}
}

func TestMissing(t *testing.T) {
	if got := (Bootstrapping{APIServerURL: "https://m", Token: " "}).MissingParts(); got != "token, tokenName, clusterNamespace, systemRegistrationNamespace" {
		t.Errorf("got %q", got)
	}
}
