package harness

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/cluster"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/pki"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// A ControlPlane is the API server of a Hub: a real one (Cluster), or one in memory
// (Memory).
type ControlPlane interface {
	Name() string
	URL() string
	CA() []byte         // PEM
	Kubeconfig() string // path of the administrator's kubeconfig
	REST() *rest.Config // the administrator's
}

// controllersEvery is how often an API server in memory does what controllers of a cluster
// do.
const controllersEvery = 100 * time.Millisecond

// A memory is an API server in memory that listens on loopback.
type memory struct {
	*kubetest.Server
	name, url, token, kubeconfig string
	port                         int
	ca                           []byte
	stop                         func() // may be called more than once
	pods                         bool   // of Deployments are there
}

// Memory starts an API server in memory (package kubetest) with service accounts and
// rights, which other processes reach as they reach a real one. It stops with the test. It
// validates no fields, and runs neither admission policies nor pods: a test that needs these
// takes Cluster.
func Memory(t testing.TB, name string) ControlPlane {
	t.Helper()
	return startMemory(t, &memory{name: name})
}

// MemoryWithPods is Memory with the ReplicaSets and pods of Deployments. The pods run
// nothing.
func MemoryWithPods(t testing.TB, name string) ControlPlane {
	t.Helper()
	return startMemory(t, &memory{name: name, pods: true})
}

func startMemory(t testing.TB, m *memory) ControlPlane {
	t.Helper()
	m.Server = kubetest.NewDistinct(t)
	must(t, m.start(t.TempDir(), 0))
	t.Cleanup(m.Stop)
	return m
}

// start lets the server listen on a port, on any free one where that is 0. It writes the
// kubeconfig to dir.
func (m *memory) start(dir string, number int) error {
	m.kubeconfig = filepath.Join(dir, m.name+".kubeconfig")
	m.ServeByDefinition()
	m.token = m.Guard(cluster.AdminUser)
	number, held, err := port.Hold(port.Loopback, number)
	if err != nil {
		return err
	}
	m.port, m.url = number, "https://"+net.JoinHostPort(port.Loopback, strconv.Itoa(number))
	stop, err := m.serve()
	if err != nil {
		return errors.Join(err, held.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); m.control(ctx) }()
	m.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		stop()
		_ = held.Close()
	})
	return os.WriteFile(m.kubeconfig, Kubeconfig(m.url, m.ca, m.token), 0o600)
}

// serve listens at the server's port until stop is called.
func (m *memory) serve() (stop func(), err error) {
	authority, err := pki.NewAuthority(m.name)
	if err != nil {
		return nil, err
	}
	m.ca = authority.Cert
	pair, err := authority.Server([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, err
	}
	listener, err := port.Listen(port.Loopback, m.port)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler: m.Handler(), TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return func() {
		m.Close() // ends the watches
		_ = server.Close()
	}, nil
}

// control does what controllers of a cluster do.
func (m *memory) control(ctx context.Context) {
	for ctx.Err() == nil {
		m.FillAccountTokens()
		m.AggregateRoles()
		m.CollectGarbage()
		m.RunWorkloads()
		if m.pods {
			kubetest.RunPods(m.Server)
		}
		select {
		case <-ctx.Done():
		case <-time.After(controllersEvery):
		}
	}
}

func (m *memory) Name() string       { return m.name }
func (m *memory) URL() string        { return m.url }
func (m *memory) Port() int          { return m.port }
func (m *memory) CA() []byte         { return m.ca }
func (m *memory) Kubeconfig() string { return m.kubeconfig }
func (m *memory) Stop()              { m.stop() }

// Admin is the administrator's entry of a kubeconfig.
func (m *memory) Admin() kubeconfig.Entry {
	return kubeconfig.Entry{Name: m.name, Server: m.url, CA: m.ca, Token: m.token}
}

// An API server in memory has no processes.
func (m *memory) Processes() []cluster.Child    { return nil }
func (m *memory) Deaths() <-chan *process.Death { return nil }
func (m *memory) Running() int                  { return 0 }

// REST returns the administrator's client configuration.
func (m *memory) REST() *rest.Config {
	return &rest.Config{Host: m.url, BearerToken: m.token, UserAgent: cluster.AdminUser, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: m.ca}}
}

// Real is the control plane of a Hub that is not in memory.
func (h *Hub) Real() *cluster.Cluster { return h.Cluster.(*cluster.Cluster) }

// Requests is RequestsOf for a Hub.
func (h *Hub) Requests(since time.Time) ([]Request, error) { return RequestsOf(h.Cluster, since) }

// RequestsOf reads what an API server has been asked since a moment: see ReadAudit.
func RequestsOf(c ControlPlane, since time.Time) ([]Request, error) {
	m, ok := c.(*memory)
	if !ok {
		return ReadAudit(c.Name(), c.(*cluster.Cluster).AuditLog(), since)
	}
	var out []Request
	for _, r := range m.Requests() {
		if r.At.Before(since) {
			continue
		}
		out = append(out, Request{
			Cluster: m.name, At: r.At, User: cmp.Or(r.By, cluster.AdminUser), As: r.User, Agent: r.UserAgent, Verb: r.Verb, Group: r.Kind.Group, Resource: r.Resource,
			Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name, Query: r.Query, Code: r.Code, Ending: r.Terminating, Body: r.Body,
		})
	}
	return out, nil
}

// MemoryHubs starts API servers in memory, and connects to them.
func MemoryHubs(t testing.TB, names ...string) []*Hub {
	t.Helper()
	var hubs []*Hub
	for _, name := range names {
		hubs = append(hubs, ConnectHub(t, Memory(t, name)))
	}
	return hubs
}

// processTB is the testing.TB of an API server in memory that several tests share: what it
// cannot do ends the process, as no one test is to blame.
type processTB struct{ testing.TB }

func (processTB) Helper()                        {}
func (processTB) Cleanup(func())                 {} // the shared fleet stops its control planes
func (processTB) Error(args ...any)              { panic(fmt.Sprint(args...)) }
func (processTB) Errorf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
func (processTB) Fatal(args ...any)              { panic(fmt.Sprint(args...)) }
