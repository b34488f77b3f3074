package broken

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// A delivery is one webhook.
type delivery struct {
	body      []byte
	signature string // empty: unsigned
}

// sign is a webhook about a commit that GitHub would have signed with a key.
func sign(key, url, commit string) delivery {
	body := fmt.Appendf(nil, `{"ref": "refs/heads/%s", "after": %q, "repository": {"clone_url": %q}}`, branch, commit, url)
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return delivery{body, "sha256=" + hex.EncodeToString(mac.Sum(nil))}
}

// A sender sends webhooks at a constant rate: those that announce commits as soon as there
// are any, and others in between.
type sender struct {
	url    string
	rate   int // in a second
	client *http.Client
	queue  chan delivery // of healthy repositories, about their newest commits

	good, bad []*source // with webhooks

	mu      sync.Mutex
	sent    map[string]map[int]int // by what it was and the status; 0: no answer
	took    []time.Duration
	history []delivery // signed, about healthy repositories
	begin   time.Time
	end     time.Time
}

// What webhooks are.
const (
	isNew      = "signed, about a new commit of a healthy repository"
	isReplay   = "one of those once more"
	isBroken   = "signed, about a broken repository"
	isWrong    = "with a wrong signature"
	isUnsigned = "unsigned, about a healthy repository"
	isUnknown  = "unsigned, about an unknown repository"
	isGarbage  = "no JSON"
)

func newSender(w *world) *sender {
	s := &sender{
		url: w.fleet.WebhookURL(), rate: w.options.Webhooks, queue: make(chan delivery, 10_000), sent: map[string]map[int]int{},
		client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}
	for _, source := range w.sources {
		switch {
		case source.sort != gitRepo || source.interval != 0:
		case source.server.kind == healthy:
			s.good = append(s.good, source)
		default:
			s.bad = append(s.bad, source)
		}
	}
	return s
}

// announce enqueues a webhook about a commit of a healthy repository.
func (s *sender) announce(source *source, commit string) {
	d := sign(webhookKey, source.url(), commit)
	s.mu.Lock()
	s.history = append(s.history, d)
	s.mu.Unlock()
	s.queue <- d
}

// run sends until ctx ends.
func (s *sender) run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	tick := time.NewTicker(time.Second / time.Duration(s.rate))
	defer tick.Stop()
	s.begin = time.Now()
	defer func() { s.end = time.Now() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		what, d := s.next()
		group.Go(func() { s.send(ctx, what, d) })
	}
}

// next chooses what is sent next.
func (s *sender) next() (string, delivery) {
	select {
	case d := <-s.queue:
		return isNew, d
	default:
	}
	commit := fmt.Sprintf("%016x%016x%08x", rand.Uint64(), rand.Uint64(), rand.Uint32())
	switch n := rand.N(100); {
	case n < 20:
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.history) > 0 {
			return isReplay, s.history[rand.N(len(s.history))]
		}
	case n < 50 && len(s.bad) > 0:
		return isBroken, sign(webhookKey, s.bad[rand.N(len(s.bad))].url(), commit)
	case n < 65 && len(s.good) > 0:
		return isWrong, sign("another key", s.good[rand.N(len(s.good))].url(), commit)
	case n < 75 && len(s.good) > 0:
		return isUnsigned, delivery{body: sign("", s.good[rand.N(len(s.good))].url(), commit).body}
	case n < 85:
		return isUnknown, delivery{body: sign("", "http://git.example.invalid/unknown.git", commit).body}
	}
	return isGarbage, delivery{body: []byte(commit)}
}

func (s *sender) send(ctx context.Context, what string, d delivery) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(d.body))
	if err != nil {
		return // cannot be: the URL is that of the sandbox
	}
	req.Header.Set("X-GitHub-Event", "push")
	if d.signature != "" {
		req.Header.Set("X-Hub-Signature-256", d.signature)
	}
	begin, code := time.Now(), 0
	if resp, err := s.client.Do(req); err == nil {
		code = resp.StatusCode
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
		_ = resp.Body.Close()
	} else if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent[what] == nil {
		s.sent[what] = map[int]int{}
	}
	s.sent[what][code]++
	s.took = append(s.took, time.Since(begin))
}
