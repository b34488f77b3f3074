package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
)

const system = "system"

// play runs a Receiver on an API server with two workspaces, and then f.
func play(t *testing.T, cfg Config, f func(w *looptest.World, r *Receiver, log *bytes.Buffer)) {
	t.Helper()
	var r *Receiver
	var log bytes.Buffer
	cfg.Namespace = system
	looptest.Undisturbed(t, looptest.Loop{
		Start: func(c *kube.Client) []kube.Runner {
			l := logrus.New()
			l.SetOutput(&log)
			r = New(cfg, c, logrus.NewEntry(l))
			return r.Runnables(nil)
		},
		Given: func(w *looptest.World) {
			for _, ns := range []string{"one", "two", system} {
				w.Server.MakeNamespace(ns)
			}
		},
		When: func(w *looptest.World) {
			w.Pass(time.Second)
			f(w, r, &log)
		},
		Then: func(*looptest.World) {},
	})
}

// follow makes a GitRepo that follows the repository of a sample.
func follow(w *looptest.World, ns, name, address string, change func(r *fleet.GitRepo)) {
	w.Helper()
	r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	r.Spec.Repo, r.Spec.Branch = address, "main"
	if change != nil {
		change(r)
	}
	looptest.Make(w, r)
	w.Pass(time.Second)
}

func named(secret string) func(r *fleet.GitRepo) {
	return func(r *fleet.GitRepo) { r.Spec.WebhookSecret = secret }
}

func secret(w *looptest.World, ns, name string, data map[string][]byte) {
	w.Helper()
	looptest.Make(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: data})
}

// post sends a payload and returns the answer.
func post(r http.Handler, h http.Header, body []byte) (int, string) {
	req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", bytes.NewReader(body))
	req.Header = h
	rec := httptest.NewRecorder()
	r.ServeHTTP(rec, req)
	return rec.Code, rec.Body.String()
}

// signed returns the headers of a sample with a signature.
func signed(s sample, body []byte, word string) http.Header {
	h := s.header.Clone()
	s.sign(h, body, word)
	return h
}

// wantCommit checks what the status of a GitRepo says about webhooks.
func wantCommit(w *looptest.World, ns, name, commit string) {
	w.Helper()
	s := looptest.Read[*fleet.GitRepo](w, ns, name).Status
	if s.WebhookCommit != commit || s.LastWebhookTime.IsZero() != (commit == "") {
		w.Errorf("want webhookCommit %q of %s/%s, got %q of %s", commit, ns, name, s.WebhookCommit, s.LastWebhookTime)
	}
}

// Each provider's webhook reaches the GitRepo, with the Secret that the GitRepo names and
// with that of the installation; a wrong signature and a missing one do not.
func TestEveryProvider(t *testing.T) {
	for name, s := range samples {
		t.Run(name, func(t *testing.T) {
			body := recorded(t, name)
			for _, ns := range []string{"one", system} {
				t.Run("SecretIn"+ns, func(t *testing.T) {
					play(t, Config{}, func(w *looptest.World, r *Receiver, log *bytes.Buffer) {
						secretName, change := fleet.SecretWebhook, func(*fleet.GitRepo) {}
						if ns == "one" {
							secretName, change = "hook", named("hook")
						}
						secret(w, ns, secretName, secretOf(s, "word"))
						follow(w, "one", "repo", s.repo, change)
						for _, h := range []http.Header{s.header.Clone(), signed(s, body, "guess")} {
							if code, text := post(r, h, body); code != http.StatusUnauthorized || text != textFailed {
								w.Errorf("got %d %q", code, text)
							}
						}
						wantCommit(w, "one", "repo", "")
						if code, text := post(r, signed(s, body, "word"), body); code != http.StatusOK || text != textSucceeded {
							w.Errorf("got %d %q", code, text)
						}
						wantCommit(w, "one", "repo", one)
						if text := log.String(); strings.Contains(text, "deprecated") || strings.Contains(text, "word") {
							w.Errorf("got the log %s", text)
						}
					})
				})
			}
		})
	}
}

