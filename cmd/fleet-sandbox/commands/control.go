package commands

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/fleet"
)

// A request is what another process asks of the running launcher.
type request struct {
	Verb string `json:"verb"` // status, cut, heal, stop, start or kill
	Name string `json:"name,omitempty"`
}

// An answer is what it says.
type answer struct {
	Error    string          `json:"error,omitempty"`
	Text     string          `json:"text,omitempty"`
	Document *document       `json:"document,omitempty"`
	Snapshot *fleet.Snapshot `json:"snapshot,omitempty"`
}

// A controlServer answers requests on loopback to those who can read the
// record.
type controlServer struct {
	token string
	http  *http.Server
	do    func(context.Context, request) answer
}

// serve starts the control server and leaves the record that leads to it.
func (s *session) serve() (*controlServer, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", s.plan.ports.Control()))
	if err != nil {
		return nil, fmt.Errorf("serve other commands: %w", err)
	}
	c := &controlServer{token: rand.Text(), do: s.do}
	c.http = &http.Server{Handler: c, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = c.http.Serve(l) }() // ends with close
	s.control = "http://" + l.Addr().String()
	s.token = c.token
	if err := os.MkdirAll(s.plan.place.Run, 0o700); err != nil {
		c.close()
		return nil, fmt.Errorf("make run folder: %w", err)
	}
	return c, s.plan.place.write(s.record())
}

func (c *controlServer) close() { _ = c.http.Close() }

// record is what other verbs need to know of this session.
func (s *session) record() record {
	now := s.facts()
	return record{
		PID: os.Getpid(), Since: s.since, Address: s.control, Token: s.token,
		Repository: now.repo.dir, Kubernetes: now.kubernetes,
		Clusters: append([]string{"local"}, s.plan.names()...),
	}
}

// ServeHTTP answers one request.
func (c *controlServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(token), []byte(c.token)) != 1 {
		http.Error(w, "not allowed", http.StatusForbidden)
		return
	}
	var q request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&q); err != nil {
		http.Error(w, "not a request", http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(c.do(r.Context(), q)) // a client that went away needs no answer
}

// do does what is asked.
func (s *session) do(ctx context.Context, q request) answer {
	f := s.fleet.Load()
	if q.Verb == "status" {
		return s.status(ctx, f)
	}
	if f == nil {
		return answer{Error: "the sandbox is just being started; try again when up has printed its tables"}
	}
	text, err := fault(f, q, time.Now())
	if err != nil {
		return answer{Error: err.Error()}
	}
	s.noteFault(q, time.Now())
	return answer{Text: text}
}

// status describes the fleet as it is now.
func (s *session) status(ctx context.Context, f *fleet.Fleet) answer {
	var (
		snap fleet.Snapshot
		err  error
	)
	if f != nil && f.Client() != nil {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if snap, err = f.Look(ctx); err != nil {
			return answer{Error: err.Error()}
		}
	}
	d := s.document(snap)
	if f != nil {
		d.Faults = s.faults()
		if d.State != "Starting" {
			d.State = stateReady
			if snap.Pending("") != "" {
				d.State = "NotReady"
			}
		}
	}
	return answer{Document: &d, Snapshot: &snap}
}

// ask sends a request to the launcher that r names.
func (r record) ask(ctx context.Context, q request) (answer, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return answer{}, fmt.Errorf("ask the sandbox: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Address, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("ask the sandbox: %w", err)
	}
	post.Header.Set("Authorization", "Bearer "+r.Token)
	client := &http.Client{Transport: &http.Transport{}} // no proxy: this is loopback
	response, err := client.Do(post)
	if err != nil {
		return answer{}, fmt.Errorf("ask the sandbox: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return answer{}, fmt.Errorf("ask the sandbox: %s", response.Status)
	}
	var a answer
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
		return answer{}, fmt.Errorf("ask the sandbox: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}
