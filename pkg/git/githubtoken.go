package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const (
	// tokenMargin is how long before its end a token is no longer used: a fetch that
	// begins with it has to end with it.
	tokenMargin = 5 * time.Minute
	// tokenTimeout bounds one request for a token.
	tokenTimeout = 20 * time.Second
	// maxTokenBytes bounds the answer, which may list repositories.
	maxTokenBytes = 1 << 20
	// freshToken is for how long a token that the git host refuses is not replaced.
	freshToken = time.Minute
	// Failed requests are repeated after firstTokenRetry, and then after twice the time,
	// up to lastTokenRetry.
	firstTokenRetry = 5 * time.Second
	lastTokenRetry  = 5 * time.Minute
	// maxRetryAfter bounds what GitHub may ask the client to wait.
	maxRetryAfter = time.Hour
)

// An appToken is a token of an installation.
type appToken struct {
	text    string
	expires time.Time
}

// appTokens keeps the tokens of installations, and the failures to get them. Callers
// that need the same token at the same time share one request.
type appTokens struct {
	request func(ctx context.Context, e *sourceEntry) (appToken, error)
	flight  singleflight.Group

	mu     sync.Mutex
	states map[string]*tokenState // by tokenKey
}

// A tokenState is the outcome of the last request: a token or an error, which is valid
// until a time. It does not change.
type tokenState struct {
	token    appToken
	created  time.Time
	err      error
	failures int
	until    time.Time
}

func newAppTokens() *appTokens {
	return &appTokens{request: requestToken, states: map[string]*tokenState{}}
}

// tokenKey identifies what a token is requested with: the App, its key, the host, and
// what decides whether the host is trusted.
func (e *sourceEntry) tokenKey(api endpoint) string {
	app := e.src.Credentials.App
	h := sha256.New()
	for _, part := range [][]byte{app.PrivateKey, e.src.CABundle} {
		sum := sha256.Sum256(part)
		_, _ = h.Write(sum[:])
	}
	fmt.Fprintf(h, "%d %d %t %s%s", app.ID, app.Installation, e.src.InsecureSkipTLSVerify, api.address(), api.path)
	return hex.EncodeToString(h.Sum(nil))
}

// token returns a token of the installation that a source names. Errors are those of
// Resolve, or that of ctx.
func (t *appTokens) token(ctx context.Context, e *sourceEntry) (string, error) {
	api, err := e.src.Credentials.App.appEndpoint(e.ep)
	if err != nil {
		return "", err
	}
	key := e.tokenKey(api)
	if s := t.find(key); s != nil {
		return s.token.text, s.err
	}
	result := t.flight.DoChan(key, func() (any, error) {
		if s := t.find(key); s != nil { // a request ended since
			return s.token.text, s.err
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTimeout)
		defer cancel()
		token, err := t.request(ctx, e)
		t.store(key, token, err)
		return token.text, err
	})
	select {
	case r := <-result:
		token, _ := r.Val.(string)
		return token, r.Err
	case <-ctx.Done():
		return "", answered(ctx.Err()) // other repositories of the host need no token
	}
}

// find returns the outcome of the last request; nil if it is no longer valid.
func (t *appTokens) find(key string) *tokenState {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.states[key]
	if s == nil || !time.Now().Before(s.until) {
		return nil
	}
	return s
}

// store keeps the outcome of a request, and drops outcomes that are of no use any more.
func (t *appTokens) store(key string, token appToken, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for other, s := range t.states {
		if other != key && now.Sub(s.until) > idle {
			delete(t.states, other)
		}
	}
	if err == nil {
		t.states[key] = &tokenState{token: token, created: now, until: token.expires.Add(-tokenMargin)}
		return
	}
	s := &tokenState{err: err, failures: 1}
	if last := t.states[key]; last != nil {
		s.failures = last.failures + 1
	}
	wait := min(firstTokenRetry<<min(s.failures-1, 10), lastTokenRetry)
	var later *reconcile.RequeueAfter
	if errors.As(err, &later) {
		wait = max(wait, later.After)
	}
	s.until = now.Add(wait)
	t.states[key] = s
}

// refused drops a token that the git host has refused: GitHub revokes tokens. A new
// token stays, so that a host that refuses every token is not asked for one each time.
func (t *appTokens) refused(e *sourceEntry, token string) {
	api, err := e.src.Credentials.App.appEndpoint(e.ep)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	key := e.tokenKey(api)
	if s := t.states[key]; s != nil && s.token.text == token && time.Since(s.created) > freshToken {
		delete(t.states, key)
	}
}

