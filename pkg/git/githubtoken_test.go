package git

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const tokenPath = "/api/v3/app/installations/34/access_tokens"

// A fakeGitHub is a GitHub Enterprise Server: it verifies the JWT of App 12, gives tokens
// of installation 34, and serves repositories to the newest token.
type fakeGitHub struct {
	*gittest.HTTPServer
	repo *gittest.Repo
	head Commit

	mu     sync.Mutex
	token  string
	asked  int
	answer func(w http.ResponseWriter) // instead of a token; nil: a token
}

func startGitHub(t *testing.T) *fakeGitHub {
	t.Helper()
	repo := gittest.NewRepo(t)
	g := &fakeGitHub{repo: repo, head: Commit(repo.Commit("first", map[string]string{"a/cm.yaml": "one\n"}))}
	g.HTTPServer = gittest.ServeTLS(t, filepath.Dir(repo.Dir))
	g.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == tokenPath {
			g.giveToken(t, w, r)
			return true
		}
		g.mu.Lock()
		token := g.token
		g.mu.Unlock()
		return gittest.BasicAuth("x-access-token", token)(w, r)
	})
	return g
}

func (g *fakeGitHub) giveToken(t *testing.T, w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	jwt, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if r.Method != http.MethodPost {
		t.Errorf("token requested with %s", r.Method)
	}
	checkJWT(t, jwt, &appKey().PublicKey, time.Now())
	if g.answer != nil {
		g.answer(w)
		return
	}
	g.token = fmt.Sprintf("ghs_token%d", g.asked)
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"token": %q, "expires_at": %q, "permissions": {"contents": "read"}}`, g.token, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}

func (g *fakeGitHub) requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

func (g *fakeGitHub) source() Source {
	return Source{URL: g.URL + "/repo/.git", CABundle: g.PEM(), Credentials: Credentials{App: &App{ID: 12, Installation: 34, PrivateKey: pkcs1(appKey())}}}
}

func TestGitHubAppReads(t *testing.T) {
	g := startGitHub(t)
	remotes := newRemotes(t, Limits{})
	commit, err := remotes.Resolve(t.Context(), g.source(), Reference{Branch: "main"})
	if err != nil || commit != g.head {
		t.Fatal(commit, err)
	}
	tree, err := remotes.Fetch(t.Context(), g.source(), Reference{Branch: "main"}, commit)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if data, err := tree.ReadFile("a/cm.yaml"); err != nil || string(data) != "one\n" {
		t.Fatal(string(data), err)
	}
	insecure := g.source()
	insecure.CABundle, insecure.InsecureSkipTLSVerify = nil, true
	if _, err := remotes.Resolve(t.Context(), insecure, Reference{Branch: "main"}); err != nil {
		t.Fatal("the request for a token ignores insecureSkipTLSVerify:", err)
	}
	if n := g.requests(); n != 2 {
		t.Errorf("%d requests for tokens, want one for each kind of trust", n)
	}
}

func TestGitHubAppSharesOneRequest(t *testing.T) {
	g := startGitHub(t)
	remotes := newRemotes(t, Limits{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := remotes.Resolve(t.Context(), g.source(), Reference{Branch: "main"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := g.requests(); n != 1 {
		t.Errorf("%d requests for one token", n)
	}
}

// throughProxy returns Remotes that use a proxy for all requests.
func throughProxy(t *testing.T, proxy string) *Remotes {
	t.Helper()
	at, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	remotes, err := New(Config{Addresses: address.WithLoopback(), Dir: t.TempDir(), Proxy: http.ProxyURL(at)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remotes.Close(); err != nil {
			t.Error(err)
		}
	})
	return remotes
}

func TestGitHubAppProxy(t *testing.T) {
	g := startGitHub(t)
	connects := make(chan string, 8)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connects <- r.Method + " " + r.Host
		http.Error(w, "no", http.StatusBadGateway)
	}))
	defer proxy.Close()
	remotes := throughProxy(t, proxy.URL)
	_, err := remotes.Resolve(t.Context(), g.source(), Reference{Branch: "main"})
	if !reconcile.IsRequeue(err) || HostAway(err) {
		t.Error(err)
	}
	if got, want := <-connects, "CONNECT "+strings.TrimPrefix(g.URL, "https://"); got != want {
		t.Errorf("the proxy got %q, want %q", got, want)
	}
	if g.requests() != 0 {
		t.Error("the request for a token went past the proxy")
	}
}

func TestGitHubAppRefusals(t *testing.T) {
	answer := func(status int, body string, headers ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			for _, h := range headers {
				key, value, _ := strings.Cut(h, "=")
				w.Header().Set(key, value)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	cases := map[string]struct {
		answer       func(http.ResponseWriter)
		reason, text string
	}{
		"BadKey":         {answer(401, ""), ReasonAuthenticationRefused, "check github_app_id, github_app_private_key and the clock"},
		"NoInstallation": {answer(404, ""), ReasonAuthenticationRefused, "has no installation 34 of GitHub App 12 (404)"},
		"Suspended":      {answer(403, ""), ReasonAuthenticationRefused, "not suspended"},
		"Limited":        {answer(403, "", "X-RateLimit-Remaining=0"), ReasonRemoteFailing, "no more tokens for now (403)"},
		"RetryLater":     {answer(429, "", "Retry-After=99999999999999"), ReasonRemoteFailing, "no more tokens for now (429)"},
		"Failing":        {answer(502, ""), ReasonRemoteFailing, "502 Bad Gateway"},
		"Redirect":       {answer(307, "", "Location=https://elsewhere.example/"), ReasonRedirected, "it is not sent elsewhere"},
		"LoginPage":      {answer(200, "<html>"), ReasonNotGit, "does not answer as GitHub's API does"},
		"NoEnd":          {answer(201, `{"token":"ghs_x"}`), ReasonNotGit, "does not answer as GitHub's API does"},
		"TokenWithBreak": {answer(201, `{"token":"ghs_x\nX: y","expires_at":"2999-01-01T00:00:00Z"}`), ReasonNotGit, "does not answer as GitHub's API does"},
		"TooLong":        {answer(201, strings.Repeat(" ", maxTokenBytes+10)), ReasonTooLarge, "larger than 1 MiB"},
		"Teapot":         {answer(418, ""), ReasonNotGit, "(418)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			g := startGitHub(t)
			g.answer = c.answer
			remotes := newRemotes(t, Limits{})
			for range 3 {
				_, err := remotes.Resolve(t.Context(), g.source(), Reference{Branch: "main"})
				if reconcile.ReasonOf(err) != c.reason || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "ghs_") {
					t.Fatalf("%s: %v", reconcile.ReasonOf(err), err)
				}
			}
			if n := g.requests(); n != 1 {
				t.Errorf("%d requests; failures are to be backed off", n)
			}
		})
	}
}

// A token that was revoked is replaced after the git host refuses it.
func TestGitHubAppRevokedToken(t *testing.T) {
	g := startGitHub(t)
	remotes := newRemotes(t, Limits{})
	resolve := func() error {
		_, err := remotes.Resolve(t.Context(), g.source(), Reference{Branch: "main"})
		return err
	}
	if err := resolve(); err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	g.token = "revoked"
	g.mu.Unlock()
	remotes.apps.mu.Lock()
	for _, s := range remotes.apps.states {
		s.created = s.created.Add(-2 * freshToken)
	}
	remotes.apps.mu.Unlock()
	if err := resolve(); reconcile.ReasonOf(err) != ReasonAuthenticationRefused {
		t.Fatal(err)
	}
	if err := resolve(); err != nil || g.requests() != 2 {
		t.Fatal(err, g.requests())
	}
}

// A reserved address is not asked for a token, not even through a proxy.
func TestGitHubAppAddress(t *testing.T) {
	proxy := httptest.NewServer(http.NotFoundHandler())
	defer proxy.Close()
	remotes := throughProxy(t, proxy.URL)
	src := Source{URL: "https://169.254.169.254/o/r", Credentials: Credentials{App: &App{ID: 12, Installation: 34, PrivateKey: pkcs1(appKey())}}}
	if _, err := remotes.Resolve(t.Context(), src, Reference{Branch: "main"}); reconcile.ReasonOf(err) != address.ReasonRefused {
		t.Fatal(err)
	}
	e, err := remotes.entryFor(src, endpoint{scheme: "https", host: "169.254.169.254", path: "/o/r"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := requestToken(t.Context(), e); reconcile.ReasonOf(err) != address.ReasonRefused {
		t.Fatal(err)
	}
}

// testTokens are tokens that a function gives, and an entry to ask for them.
func testTokens(request func(context.Context) (appToken, error)) (*appTokens, *sourceEntry) {
	tokens := newAppTokens()
	tokens.request = func(ctx context.Context, _ *sourceEntry) (appToken, error) { return request(ctx) }
	e := &sourceEntry{ep: endpoint{scheme: "https", host: "github.com", path: "/o/r"}, apps: tokens,
		src: Source{Credentials: Credentials{App: &App{ID: 12, Installation: 34}}}}
	return tokens, e
}

func TestTokenIsReplacedBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		tokens, e := testTokens(func(context.Context) (appToken, error) {
			asked++
			return appToken{text: fmt.Sprint("token", asked), expires: time.Now().Add(time.Hour)}, nil
		})
		want := func(text string) {
			t.Helper()
			if got, err := tokens.token(t.Context(), e); err != nil || got != text {
				t.Fatal(got, err)
			}
		}
		want("token1")
		time.Sleep(55*time.Minute - time.Second)
		want("token1")
		time.Sleep(time.Second)
		want("token2")

		tokens.refused(e, "token2")
		want("token2") // a new token is not replaced at each refusal
		time.Sleep(2 * freshToken)
		tokens.refused(e, "token1")
		want("token2")
		tokens.refused(e, "token2")
		want("token3")

		other := &sourceEntry{ep: e.ep}
		other.src.Credentials.App = &App{ID: 12, Installation: 35}
		if got, err := tokens.token(t.Context(), other); err != nil || got != "token4" {
			t.Fatal("another installation has another token:", got, err)
		}
		time.Sleep(3 * time.Hour)
		want("token5")
		if n := len(tokens.states); n != 1 {
			t.Errorf("%d states are kept", n)
		}
	})
}

func TestTokenFailuresBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, after := 0, time.Duration(0)
		var fails bool
		tokens, e := testTokens(func(context.Context) (appToken, error) {
			asked++
			if fails {
				return appToken{}, reconcile.RequeueError(ReasonRemoteFailing, after, errors.New("no"))
			}
			return appToken{text: "token", expires: time.Now().Add(time.Hour)}, nil
		})
		fails = true
		for range 3600 {
			_, _ = tokens.token(t.Context(), e)
			time.Sleep(time.Second)
		}
		if asked < 12 || asked > 20 {
			t.Errorf("%d requests in an hour", asked)
		}
		fails = false
		time.Sleep(lastTokenRetry)
		if got, err := tokens.token(t.Context(), e); err != nil || got != "token" {
			t.Fatal(got, err)
		}
	})
}

// Who stops waiting does not stop the request of the others.
func TestTokenCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, e := testTokens(func(ctx context.Context) (appToken, error) {
			select {
			case <-ctx.Done():
				return appToken{}, errors.New("the request was ended")
			case <-time.After(10 * time.Second):
			}
			return appToken{text: "token", expires: time.Now().Add(time.Hour)}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := tokens.token(ctx, e); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if got, err := tokens.token(t.Context(), e); err != nil || got != "token" {
			t.Error(got, err)
		}
	})
}