// Requests that announce nothing are answered by their headers alone.
func TestAnswers(t *testing.T) {
	cases := map[string]struct {
		why    string
		method string
		header http.Header
		code   int
		text   string
	}{
		"Get":           {method: http.MethodGet, header: samples["github"].header, code: 405, text: textFailed},
		"NoProvider":    {why: "health checks of load balancers", header: head(), code: 200},
		"GitHubPing":    {header: head("X-GitHub-Event", "ping"), code: 200, text: textPing},
		"BitbucketPing": {header: head("X-Event-Key", "diagnostics:ping"), code: 200, text: textPing},
		"OtherEvent":    {header: head("X-GitHub-Event", "issues"), code: 200, text: textIgnored},
		"GitLabSystem":  {header: head("X-Gitlab-Event", "System Hook"), code: 200, text: textIgnored},
		"NoEvent":       {why: "Bitbucket Cloud without the name of the event", header: head("X-Hook-UUID", "x"), code: 200, text: textIgnored},
	}
	play(t, Config{}, func(w *looptest.World, r *Receiver, _ *bytes.Buffer) {
		for name, c := range cases {
			method := c.method
			if method == "" {
				method = http.MethodPost
			}
			req := httptest.NewRequestWithContext(context.Background(), method, "/any/path", unread{t})
			req.Header = c.header
			rec := httptest.NewRecorder()
			r.ServeHTTP(rec, req)
			if rec.Code != c.code || rec.Body.String() != c.text {
				w.Errorf("%s: %s: want %d %q, got %d %q", name, c.why, c.code, c.text, rec.Code, rec.Body)
			}
		}
	})
}

// unread is a body that must not be read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("a body was read that is not needed")
	return 0, io.EOF
}

// Without any Secret a webhook is accepted, and the log says that this is deprecated.
func TestUnsigned(t *testing.T) {
	s, body := samples["github"], recorded(t, "github")
	play(t, Config{}, func(w *looptest.World, r *Receiver, log *bytes.Buffer) {
		follow(w, "one", "repo", s.repo, nil)
		if code, text := post(r, s.header, body); code != http.StatusOK || text != textSucceeded {
			w.Errorf("got %d %q", code, text)
		}
		wantCommit(w, "one", "repo", one)
		if !strings.Contains(log.String(), "deprecated") {
			w.Errorf("got the log %s", log)
		}
	})
}

// A flood without signatures is accepted only in part, and does not stop signed webhooks.
func TestUnsignedFlood(t *testing.T) {
	s, body := samples["github"], recorded(t, "github")
	play(t, Config{}, func(w *looptest.World, r *Receiver, _ *bytes.Buffer) {
		follow(w, "one", "repo", s.repo, nil)
		secret(w, "two", "hook", secretOf(s, "word"))
		follow(w, "two", "repo", "https://github.com/team/other", named("hook"))
		codes := map[int]int{}
		for i := range 200 {
			code, _ := post(r, s.header, bytes.ReplaceAll(body, []byte(one), fmt.Appendf(nil, "%040x", i+1)))
			codes[code]++
			w.Pass(time.Millisecond)
		}
		if codes[200] > unsignedBurst+1 || codes[200] < unsignedBurst/2 || codes[429] != 200-codes[200] {
			w.Errorf("got the answers %v", codes)
		}
		other := bytes.ReplaceAll(body, []byte("team/shop"), []byte("team/other"))
		if code, _ := post(r, signed(s, other, "word"), other); code != http.StatusOK {
			w.Errorf("a signed webhook got %d", code)
		}
		wantCommit(w, "two", "repo", one)
	})
}

