// Package webhook receives the webhooks of git hosts. It notes in the status of each
// GitRepo that follows the repository which commit was announced, and when. The manager
// that reconciles the GitRepo then asks the repository for its head. Every process of the
// role gitjob receives webhooks for all GitRepos, whether it is the leader or not.
//
// Every client that reaches the port can send requests. So the size, the number and the
// duration of requests are limited, and a payload decides nothing: it only names a
// repository, a branch and a commit.
package webhook

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/scope"
	"github.com/fleetworkspace/fleet/pkg/plan/webhook"
)

// Texts of answers.
const (
	textPing      = "Webhook received successfully"
	textSucceeded = "succeeded"
	textIgnored   = "ignored"
	textFailed    = "Webhook processing failed"
)

// Limits of connections and requests.
const (
	maxConnections = 512
	maxHeaderBytes = 16 << 10
	headerTime     = 5 * time.Second
	readTime       = 30 * time.Second
	notifyTime     = 30 * time.Second // how long the GitRepos of one request may take
	idleTime       = 30 * time.Second
	stopTime       = 2 * time.Second

	// Requests from git hosts, in one second and at once.
	requestRate, requestBurst = 50, 500
	// Requests that are accepted without a signature.
	unsignedRate, unsignedBurst = 1, 30
)

// errNoHash means that a payload names something else than a commit.
var errNoHash = errors.New("the payload has no hash of a commit")

// byRepository is the index of GitRepos by the repository that they follow.
const byRepository = "repository"

// Config configures a Receiver.
type Config struct {
	// Namespace is where Fleet itself runs. It contains the Secret gitjob-webhook.
	Namespace string
	// Scope limits the workspaces. Shards do not count: one receiver serves all of them.
	Scope scope.Scope
}

// A Receiver is the http.Handler of webhooks. It needs its cache to run.
type Receiver struct {
	cfg Config
	log *logrus.Entry
	now func() time.Time

	cache   *kube.Cache[*fleet.GitRepo]
	repos   *kube.Store[*fleet.GitRepo]
	secrets *kube.Store[*corev1.Secret]

	bodies   *bodies
	requests *rate.Limiter
	unsigned *rate.Limiter
	refusals rate.Sometimes // limits log entries about requests that are refused
}

// New prepares a Receiver; it sends no request before its cache runs.
func New(cfg Config, c *kube.Client, logger *logrus.Entry) *Receiver {
	own := c.Loop("webhook")
	r := &Receiver{
		cfg: cfg, log: logger.WithField("action", "webhook"), now: time.Now,
		cache: kube.NewCache(c.Loop("cache"), kube.Watch{}, stripRepo),
		repos: kube.StoreOf[*fleet.GitRepo](own), secrets: kube.StoreOf[*corev1.Secret](own),
		bodies: newBodies(), requests: rate.NewLimiter(requestRate, requestBurst), unsigned: rate.NewLimiter(unsignedRate, unsignedBurst),
		refusals: rate.Sometimes{First: 10, Interval: time.Second},
	}
	r.cache.Index(byRepository, func(repo *fleet.GitRepo) []string {
		if id, ok := webhook.ParseRepository(repo.Spec.Repo); ok {
			return []string{indexKey(id)}
		}
		return nil
	})
	return r
}

func indexKey(id webhook.Repository) string { return id.Host + "/" + id.Path }

// stripRepo drops what this package does not read.
func stripRepo(r *fleet.GitRepo) {
	r.Annotations, r.Labels, r.OwnerReferences = nil, nil, nil
	r.Spec = fleet.GitRepoSpec{Repo: r.Spec.Repo, Branch: r.Spec.Branch, Revision: r.Spec.Revision, WebhookSecret: r.Spec.WebhookSecret}
	r.Status = fleet.GitRepoStatus{WebhookCommit: r.Status.WebhookCommit, LastWebhookTime: r.Status.LastWebhookTime}
}

// Runnables returns the cache, and the server on a listener, which it closes. Without a
// listener there is no server.
func (r *Receiver) Runnables(l net.Listener) []kube.Runner {
	parts := []kube.Runner{r.cache}
	if l != nil {
		parts = append(parts, &server{handler: r, listener: l})
	}
	return parts
}

// A server serves a Receiver until its context ends.
type server struct {
	handler  http.Handler
	listener net.Listener
}

// Run implements kube.Runner.
func (s *server) Run(ctx context.Context) error {
	defer func() { _ = s.listener.Close() }()
	srv := &http.Server{
		Handler: s.handler, MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: headerTime, ReadTimeout: readTime,
		WriteTimeout: readTime + notifyTime, IdleTimeout: idleTime,
		ErrorLog: log.New(io.Discard, "", 0), // clients that break off are no events for a log
	}
	defer context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		defer cancel()
		if srv.Shutdown(ending) != nil {
			_ = srv.Close()
		}
	})()
	if err := srv.Serve(netutil.LimitListener(s.listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP answers a webhook.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	code, text := r.receive(w, req)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}

// receive checks a request by its headers, then reads it, and then notifies the GitRepos.
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) (code int, text string) {
	if req.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return http.StatusMethodNotAllowed, textFailed
	}
	p := providerOf(req.Header)
	if p == nil {
		return http.StatusOK, ""
	}
	if p.event != "" {
		switch event := req.Header.Get(p.event); {
		case p.ping != "" && event == p.ping:
			return http.StatusOK, textPing
		case !slices.Contains(p.pushes, event):
			return http.StatusOK, textIgnored
		}
	}
	if !r.requests.Allow() {
		return r.refuse(http.StatusTooManyRequests, p, errBusy)
	}
	if req.ContentLength > maxBodyBytes {
		return r.refuse(http.StatusRequestEntityTooLarge, p, errTooLarge)
	}
	body, release, err := r.bodies.read(req.Body)
	defer release()
	switch {
	case errors.Is(err, errTooLarge):
		return r.refuse(http.StatusRequestEntityTooLarge, p, err)
	case errors.Is(err, errBusy):
		return r.refuse(http.StatusServiceUnavailable, p, err)
	case err != nil:
		return r.refuse(http.StatusBadRequest, p, err)
	}
	push, err := p.parse(body)
	if err != nil {
		return r.refuse(http.StatusBadRequest, p, err)
	}
	// A host that breaks off must not leave half of the GitRepos without the commit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(req.Context()), notifyTime)
	defer cancel()
	code = r.notify(ctx, push, &judge{r: r, provider: p, header: req.Header, body: body})
	if code == http.StatusOK {
		return code, textSucceeded
	}
	return code, textFailed
}

// refuse logs that a request was refused, now and then, and returns the answer.
func (r *Receiver) refuse(code int, p *provider, err error) (int, string) {
	r.refusals.Do(func() {
		r.log.WithFields(logrus.Fields{"reason": p.name, "error": err.Error()}).Warnf("webhook refused with status %d", code)
	})
	return code, textFailed
}
