package client

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Each part of the way to a server that can fail is named.
func TestProbeServer(t *testing.T) {
	answer := func(code int, body string) *httptest.Server {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/base/version" {
				code = http.StatusNotFound
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { silent.Close() })
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	good := answer(http.StatusOK, `{"gitVersion":"v1.36.3"}`)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: good.Certificate().Raw})
	for name, c := range map[string]struct {
		url  string
		ca   []byte
		part string // empty: it answers
		text string
	}{
		"Answers":     {url: good.URL + "/base", ca: ca},
		"Authority":   {url: good.URL + "/base", part: "TLS", text: "certificate signed by unknown authority"},
		"OtherName":   {url: strings.Replace(good.URL, "127.0.0.1", "localhost", 1) + "/base", ca: ca, part: "TLS", text: "not localhost"},
		"NoTLS":       {url: strings.Replace(plain.URL, "http:", "https:", 1), ca: ca, part: "TLS", text: "plain HTTP"},
		"NoScheme":    {url: strings.TrimPrefix(good.URL, "https://") + "/base", ca: ca, part: "answer", text: "if the server speaks HTTPS, write https://"},
		"NameOnly":    {url: strings.Replace(good.URL, "https://127.0.0.1", "localhost", 1) + "/base", ca: ca, part: "answer", text: "write https://"},
		"HTTP":        {url: strings.Replace(good.URL, "https:", "http:", 1) + "/base", ca: ca, part: "answer", text: "write https://"},
		"Refused":     {url: "https://127.0.0.1:1", ca: ca, part: "connection", text: "nothing listens"},
		"HungUp":      {url: "https://" + silent.Addr().String(), ca: ca, part: "connection", text: "ended by the other side"},
		"Credentials": {url: answer(http.StatusUnauthorized, "").URL + "/base", ca: ca, part: "credentials", text: "401"},
		"Broken":      {url: answer(http.StatusBadGateway, "").URL + "/base", ca: ca, part: "answer", text: "502"},
		"NoCluster":   {url: answer(http.StatusOK, "<html>").URL + "/base", ca: ca, part: "answer", text: "no API server"},
	} {
		t.Run(name, func(t *testing.T) {
			seen := ProbeServer(t.Context(), Access{Server: c.url, Rest: &rest.Config{Host: c.url, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca}}})
			switch {
			case c.part == "" && (seen.Failed != nil || seen.Version != "v1.36.3"):
				t.Errorf("want an answer, got %+v %+v", seen, seen.Failed)
			case c.part != "" && (seen.Failed == nil || seen.Failed.Part != c.part || !strings.Contains(seen.Failed.Text, c.text)):
				t.Errorf("want %s: %s, got %+v", c.part, c.text, seen.Failed)
			}
			hop := VisitAddress(t.Context(), c.url, c.ca)
			if ok := c.part == "" || c.part == "credentials" || name == "NoCluster"; ok != (hop == nil) {
				t.Errorf("a request without credentials counts a refusal as success: %+v", hop)
			}
		})
	}
}
