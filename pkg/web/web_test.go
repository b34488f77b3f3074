package web_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

const (
	user     = "robot"
	password = "canary-secret"
)

var secret = web.Credentials{Username: user, Password: password}

// small is a client that reads little, with all the time that it needs.
func small(t *testing.T) *web.Client { return hurried(t, 2*time.Minute, time.Minute) }

// hurried is a client that gives up after a time, or when nothing comes for another.
func hurried(t *testing.T, timeout, stall time.Duration) *web.Client {
	c := web.New(web.Config{Addresses: address.WithLoopback(), UserAgent: "fleet-test", Timeout: timeout, Limits: web.Limits{Stall: stall, Bytes: 1 << 20}})
	t.Cleanup(c.Close)
	return c
}

func withSecret(s *webtest.Server, c web.Credentials) web.Credentials {
	c.CABundle = s.CA
	return c
}

// fails fetches and demands a reason; the message is one line without secrets.
func fails(t *testing.T, c *web.Client, r web.Request, reason, text string) (web.Response, []byte) {
	t.Helper()
	var into bytes.Buffer
	res, err := c.Get(t.Context(), r, &into)
	if err == nil || reconcile.ReasonOf(err) != reason || !strings.Contains(err.Error(), text) {
		t.Fatalf("got %s: %v, want %s with %q", reconcile.ReasonOf(err), err, reason, text)
	}
	if wait := reason == web.ReasonUnreachable; reconcile.IsRequeue(err) != wait || reconcile.IsTerminal(err) == wait {
		t.Errorf("%T is of the wrong kind", err)
	}
	for _, no := range []string{password, "\n", "signature"} {
		if strings.Contains(err.Error(), no) {
			t.Errorf("the message holds %q: %s", no, err)
		}
	}
	if int64(into.Len()) != res.Bytes {
		t.Errorf("%d bytes were written, %d reported", into.Len(), res.Bytes)
	}
	return res, into.Bytes()
}

func gets(t *testing.T, c *web.Client, r web.Request) (web.Response, string) {
	t.Helper()
	var into bytes.Buffer
	res, err := c.Get(t.Context(), r, &into)
	if err != nil {
		t.Fatal(err)
	}
	return res, into.String()
}

func TestGet(t *testing.T) {
	chart := webtest.Chart{Name: "app", Version: "1.0.0"}
	for name, o := range map[string]webtest.Options{
		"Public":          {},
		"TLS":             {TLS: true},
		"Password":        {Username: user, Password: password},
		"PasswordAndTLS":  {Username: user, Password: password, TLS: true},
		"BelowADirectory": {Path: "/a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			o.Charts = []webtest.Chart{chart}
			s := webtest.Repository(t, o)
			r := web.Request{URL: s.URL + "/archives/app-1.0.0.tgz?signature=1", Credentials: web.Credentials{Username: o.Username, Password: o.Password, CABundle: s.CA}}
			res, body := gets(t, small(t), r)
			if body != string(chart.Pack()) || res.Bytes != int64(len(body)) || res.ETag == "" || res.NotModified || res.FinalURL != r.URL {
				t.Errorf("got %+v", res)
			}
			if want := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body))); res.Digest != want {
				t.Errorf("digest %s, want %s", res.Digest, want)
			}
			h := s.Headers()[0]
			if h.Get("User-Agent") != "fleet-test" || h.Get("Accept-Encoding") != "" || (h.Get("Authorization") != "") != (o.Password != "") {
				t.Errorf("sent %v", h)
			}
		})
	}
}

// User name and password in the URL itself are used, and shown nowhere.
func TestPasswordInURL(t *testing.T) {
	s := webtest.Repository(t, webtest.Options{Username: user, Password: password})
	url := strings.Replace(s.URL, "://", "://"+user+":"+password+"@", 1)
	res, _ := gets(t, small(t), web.Request{URL: url + "/index.yaml"})
	if strings.Contains(res.FinalURL, password) {
		t.Error(res.FinalURL)
	}
	fails(t, small(t), web.Request{URL: url + "/none"}, web.ReasonNotFound, "/none")
	fails(t, small(t), web.Request{URL: url + "/%zz"}, web.ReasonInvalidURL, "cannot be read")
}

func TestETag(t *testing.T) {
	s := webtest.Repository(t, webtest.Options{})
	c := small(t)
	first, body := gets(t, c, web.Request{URL: s.URL + "/index.yaml"})
	sent := s.Sent()
	again, nothing := gets(t, c, web.Request{URL: s.URL + "/index.yaml", ETag: first.ETag})
	if !again.NotModified || nothing != "" || again.ETag != first.ETag || s.Sent() != sent || body == "" {
		t.Errorf("got %+v %q, and %d bytes were sent", again, nothing, s.Sent()-sent)
	}
	s.Put("/index.yaml", []byte("entries: {}\n"))
	changed, body := gets(t, c, web.Request{URL: s.URL + "/index.yaml", ETag: first.ETag})
	if changed.NotModified || body != "entries: {}\n" || changed.ETag == first.ETag {
		t.Errorf("got %+v %q", changed, body)
	}
	// A 304 that the client did not ask for is no file.
	odd := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{"/x": webtest.Status(304), "/tag": webtest.Status(200, "ETag: \"a\xff\"")}})
	fails(t, c, web.Request{URL: odd.URL + "/x"}, web.ReasonRedirected, "304")
	if res, _ := gets(t, c, web.Request{URL: odd.URL + "/tag"}); res.ETag != "" {
		t.Errorf("an entity tag that cannot be sent back is kept: %q", res.ETag)
	}
}

