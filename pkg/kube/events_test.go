package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// An event is sent again where the API server could not answer, and dropped where it
// has refused it: the next event is not held up.
func TestRecorderSendsAgain(t *testing.T) {
	for name, c := range map[string]struct {
		why     string
		answers []int // to the first event; then each is taken
		want    int   // requests until the second event is taken
	}{
		"Taken":     {"it is written once", nil, 2},
		"Broken":    {"the API server was not ready", []int{http.StatusServiceUnavailable, http.StatusInternalServerError}, 4},
		"Away":      {"the API server is away for long", []int{503, 503, 503, 503, 503}, 6},
		"Refused":   {"the namespace does not take it", []int{http.StatusUnprocessableEntity}, 2},
		"Forbidden": {"the recorder may not write events", []int{http.StatusForbidden}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			var mu sync.Mutex
			taken, requests := 0, 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				code := http.StatusCreated
				if requests < len(c.answers) {
					code = c.answers[requests]
				}
				requests++
				if code == http.StatusCreated {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(code)
					_, _ = w.Write([]byte(`{"apiVersion":"events.k8s.io/v1","kind":"Event"}`))
					taken++
				} else {
					http.Error(w, "not now", code)
				}
				if requests == c.want {
					stop()
				}
			}))
			defer server.Close()
			client, err := Connect(Config{REST: &rest.Config{Host: server.URL}})
			if err != nil {
				t.Fatal(err)
			}
			r := NewRecorder(client, "test")
			r.delays = Backoff{First: time.Millisecond, Last: time.Millisecond}
			for range 2 {
				r.Event(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}, Normal, "Sent", "text")
			}
			if err := r.Run(ctx); err != nil {
				t.Fatal(err)
			}
			server.Close() // waits for the last answer
			if requests != c.want || taken == 0 {
				t.Errorf("%s: %d requests, want %d; %d events taken", c.why, requests, c.want, taken)
			}
		})
	}
}
