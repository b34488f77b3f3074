package kube

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/test/dialcount"
)

// hostile is an API server that answers as a test wants, and counts what it
// could send.
func hostile(t *testing.T, answer func(w io.Writer, r *http.Request)) (url string, sent *atomic.Int64) {
	t.Helper()
	sent = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(counting{w, sent}, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, sent
}

type counting struct {
	io.Writer
	sent *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.sent.Add(int64(n))
	return n, err
}

func imported(t *testing.T, a kubeconfig.Access, p ImportPolicy) *Client {
	t.Helper()
	c, err := ConnectImported(Config{UserAgent: "test"}, a, p, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// only allows the one address at which the hostile servers listen.
func only(t *testing.T) ImportPolicy {
	t.Helper()
	p, err := address.Parse([]string{"127.0.0.1/32"})
	if err != nil {
		t.Fatal(err)
	}
	return ImportPolicy{Addresses: p}
}

func TestImportedAnswerIsBounded(t *testing.T) {
	block := strings.Repeat("x", 64<<10)
	cases := map[string]struct {
		why    string
		answer func(w io.Writer, r *http.Request)
		most   int64 // bytes that the server can send, with what lies in buffers
	}{
		"EndlessBody": {"it would fill the memory of all workspaces", func(w io.Writer, _ *http.Request) {
			_, err := io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"`)
			for err == nil {
				_, err = io.WriteString(w, block)
			}
		}, 32 << 20},
		"AnnouncedSize": {"nothing of it is read", func(w io.Writer, _ *http.Request) {
			w.(counting).Writer.(http.ResponseWriter).Header().Set("Content-Length", fmt.Sprint(1<<30))
			for _, err := io.WriteString(w, block); err == nil; {
				_, err = io.WriteString(w, block)
			}
		}, 32 << 20},
		"EndlessPages": {"each page is small", func(w io.Writer, _ *http.Request) {
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"continue":"more"},"items":[]}`)
		}, 1 << 20},
		"LargePages": {"each page is below the bound of one answer", func(w io.Writer, _ *http.Request) {
			_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMapList","metadata":{"continue":"more"},"items":[{"data":{"a":"`+
				strings.Repeat("x", 3<<20)+`"}}]}`)
		}, 64 << 20},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			url, sent := hostile(t, c.answer)
			client := imported(t, kubeconfig.Access{Server: url}, only(t))
			store := StoreOf[*corev1.ConfigMap](client)
			_, err := store.List(t.Context(), "", "a=b")
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: got %v", c.why, err)
			}
			if _, err := client.ListMeta(t.Context(), corev1.SchemeGroupVersion.WithKind("ConfigMap"), Watch{}); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: metadata: got %v", c.why, err)
			}
			err = store.Each(t.Context(), Watch{}, 1, func(*corev1.ConfigMap) error { return nil })
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s: each: got %v", c.why, err)
			}
			if n := sent.Load(); n > c.most {
				t.Errorf("%s: the server could send %d bytes", c.why, n)
			}
		})
	}
}

func TestImportedAnswersOfUsualSize(t *testing.T) {
	data := strings.Repeat("x", 1<<20)
	url, _ := hostile(t, func(w io.Writer, _ *http.Request) {
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"`+data+`"}}`)
	})
	store := StoreOf[*corev1.ConfigMap](imported(t, kubeconfig.Access{Server: url}, only(t)))
	for range 20 {
		got, err := store.Get(t.Context(), Key{Namespace: "a", Name: "a"})
		if err != nil || got.Data["a"] != data {
			t.Fatalf("a ConfigMap of 1 MiB: %v", err)
		}
	}
}

func TestImportedAddressesAreJudgedWhenDialled(t *testing.T) {
	refused, connections := dialcount.Listen(t, "127.0.0.2:0")
	_, port, err := net.SplitHostPort(refused)
	if err != nil {
		t.Fatal(err)
	}
	moved, _ := hostile(t, func(w io.Writer, r *http.Request) {
		to := "http://" + refused + r.URL.Path
		if strings.Contains(r.URL.Path, "/metadata-service/") {
			to = "http://169.254.169.254/latest/meta-data"
		}
		http.Redirect(w.(counting).Writer.(http.ResponseWriter), r, to, http.StatusTemporaryRedirect)
	})
	cases := map[string]struct {
		why       string
		access    kubeconfig.Access
		policy    ImportPolicy
		namespace string
		reason    string
	}{
		"Literal":    {why: "the kubeconfig names it", access: kubeconfig.Access{Server: "http://" + refused}, policy: only(t)},
		"Mapped":     {why: "IPv6 for the same", access: kubeconfig.Access{Server: "http://[::ffff:127.0.0.2]:" + port}, policy: only(t)},
		"Name":       {why: "a name may lead anywhere", access: kubeconfig.Access{Server: "http://localhost:" + port}},
		"Redirect":   {why: "the server chooses where to", access: kubeconfig.Access{Server: moved}, policy: only(t)},
		"ToMetadata": {why: "the machine's credentials are there", access: kubeconfig.Access{Server: moved}, policy: only(t), namespace: "metadata-service"},
		"Proxy":      {why: "the kubeconfig names the proxy, too", access: kubeconfig.Access{Server: "https://api.example.com", Proxy: "http://" + refused}, policy: only(t)},
		"SOCKS":      {why: "the kubeconfig names the proxy, too", access: kubeconfig.Access{Server: "https://api.example.com", Proxy: "socks5://" + refused}, policy: only(t)},
		"BehindProxy": {why: "the proxy would connect for us", policy: only(t),
			access: kubeconfig.Access{Server: "http://169.254.169.254", Proxy: moved}},
		"NoTLS": {why: "mode strict", access: kubeconfig.Access{Server: moved}, reason: ReasonPlainHTTP,
			policy: ImportPolicy{Addresses: address.WithLoopback(), TLSOnly: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.namespace == "" {
				c.namespace = "a"
			}
			if c.reason == "" {
				c.reason = address.ReasonRefused
			}
			_, err := StoreOf[*corev1.ConfigMap](imported(t, c.access, c.policy)).Get(t.Context(), Key{Namespace: c.namespace, Name: "a"})
			if reconcile.ReasonOf(err) != c.reason {
				t.Errorf("%s: got %v", c.why, err)
			}
		})
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("%d connections to an address that is refused", n)
	}
}