// Who is trusted: the system's authorities, those of the request, or everybody
// where that is asked for. A refused server sees no request, so no password.
func TestCertificates(t *testing.T) {
	s := webtest.Repository(t, webtest.Options{TLS: true, Username: user, Password: password})
	other, _ := webtest.Authority(t)
	at := s.URL + "/index.yaml"
	fails(t, small(t), web.Request{URL: at, Credentials: secret}, web.ReasonCertificateRefused, "not trusted")
	fails(t, small(t), web.Request{URL: at, Credentials: web.Credentials{Username: user, Password: password, CABundle: other}}, web.ReasonCertificateRefused, "unknown authority")
	fails(t, small(t), web.Request{URL: strings.Replace(at, "127.0.0.1", "127.0.0.2", 1), Credentials: withSecret(s, secret)}, web.ReasonUnreachable, "refused")
	fails(t, small(t), web.Request{URL: at, Credentials: web.Credentials{CABundle: []byte("no PEM")}}, web.ReasonInvalidCredentials, "no certificate")
	fails(t, small(t), web.Request{URL: strings.Replace(at, "https", "http", 1), Credentials: secret}, web.ReasonRefused, "400")
	if n, reported := s.Requests(""), s.Authorizations(); n != 0 || len(reported) != 0 {
		t.Errorf("%d requests came through, with %q", n, reported)
	}
	// One client, three kinds of trust: connections are not shared between them.
	c := small(t)
	gets(t, c, web.Request{URL: at, Credentials: withSecret(s, secret)})
	gets(t, c, web.Request{URL: at, Credentials: web.Credentials{Username: user, Password: password, InsecureSkipVerify: true}})
	fails(t, c, web.Request{URL: at, Credentials: secret}, web.ReasonCertificateRefused, "not trusted")
	if n := s.Requests("/index.yaml"); n != 2 {
		t.Errorf("%d requests", n)
	}
	plain := webtest.Repository(t, webtest.Options{})
	fails(t, c, web.Request{URL: strings.Replace(plain.URL, "http", "https", 1)}, web.ReasonUnreachable, "does not speak TLS")
}

// Credentials go to the host, port and scheme that they are for, and nowhere
// else, however the way there is laid.
func TestRedirects(t *testing.T) {
	other := webtest.Repository(t, webtest.Options{Files: map[string][]byte{"/file": []byte("there")}, Handlers: map[string]http.HandlerFunc{"/private": webtest.Status(401)}})
	secure := webtest.Repository(t, webtest.Options{TLS: true, Files: map[string][]byte{"/file": []byte("safe")}})
	handlers := map[string]http.HandlerFunc{}
	s := webtest.Repository(t, webtest.Options{Username: user, Password: password, Files: map[string][]byte{"/file": []byte("here")}, Handlers: handlers})
	for path, to := range map[string]string{
		"/same": "/file", "/other": other.URL + "/file?signature=1", "/private": other.URL + "/private", "/secure": secure.URL + "/file",
		"/localhost": strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + "/file",
		"/password":  strings.Replace(other.URL, "://", "://"+user+":"+password+"@", 1) + "/file",
		"/file-url":  "file:///etc/passwd", "/loop": "/loop", "/metadata": "http://169.254.169.254/latest/meta-data/",
		"/back": other.URL + "/back",
	} {
		handlers[path] = webtest.Redirect(302, to)
	}
	handlers["/nowhere"] = webtest.Status(302)
	creds := web.Credentials{Username: user, Password: password, CABundle: secure.CA}
	c := small(t)

	if res, body := gets(t, c, web.Request{URL: s.URL + "/same", Credentials: creds}); body != "here" || res.FinalURL != s.URL+"/file" {
		t.Errorf("on the same server: %q %+v", body, res)
	}
	if _, body := gets(t, c, web.Request{URL: s.URL + "/other", Credentials: creds}); body != "there" {
		t.Errorf("on another: %q", body)
	}
	if _, body := gets(t, c, web.Request{URL: s.URL + "/secure", Credentials: creds}); body != "safe" {
		t.Errorf("over TLS: %q", body)
	}
	if _, body := gets(t, c, web.Request{URL: s.URL + "/password", Credentials: creds}); body != "there" {
		t.Errorf("with a password in the new address: %q", body)
	}
	before := len(s.Authorizations())
	fails(t, c, web.Request{URL: s.URL + "/private", Credentials: creds}, web.ReasonAuthenticationRefused, "not sent to another host")
	fails(t, c, web.Request{URL: s.URL + "/localhost", Credentials: creds}, web.ReasonAuthenticationRefused, "not sent to another host")
	fails(t, c, web.Request{URL: s.URL + "/file-url", Credentials: creds}, web.ReasonRedirected, "file")
	fails(t, c, web.Request{URL: s.URL + "/loop", Credentials: creds}, web.ReasonRedirected, "more than 5 times")
	fails(t, c, web.Request{URL: s.URL + "/nowhere", Credentials: creds}, web.ReasonRedirected, "without saying where")
	fails(t, c, web.Request{URL: s.URL + "/metadata", Credentials: creds}, web.ReasonAddressRefused, "metadata")
	if reported := append(other.Authorizations(), secure.Authorizations()...); len(reported) != 0 || other.Requests("") != 3 || secure.Requests("") != 1 {
		t.Errorf("the other servers got the credentials %q in %d and %d requests", reported, other.Requests(""), secure.Requests(""))
	}
	// Once for each of the last requests, and for each turn of the loop.
	if got := len(s.Authorizations()) - before; got != 5+6 {
		t.Errorf("the right server got the credentials %d times", got)
	}
	for _, h := range other.Headers() {
		if h.Get("Referer") != "" {
			t.Errorf("the other server got a Referer: %q", h.Get("Referer"))
		}
	}
}