// requestToken asks GitHub for a token of an installation. It follows no redirect.
func requestToken(ctx context.Context, e *sourceEntry) (appToken, error) {
	app := e.src.Credentials.App
	api, err := app.appEndpoint(e.ep)
	if err != nil {
		return appToken{}, err
	}
	if err := e.addresses.CheckHost(api.host); err != nil {
		return appToken{}, err
	}
	jwt, err := app.jwt(time.Now())
	if err != nil {
		return appToken{}, permanentf(ReasonInvalidCredentials, "key %q of the secret: %w", keyAppPrivateKey, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, api.baseURL().String(), http.NoBody)
	if err != nil {
		return appToken{}, permanentf(ReasonInvalidURL, "repository URL cannot be requested")
	}
	req.Header.Set("User-Agent", e.userAgent)
	req.Header.Set("Accept", "application/vnd.github+json")
	req.Header.Set("Authorization", "Bearer "+jwt)
	client := &http.Client{Transport: e.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		// The fault concerns who uses the App, not all repositories of the host.
		return appToken{}, tokenFault(ctx, e, api, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusCreated && res.StatusCode != http.StatusOK {
		return appToken{}, app.refusal(api, res)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxTokenBytes+1))
	if err != nil {
		return appToken{}, tokenFault(ctx, e, api, err)
	}
	return decodeToken(api, data)
}

// tokenFault explains an error of a connection to GitHub's API.
func tokenFault(ctx context.Context, e *sourceEntry, api endpoint, err error) error {
	at := &sourceEntry{ep: api, transport: e.transport}
	return at.explain(ctx, answered(err))
}

// decodeToken reads GitHub's answer. Errors hold nothing of it.
func decodeToken(api endpoint, data []byte) (appToken, error) {
	var answer struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expires_at"`
	}
	if len(data) > maxTokenBytes {
		return appToken{}, permanentf(ReasonTooLarge, "the answer of %q about a token is larger than %s", api.display(), formatSize(maxTokenBytes))
	}
	if err := json.Unmarshal(data, &answer); err != nil || answer.Token == "" || answer.Expires.IsZero() || !printable(answer.Token) {
		return appToken{}, permanentf(ReasonNotGit, "host %q does not answer as GitHub's API does; credentials of a GitHub App work only there", api.display())
	}
	return appToken{text: answer.Token, expires: answer.Expires}, nil
}

// refusal explains the status of an answer without a token.
func (a App) refusal(api endpoint, res *http.Response) error {
	host, status := api.display(), res.StatusCode
	wait, limited := retryTime(res.Header)
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && limited:
		return reconcile.RequeueError(ReasonRemoteFailing, wait, fmt.Errorf("%q gives GitHub App %d no more tokens for now (%d)", host, a.ID, status))
	case status == http.StatusUnauthorized:
		return permanentf(ReasonAuthenticationRefused, "%q refuses the key of GitHub App %d (%d): check %s, %s and the clock of the manager",
			host, a.ID, status, keyAppID, keyAppPrivateKey)
	case status == http.StatusNotFound:
		return permanentf(ReasonAuthenticationRefused, "%q has no installation %d of GitHub App %d (%d): check %s, and install the App for the owner of the repository",
			host, a.Installation, a.ID, status, keyAppInstallation)
	case status == http.StatusForbidden, status == http.StatusUnprocessableEntity:
		return permanentf(ReasonAuthenticationRefused, "%q gives no token for installation %d of GitHub App %d (%d): check that it is not suspended and may read contents",
			host, a.Installation, a.ID, status)
	case status >= 300 && status < 400:
		return permanentf(ReasonRedirected, "%q redirects the request for a token (%d); it is not sent elsewhere: put the address of GitHub into spec.repo", host, status)
	case status >= 500:
		return failingf("%q cannot give a token for GitHub App %d: it answers %d %s", host, a.ID, status, http.StatusText(status))
	}
	return permanentf(ReasonNotGit, "host %q does not answer as GitHub's API does (%d); credentials of a GitHub App work only there", host, status)
}

// retryTime returns how long GitHub wants to be left alone, and whether it said so.
func retryTime(h http.Header) (time.Duration, bool) {
	seconds, err := strconv.Atoi(strings.TrimSpace(h.Get("Retry-After")))
	if err == nil && seconds > 0 {
		return time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second, true
	}
	return time.Minute, h.Get("X-Ratelimit-Remaining") == "0"
}