// A flood of requests is refused before anything is read.
func TestFlood(t *testing.T) {
	play(t, Config{}, func(w *looptest.World, r *Receiver, _ *bytes.Buffer) {
		codes := map[int]int{}
		for range 2 * requestBurst {
			code, _ := post(r, samples["github"].header, []byte("{}"))
			codes[code]++
		}
		if codes[200] != requestBurst || codes[429] != requestBurst {
			w.Errorf("got the answers %v", codes)
		}
		w.Pass(time.Second)
		if code, _ := post(r, samples["github"].header, []byte("{}")); code != http.StatusOK {
			w.Errorf("got %d after the flood", code)
		}
	})
}

// Each GitRepo is judged by its own Secret. One that is refused, or whose Secret is broken,
// does not stop the others; the answer is the worst one.
func TestOneBrokenGitRepo(t *testing.T) {
	s, body := samples["github"], recorded(t, "github")
	play(t, Config{}, func(w *looptest.World, r *Receiver, log *bytes.Buffer) {
		secret(w, "one", "hook", secretOf(s, "word"))
		secret(w, "two", "hook", secretOf(s, "another"))
		secret(w, "two", "empty", map[string][]byte{"github": nil})
		secret(w, "two", "of-gitlab", map[string][]byte{"gitlab": []byte("word")})
		secret(w, system, fleet.SecretWebhook, secretOf(s, "of all"))
		follow(w, "one", "good", s.repo, named("hook"))
		follow(w, "two", "a-denied", s.repo, named("hook"))
		follow(w, "two", "global", s.repo, nil)
		follow(w, "two", "z-good", "git@github.com:Team/Shop.git", nil)
		if code, text := post(r, signed(s, body, "word"), body); code != http.StatusUnauthorized || text != textFailed {
			w.Errorf("got %d %q", code, text)
		}
		wantCommit(w, "one", "good", one)
		for _, name := range []string{"a-denied", "global", "z-good"} {
			wantCommit(w, "two", name, "")
		}
		follow(w, "two", "missing", s.repo, named("missing"))
		follow(w, "two", "empty", s.repo, named("empty"))
		follow(w, "two", "of-gitlab", s.repo, named("of-gitlab"))
		if code, _ := post(r, signed(s, body, "of all"), body); code != http.StatusInternalServerError {
			w.Errorf("got %d", code)
		}
		for name, commit := range map[string]string{"a-denied": "", "global": one, "z-good": one, "missing": "", "empty": "", "of-gitlab": ""} {
			wantCommit(w, "two", name, commit)
		}
		for _, text := range []string{"has no key github", `"missing"`} {
			if !strings.Contains(log.String(), strings.ReplaceAll(text, `"`, `\"`)) {
				w.Errorf("want %q in the log %s", text, log)
			}
		}
	})
}

// A commit that the GitRepo knows, another branch, another repository and another workspace
// write nothing.
func TestNothingToWrite(t *testing.T) {
	s, body := samples["github"], recorded(t, "github")
	play(t, Config{Scope: scope.Scope{Shard: "blue", Workspaces: []string{"one"}}}, func(w *looptest.World, r *Receiver, _ *bytes.Buffer) {
		follow(w, "one", "repo", s.repo, func(r *fleet.GitRepo) { r.Labels = map[string]string{fleet.LabelShardRef: "green"} })
		follow(w, "one", "branch", s.repo, func(r *fleet.GitRepo) { r.Spec.Branch = "dev" })
		follow(w, "one", "revision", s.repo, func(r *fleet.GitRepo) { r.Spec.Revision = "v1" })
		follow(w, "one", "other", "https://github.com/team/shop2", nil)
		follow(w, "one", "host", "https://github.com.evil.example/team/shop", nil)
		follow(w, "one", "pattern", "https://github.com/.*/.*", nil)
		follow(w, "two", "repo", s.repo, nil)
		if code, _ := post(r, s.header, body); code != http.StatusOK {
			w.Errorf("got %d", code)
		}
		wantCommit(w, "one", "repo", one) // of another shard
		for _, name := range []string{"branch", "revision", "other", "host", "pattern"} {
			wantCommit(w, "one", name, "")
		}
		wantCommit(w, "two", "repo", "")
		w.Pass(time.Second)
		before, at := len(w.Server.Requests()), looptest.Read[*fleet.GitRepo](w, "one", "repo").Status.LastWebhookTime
		for range 5 {
			w.Pass(time.Minute)
			if code, _ := post(r, s.header, body); code != http.StatusOK {
				w.Errorf("a replay got %d", code)
			}
		}
		if sent := slices.DeleteFunc(w.Server.Requests()[before:], func(q kubetest.Request) bool { return !strings.Contains(q.UserAgent, "webhook") }); len(sent) > 0 {
			w.Errorf("replays sent %v", sent)
		}
		if now := looptest.Read[*fleet.GitRepo](w, "one", "repo").Status.LastWebhookTime; !now.Equal(&at) {
			w.Errorf("a replay moved lastWebhookTime from %s to %s", at, now)
		}
	})
}

