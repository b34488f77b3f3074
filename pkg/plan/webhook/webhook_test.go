package webhook

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

const (
	one  = "1111111111111111111111111111111111111111"
	two  = "2222222222222222222222222222222222222222"
	zero = "0000000000000000000000000000000000000000"
)

func TestParseRepository(t *testing.T) {
	shop := Repository{"git.example.com", "team/shop"}
	azure := Repository{"dev.azure.com", "org/project/repo"}
	cases := map[string]Repository{
		"https://git.example.com/team/shop":            shop,
		"http://git.example.com/team/shop.git":         shop,
		"https://git.example.com:8443/team/shop.git":   shop,
		"https://user:word@git.example.com/team/shop/": shop,
		"https://GIT.example.com/Team/Shop.GIT":        shop,
		"https://git.example.com./team//shop":          shop,
		"ssh://git@git.example.com:7999/team/shop.git": shop,
		"git+ssh://git.example.com/team/shop":          shop,
		"git@git.example.com:team/shop.git":            shop,
		"git.example.com:/team/shop":                   shop,
		"  git@git.example.com:team/shop.git\n":        shop,
		"https://git.example.com/team/shop?x=1#y":      shop,
		"https://git.example.com/v3/team/shop":         {"git.example.com", "v3/team/shop"},
		"https://git.example.com/team/v3/shop":         {"git.example.com", "team/v3/shop"},
		"https://tfs.example.com/c/project/_git/repo":  {"tfs.example.com", "c/project/repo"},
		"ssh://tfs.example.com:22/c/project/_git/repo": {"tfs.example.com", "c/project/repo"},
		"https://tfs.example.com/_git/a/b":             {"tfs.example.com", "_git/a/b"},

		"https://dev.azure.com/org/project/_git/repo":                      azure,
		"https://org@dev.azure.com/Org/Project/_git/repo":                  azure,
		"git@ssh.dev.azure.com:v3/org/project/repo":                        azure,
		"ssh://git@ssh.dev.azure.com:22/v3/org/project/repo":               azure,
		"https://org.visualstudio.com/project/_git/repo":                   azure,
		"https://org.visualstudio.com/DefaultCollection/project/_git/repo": azure,
		"org@vs-ssh.visualstudio.com:v3/org/project/repo":                  azure,
		"https://dev.azure.com/org/_git/repo":                              {"dev.azure.com", "org/repo/repo"},
		"git@ssh.dev.azure.com:v3/org/repo/repo":                           {"dev.azure.com", "org/repo/repo"},
		"https://dev.azure.com/org/My%20Project/_git/repo":                 {"dev.azure.com", "org/my project/repo"},
		"git@ssh.dev.azure.com:v3/org/My%20Project/repo":                   {"dev.azure.com", "org/my project/repo"},
		"https://evil.example.com/git.example.com/team/shop":               {"evil.example.com", "git.example.com/team/shop"},
		"https://git.example.com.evil.example/team/shop":                   {"git.example.com.evil.example", "team/shop"},
		"https://evil-git.example.com/team/shop":                           {"evil-git.example.com", "team/shop"},
		"https://git.example.com@evil.example/team/shop":                   {"evil.example", "team/shop"},
		"https://evil.example/?https://git.example.com/team/shop":          {},
		"https://gitXexample.com/team/shop":                                {"gitxexample.com", "team/shop"},
		"https://git.example.com/.*":                                       {"git.example.com", ".*"},
		"":                                                                 {},
		"/srv/git/shop.git":                                                {},
		"file:///srv/git/shop.git":                                         {},
		"https://git.example.com":                                          {},
		"https://git.example.com/":                                         {},
		"https:///team/shop":                                               {},
		"https://git.example.com:port/team/shop":                           {},
		"./a:b/c":                                                          {},
		"git.example.com":                                                  {},
	}
	for address, want := range cases {
		got, ok := ParseRepository(address)
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != Repository{}) {
			t.Errorf("%q: %v\n-want +got\n%s", address, ok, diff)
		}
	}
}

