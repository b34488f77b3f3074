package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/webhook"
)

const (
	one = "1111111111111111111111111111111111111111"
	two = "2222222222222222222222222222222222222222"
)

// recorded returns a payload as the provider sends it.
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// A sample is a request of one provider.
type sample struct {
	header http.Header // without a signature
	repo   string      // an address of the repository that its payload names
	// sign adds the signature with a word, which is a key of Secret.
	sign func(h http.Header, body []byte, word string)
	keys []string
}

func head(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func sum(body []byte, word string) string {
	mac := hmac.New(sha256.New, []byte(word))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// samples are the requests of all providers, with the headers that they really have.
var samples = map[string]sample{
	"gogs": {
		header: head("X-Gogs-Event", "push", "X-Gitea-Event", "push", "X-GitHub-Event", "push"), repo: "git@gitea.example.com:team/shop.git",
		sign: func(h http.Header, body []byte, word string) { h.Set("X-Gogs-Signature", sum(body, word)) }, keys: []string{"gogs"},
	},
	"github": {
		header: head("X-GitHub-Event", "push"), repo: "https://github.com/team/shop",
		sign: func(h http.Header, body []byte, word string) { h.Set("X-Hub-Signature-256", "sha256="+sum(body, word)) }, keys: []string{"github"},
	},
	"gitlab": {
		header: head("X-Gitlab-Event", "Push Hook"), repo: "ssh://git@gitlab.example.com/team/shop",
		sign: func(h http.Header, _ []byte, word string) { h.Set("X-Gitlab-Token", word) }, keys: []string{"gitlab"},
	},
	"bitbucket": {
		header: head("X-Hook-UUID", "another", "X-Event-Key", "repo:push"), repo: "git@bitbucket.org:team/shop.git",
		sign: func(h http.Header, _ []byte, word string) { h.Set("X-Hook-UUID", word) }, keys: []string{"bitbucket"},
	},
	"bitbucket-server": {
		header: head("X-Event-Key", "repo:refs_changed"), repo: "https://bitbucket.example.com/scm/team/shop.git",
		sign: func(h http.Header, body []byte, word string) { h.Set("X-Hub-Signature", "sha256="+sum(body, word)) }, keys: []string{"bitbucket-server"},
	},
	"azure": {
		header: head("X-Vss-Activityid", "1", "X-Vss-Subscriptionid", "2"), repo: "git@ssh.dev.azure.com:v3/team/web/shop",
		sign: func(h http.Header, _ []byte, word string) {
			r := &http.Request{Header: h}
			r.SetBasicAuth(word, word)
		},
		keys: []string{"azure-username", "azure-password"},
	},
}

func secretOf(s sample, word string) map[string][]byte {
	keys := map[string][]byte{"other": []byte("x")}
	for _, k := range s.keys {
		keys[k] = []byte(word)
	}
	return keys
}

func TestProviders(t *testing.T) {
	for name, s := range samples {
		t.Run(name, func(t *testing.T) {
			p := providerOf(s.header)
			if p == nil || p.name != name || !cmp.Equal(p.keys, s.keys) {
				t.Fatalf("got %+v", p)
			}
			body := recorded(t, name)
			push, err := p.parse(body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]webhook.Change{{Branch: "main", Commit: one}}, push.Changes); diff != "" {
				t.Errorf("want the new head, without tags and deleted branches\n%s", diff)
			}
			id, _ := webhook.ParseRepository(s.repo)
			found := false
			for _, r := range push.Repositories() {
				found = found || r == id
			}
			if !found {
				t.Errorf("want %v, got %v", id, push.Repositories())
			}
		})
	}
	if p := providerOf(head("Content-Type", "application/json")); p != nil {
		t.Errorf("got %s for a request without a header of a provider", p.name)
	}
}

func TestSignatures(t *testing.T) {
	for name, s := range samples {
		body, keys := recorded(t, name), secretOf(s, "word")
		verify := func(change func(h http.Header)) bool {
			h := s.header.Clone()
			change(h)
			return providerOf(s.header).verify(h, body, keys)
		}
		for why, c := range map[string]struct {
			change func(h http.Header)
			want   bool
		}{
			"right":   {func(h http.Header) { s.sign(h, body, "word") }, true},
			"wrong":   {func(h http.Header) { s.sign(h, body, "guess") }, false},
			"missing": {func(http.Header) {}, false},
			"short": {func(h http.Header) {
				s.sign(h, body, "word")
				for _, k := range []string{"X-Gogs-Signature", "X-Hub-Signature-256", "X-Hub-Signature", "X-Gitlab-Token", "Authorization", "X-Hook-UUID"} {
					if h.Get(k) != "" {
						h.Set(k, "s")
					}
				}
			}, false},
		} {
			if got := verify(c.change); got != c.want {
				t.Errorf("%s, %s signature: got %v", name, why, got)
			}
		}
		h := s.header.Clone()
		s.sign(h, append(bytes.Clone(body), ' '), "word")
		if strings.Contains(strings.Join(h.Values("X-Hub-Signature"), "")+h.Get("X-Hub-Signature-256")+h.Get("X-Gogs-Signature"), sum(append(bytes.Clone(body), ' '), "word")) &&
			providerOf(s.header).verify(h, body, keys) {
			t.Errorf("%s: the signature of another body is accepted", name)
		}
	}
}

func TestParse(t *testing.T) {
	long := strings.Repeat("x", maxScalarBytes+1)
	cases := map[string]struct {
		why, provider, body string
		want                error // where it is one of ours
		fails               bool
	}{
		"Empty":      {provider: "github", fails: true},
		"NoJSON":     {provider: "github", body: "payload=%7B%7D", fails: true},
		"Cut":        {provider: "github", body: `{"ref": "refs/heads/main", `, fails: true},
		"List":       {provider: "github", body: "[]", fails: true},
		"Null":       {provider: "gogs", body: "null", fails: true},
		"NoRepo":     {provider: "gogs", body: `{"ref": "refs/heads/main", "after": "` + one + `"}`},
		"NoHash":     {why: "it would be written to a status", provider: "github", body: `{"ref": "refs/heads/main", "after": "x"}`, want: errNoHash},
		"LongText":   {provider: "github", body: `{"ref": "` + long + `"}`, want: errTooMuch},
		"ManyLinks":  {provider: "bitbucket-server", body: `{"changes": [` + strings.Repeat("{},", maxElements) + `{}]}`, want: errTooMuch},
		"Deep":       {why: "what is not read does not matter", provider: "github", body: `{"commits": ` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`},
		"TooDeep":    {provider: "github", body: `{"commits": ` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, fails: true},
		"OddLinks":   {provider: "bitbucket-server", body: `{"repository": {"links": {"clone": {"href": 1}}}}`},
		"OddTypes":   {provider: "github", body: `{"ref": {}, "after": [], "repository": "x"}`},
		"OddNumbers": {provider: "gitlab", body: `{"ref": 1}`, fails: true},
		"OtherEvent": {why: "Azure names the event in the payload", provider: "azure", body: `{"eventType": "build.complete", "resource": {"refUpdates": [{"name": "refs/heads/main", "newObjectId": "` + one + `"}]}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			push, err := providerOf(samples[c.provider].header).parse([]byte(c.body))
			if (err != nil) != (c.fails || c.want != nil) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: got %v", c.why, err)
			}
			if len(push.Repositories()) > 0 || c.provider == "azure" && len(push.Changes) > 0 {
				t.Errorf("%s: got %+v", c.why, push)
			}
		})
	}
}

// No payload makes a parser panic, or announce what is no commit.
func FuzzParse(f *testing.F) {
	for name := range samples {
		body, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, p := range providers {
			push, err := p.parse(body)
			if err != nil {
				continue
			}
			push.Repositories()
			for _, c := range push.Changes {
				if len(c.Commit) != 40 && len(c.Commit) != 64 {
					t.Errorf("%s: got commit %q", p.name, c.Commit)
				}
			}
			p.verify(http.Header{}, body, nil)
		}
	})
}