// The status of a GitRepo that others write at the same time keeps what they wrote.
func TestStatusOfOthers(t *testing.T) {
	s, body := samples["github"], recorded(t, "github")
	play(t, Config{}, func(w *looptest.World, r *Receiver, _ *bytes.Buffer) {
		follow(w, "one", "repo", s.repo, nil)
		release := w.Server.HoldWatches(fleet.GroupVersion.WithResource("gitrepos"))
		defer release()
		looptest.Change(w, "one", "repo", func(r *fleet.GitRepo) { r.Status.Commit, r.Status.Summary.DesiredReady = two, 7 })
		if code, _ := post(r, s.header, body); code != http.StatusOK {
			w.Errorf("got %d", code)
		}
		wantCommit(w, "one", "repo", one)
		if got := looptest.Read[*fleet.GitRepo](w, "one", "repo").Status; got.Commit != two || got.Summary.DesiredReady != 7 {
			w.Errorf("got %+v", got)
		}
	})
}

// endless is a body without an end, that counts what is read.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func TestBodies(t *testing.T) {
	play(t, Config{}, func(w *looptest.World, r *Receiver, _ *bytes.Buffer) {
		send := func(body io.Reader, length int64) int {
			req := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/", body)
			req.Header, req.ContentLength = samples["github"].header, length
			rec := httptest.NewRecorder()
			r.ServeHTTP(rec, req)
			return rec.Code
		}
		if code := send(unread{t}, maxBodyBytes+1); code != http.StatusRequestEntityTooLarge {
			w.Errorf("a length that is too large: got %d", code)
		}
		e := &endless{}
		if code := send(e, -1); code != http.StatusRequestEntityTooLarge || e.read > maxBodyBytes+2*pieceBytes {
			w.Errorf("a body without an end: got %d after %d bytes", code, e.read)
		}
		full := append([]byte("{"), bytes.Repeat([]byte(" "), maxBodyBytes-2)...)
		if code := send(bytes.NewReader(append(full, '}')), -1); code != http.StatusOK {
			w.Errorf("the largest body: got %d", code)
		}
		if code := send(io.MultiReader(bytes.NewReader(full), strings.NewReader(" }")), -1); code != http.StatusRequestEntityTooLarge {
			w.Errorf("one byte more: got %d", code)
		}
		if code := send(io.MultiReader(strings.NewReader("{"), broken{}), -1); code != http.StatusBadRequest {
			w.Errorf("a body that is cut: got %d", code)
		}
		// The memory of all bodies is limited, and given back.
		if !r.bodies.free.TryAcquire(maxBodiesBytes) {
			w.Error("memory was not given back")
		}
		if code := send(strings.NewReader("{}"), -1); code != http.StatusServiceUnavailable {
			w.Errorf("without memory: got %d", code)
		}
		r.bodies.free.Release(maxBodiesBytes)
	})
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("cut") }
