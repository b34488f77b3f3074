package kube

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// leaseServer is an API server that has one lease. It refuses a write of an older
// version: a renewal that was called off may come after the lease was given back.
type leaseServer struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
}

func (s *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		sent := &coordinationv1.Lease{}
		if err := json.NewDecoder(r.Body).Decode(sent); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if s.lease != nil && sent.ResourceVersion != s.lease.ResourceVersion {
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`))
			return
		}
		s.version++
		sent.ResourceVersion = strconv.Itoa(s.version)
		s.lease = sent
	}
	if s.lease == nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
		return
	}
	s.lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	_ = json.NewEncoder(w).Encode(s.lease)
}

// leave is a lease as a holder has left it; nil: there is none.
func (s *leaseServer) leave(holder *string) {
	s.lease = nil
	if holder != nil {
		now, seconds := metav1.NewMicroTime(time.Now()), int32(1)
		s.lease = &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: holder, RenewTime: &now, AcquireTime: &now, LeaseDurationSeconds: &seconds},
		}
	}
}

func TestLeadNoticesCrashes(t *testing.T) {
	failed := errors.New("failed")
	cases := map[string]struct {
		why  string
		left *string
		end  error // of the work; nil: its context is cancelled
		want int
	}{
		"First":          {why: "there was no holder"},
		"GivenBack":      {why: "the holder before had ended as it should", left: new("")},
		"SameProcess":    {why: "the container was started again", left: new("me"), want: 1},
		"AnotherProcess": {why: "its lease ran out", left: new("another"), want: 1},
		"Fails":          {why: "a process that ends with an error is started again", end: failed, want: 1},
		"FailsAgain":     {why: "both are deaths", left: new("me"), end: failed, want: 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &leaseServer{}
			s.leave(c.left)
			server := httptest.NewServer(s)
			defer server.Close()
			client, err := Connect(Config{REST: &rest.Config{
				Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
			}})
			if err != nil {
				t.Fatal(err)
			}
			crashes := 0
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			lease := Lease{
				Namespace: "a", Name: "b", Identity: "me", Duration: 3 * time.Second, Renew: 2 * time.Second, Retry: 100 * time.Millisecond,
				Crashed: func(context.Context) { crashes++ },
			}
			err = Lead(ctx, client, lease, func(context.Context) error {
				if c.end == nil {
					stop()
				}
				return c.end
			})
			if !errors.Is(err, c.end) || crashes != c.want {
				t.Errorf("%s: want %d, got %d; %v", c.why, c.want, crashes, err)
			}
			server.Close() // what was called off is over
			if got := s.lease.Spec.HolderIdentity; got == nil || *got != "" {
				t.Errorf("the lease is not given back: %v", got)
			}
		})
	}
}
