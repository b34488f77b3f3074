package gittest

import (
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// An HTTPServer serves the repositories below a directory, each at its path.
type HTTPServer struct {
	*httptest.Server

	mu       sync.Mutex
	first    func(w http.ResponseWriter, r *http.Request) (done bool)
	requests []string
}

// Intercept lets f see every request from now on, and answer it or not. A nil
// f ends that.
func (s *HTTPServer) Intercept(f func(w http.ResponseWriter, r *http.Request) (done bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first = f
}

// Backend returns git's own HTTP server for the repositories below root.
func Backend(t testing.TB, root string) http.Handler {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatalf("git --exec-path: %v", err)
	}
	return &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull},
		Stderr: io.Discard,
	}
}

// ServeHTTP serves the repositories below root, without TLS.
func ServeHTTP(t testing.TB, root string) *HTTPServer {
	t.Helper()
	return serve(t, root, (*httptest.Server).Start)
}

// ServeTLS serves the repositories below root with a certificate of an unknown CA; that
// CA is in Certificate().
func ServeTLS(t testing.TB, root string) *HTTPServer {
	t.Helper()
	return serve(t, root, (*httptest.Server).StartTLS)
}

func serve(t testing.TB, root string, start func(*httptest.Server)) *HTTPServer {
	t.Helper()
	backend := Backend(t, root)
	s := &HTTPServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		first := s.first
		s.mu.Unlock()
		if first == nil || !first(w, r) {
			backend.ServeHTTP(w, r)
		}
	}))
	s.Config.ErrorLog = discardLog()
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

// Requests returns the requests so far, "METHOD path" each.
func (s *HTTPServer) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

// BasicAuth refuses every request without this user and password.
func BasicAuth(user, password string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if u, p, _ := r.BasicAuth(); u == user && p == password {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "no", http.StatusUnauthorized)
		return true
	}
}

// PEM returns the server's certificate in the form of a CA bundle.
func (s *HTTPServer) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// An SSHServer runs git-upload-pack and git-receive-pack for clients that hold its client
// key.
type SSHServer struct {
	Addr       string // host:port
	ClientKey  []byte // PEM, accepted by the server
	KnownHosts []byte // the line for the server's own key

	mu     sync.Mutex
	refuse string
}

// Refuse makes the server answer every push with these words from now on, as hosts do
// for a key that may only read. An empty text ends that.
func (s *SSHServer) Refuse(words string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = words
}

// refusal returns the words with which a command is refused, or nothing.
func (s *SSHServer) refusal(command string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.HasPrefix(command, "git-receive-pack") {
		return s.refuse
	}
	return ""
}

// ServeSSH serves the repositories below root as ssh://git@Addr/path.
func ServeSSH(t testing.TB, root string) *SSHServer {
	t.Helper()
	hostSigner, _ := newKey(t)
	clientSigner, clientPEM := newKey(t)
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(clientSigner.PublicKey().Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	cfg.AddHostKey(hostSigner)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	addr := listener.Addr().String()
	line := knownhosts.Line([]string{knownhosts.Normalize(addr)}, hostSigner.PublicKey())
	s := &SSHServer{Addr: addr, ClientKey: clientPEM, KnownHosts: []byte(line + "\n")}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serveConn(conn, cfg, root)
		}
	}()
	return s
}

// NewKey returns a fresh private key, PEM.
func NewKey(t testing.TB) []byte {
	t.Helper()
	_, data := newKey(t)
	return data
}

func newKey(t testing.TB) (ssh.Signer, []byte) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

func (s *SSHServer) serveConn(conn net.Conn, cfg *ssh.ServerConfig, root string) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, cfg)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		if c.ChannelType() != "session" {
			_ = c.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go s.serveSession(channel, requests, root)
	}
}

func (s *SSHServer) serveSession(channel ssh.Channel, requests <-chan *ssh.Request, root string) {
	defer channel.Close()
	for req := range requests {
		var payload struct{ Command string }
		if req.Type != "exec" || ssh.Unmarshal(req.Payload, &payload) != nil {
			_ = req.Reply(false, nil)
			continue
		}
		_ = req.Reply(true, nil)
		if words := s.refusal(payload.Command); words != "" {
			_, _ = io.WriteString(channel.Stderr(), words+"\n")
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{1}))
			return
		}
		// A shell splits the command, as with sshd.
		cmd := exec.Command("sh", "-c", strings.Replace(payload.Command, "'/", "'"+root+"/", 1))
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull)
		cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
		stdin, err := cmd.StdinPipe() // not cmd.Stdin: the command may end before its input does
		if err != nil {
			return
		}
		go func() {
			_, _ = io.Copy(stdin, channel)
			_ = stdin.Close()
		}()
		status := uint32(0)
		if err := cmd.Run(); err != nil {
			status = 128
		}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}