// An address is of the host that a request would go to, whatever else it contains, and
// suffixes and letters do not matter.
func FuzzParseRepository(f *testing.F) {
	for _, s := range []string{"https://git.example.com/team/shop", "git@h:a/b.git", "ssh://h/v3/o/p/r", "https://o.visualstudio.com/_git/r", "a:b:c", "://", "https://[::1]:1/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		got, ok := ParseRepository(address)
		if !ok {
			if got != (Repository{}) {
				t.Errorf("%q: got %v with false", address, got)
			}
			return
		}
		if got.Host == "" || got.Path == "" || strings.HasPrefix(got.Path, "/") || strings.HasSuffix(got.Path, "/") {
			t.Errorf("%q: got %+v", address, got)
		}
		if u, err := url.Parse(strings.TrimSpace(address)); err == nil && strings.Contains(address, "://") && got.Host != azureHost {
			if host := strings.TrimRight(strings.ToLower(u.Hostname()), "."); host != got.Host {
				t.Errorf("%q: a request goes to %q, got %q", address, host, got.Host)
			}
		}
		if got.Host == azureHost || strings.Contains(got.Path, "_git") || strings.Contains(got.Host, ":") {
			return
		}
		with := "https://" + got.Host + (&url.URL{Path: "/" + got.Path + ".git"}).EscapedPath() + "/"
		if again, ok := ParseRepository(with); !ok || again != got {
			t.Errorf("%q: got %+v, and %+v of %q", address, got, again, with)
		}
	})
}

func TestAddChange(t *testing.T) {
	cases := map[string]struct {
		why, ref, commit string
		want             []Change
		refused          bool
	}{
		"Branch":    {ref: "refs/heads/main", commit: one, want: []Change{{"main", one}}},
		"Slash":     {ref: "refs/heads/a/b", commit: strings.ToUpper(strings.Repeat("ab", 32)), want: []Change{{"a/b", strings.Repeat("ab", 32)}}},
		"Tag":       {why: "no branch follows it", ref: "refs/tags/v1", commit: one},
		"Deleted":   {why: "there is no commit to look for", ref: "refs/heads/main", commit: zero},
		"Null":      {why: "GitLab says null of a deletion", ref: "refs/heads/main"},
		"NoHash":    {why: "it is written to the status", ref: "refs/heads/main", commit: "main", refused: true},
		"TooLong":   {ref: "refs/heads/main", commit: one + "1", refused: true},
		"NotHex":    {ref: "refs/heads/main", commit: strings.Repeat("g", 40), refused: true},
		"ShortName": {ref: "main", commit: one},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var p Push
			if got := p.AddChange(c.ref, c.commit); got == c.refused {
				t.Errorf("%s: got %v", c.why, got)
			}
			if diff := cmp.Diff(c.want, p.Changes); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestRepositories(t *testing.T) {
	p := Push{Addresses: []string{"https://h.example/a/b", "git@h.example:a/b.git", "", "nothing", "https://other.example/a/b"}}
	want := []Repository{{"h.example", "a/b"}, {"other.example", "a/b"}}
	if diff := cmp.Diff(want, p.Repositories()); diff != "" {
		t.Error(diff)
	}
}

func TestCommitFor(t *testing.T) {
	push := Push{Changes: []Change{{"main", one}, {"dev", one}, {"main", two}, {"master", one}}}
	cases := map[string]struct {
		why  string
		repo fleet.GitRepo
		want string
	}{
		"Branch":   {"the last change is what the branch is at", fleet.GitRepo{Spec: fleet.GitRepoSpec{Branch: "main"}}, two},
		"Other":    {"", fleet.GitRepo{Spec: fleet.GitRepoSpec{Branch: "release"}}, ""},
		"Case":     {"names of branches have cases", fleet.GitRepo{Spec: fleet.GitRepoSpec{Branch: "Main"}}, ""},
		"Default":  {"a GitRepo without a branch follows master", fleet.GitRepo{}, one},
		"Revision": {"what it follows does not move", fleet.GitRepo{Spec: fleet.GitRepoSpec{Branch: "main", Revision: "v1"}}, ""},
		"Deleted":  {"", fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}, Spec: fleet.GitRepoSpec{Branch: "main"}}, ""},
	}
	for name, c := range cases {
		if got := push.CommitFor(&c.repo); got != c.want {
			t.Errorf("%s: %s: want %q, got %q", name, c.why, c.want, got)
		}
	}
}