// The client follows no redirect from https to http, with or without
// credentials.
func TestDowngrade(t *testing.T) {
	plain := webtest.Repository(t, webtest.Options{})
	s := webtest.Repository(t, webtest.Options{TLS: true, Handlers: map[string]http.HandlerFunc{"/x": webtest.Redirect(301, plain.URL+"/index.yaml")}})
	for _, c := range []web.Credentials{{}, secret} {
		fails(t, small(t), web.Request{URL: s.URL + "/x", Credentials: withSecret(s, c)}, web.ReasonRedirected, "from https to http")
	}
	if n := plain.Requests(""); n != 0 {
		t.Errorf("%d requests were made without TLS", n)
	}
}

func TestStatus(t *testing.T) {
	status := map[string]http.HandlerFunc{}
	for _, n := range []int{201, 204, 400, 401, 403, 404, 410, 418, 429, 500, 502, 503} {
		status[fmt.Sprint("/", n)] = webtest.Status(n)
	}
	status["/later"] = webtest.Status(429, "Retry-After: 70")
	status["/busy"] = webtest.Status(503, "Retry-After: "+time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
	status["/never"] = webtest.Status(503, "Retry-After: 99999999999999999999")
	status["/limited"] = webtest.Status(403, "X-RateLimit-Remaining: 0")
	s := webtest.Repository(t, webtest.Options{Handlers: status})
	tests := []struct {
		path, reason, text, withSecret string
	}{
		{"/201", web.ReasonRefused, "201", ""},
		{"/204", web.ReasonRefused, "204", ""},
		{"/400", web.ReasonRefused, "400", ""},
		{"/418", web.ReasonRefused, "418", ""},
		{"/401", web.ReasonAuthenticationRefused, "helmSecretName", "refuses the credentials"},
		{"/403", web.ReasonAuthenticationRefused, "helmRepoURLRegex", "refuses the credentials"},
		{"/404", web.ReasonNotFound, "or only for those", "does not exist"},
		{"/410", web.ReasonNotFound, "410", ""},
		{"/429", web.ReasonUnreachable, "for now", ""},
		{"/limited", web.ReasonUnreachable, "for now", ""},
		{"/500", web.ReasonUnreachable, "500 Internal Server Error", ""},
		{"/502", web.ReasonUnreachable, "502", ""},
		{"/503", web.ReasonUnreachable, "503", ""},
	}
	for _, c := range tests {
		fails(t, small(t), web.Request{URL: s.URL + c.path + "?signature=1"}, c.reason, c.text)
		if c.withSecret != "" {
			fails(t, small(t), web.Request{URL: s.URL + c.path, Credentials: secret}, c.reason, c.withSecret)
		}
	}
	for path, within := range map[string][2]time.Duration{"/later": {70 * time.Second, 70 * time.Second}, "/busy": {8 * time.Minute, 10 * time.Minute}, "/never": {5 * time.Second, time.Hour}, "/500": {5 * time.Second, 5 * time.Second}} {
		_, err := small(t).Get(t.Context(), web.Request{URL: s.URL + path}, &bytes.Buffer{})
		var wait *reconcile.RequeueAfter
		if !errors.As(err, &wait) || wait.After < within[0] || wait.After > within[1] {
			t.Errorf("%s: wait %v, want %v: %v", path, wait.After, within, err)
		}
	}
}
