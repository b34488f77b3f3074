// Package alone tests agents whose manager is away, in all the ways in which a
// manager can be, and agents that connect only now and then.
package alone

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/alone/wire"
	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// TestMain lets many tests run at once, whatever the number of processors: they
// wait for most of their time.
func TestMain(m *testing.M) { os.Exit(harness.Parallel(m)) }

// A place is a site that is connected to its manager through a front, which
// speaks TLS, and a proxy in front of that.
type place struct {
	*harness.Site
	front    *wire.Front
	tcpProxy *wire.TCPProxy
}

// newPlace makes a place, and does not start its agent.
func newPlace(t *testing.T, hub *harness.Hub, name string) *place {
	t.Helper()
	p := &place{Site: harness.NewSite(t, hub, hub, name)}
	var err error
	p.front, err = wire.NewFront(hub.Cluster.REST())
	p.Must(err)
	t.Cleanup(p.front.Close)
	at, err := url.Parse(p.front.URL())
	p.Must(err)
	p.tcpProxy, err = wire.NewTCPProxy(at.Host)
	p.Must(err)
	t.Cleanup(p.tcpProxy.Close)
	p.credential()
	return p
}

// credential gives the agent a credential that leads through the proxy.
func (p *place) credential() {
	p.Helper()
	text, err := kube.Access{URL: p.tcpProxy.URL(), CA: p.front.CA(), Token: p.Token()}.Kubeconfig()
	p.Must(err)
	p.CredentialFor(text)
}

// contact waits until the agent says how it stands with its manager.
func (p *place) contact(what string, is func(map[string]string) bool) map[string]string {
	p.Helper()
	var data map[string]string
	p.Until("the agent says: "+what, func() bool {
		data = p.Contact()
		return is(data)
	})
	return data
}

// events are the reasons and texts of the events about the connection.
func (p *place) events() []string {
	p.Helper()
	list, err := p.Down.Client.EventsV1().Events(p.Namespace).List(p.Context(), metav1.ListOptions{})
	p.Must(err)
	var out []string
	for i := range list.Items {
		e := &list.Items[i]
		if e.Regarding.Name == "fleet-agent-contact" {
			out = append(out, e.Reason+" "+e.Note)
		}
	}
	return out
}

// reported waits for an event, and returns its text.
func (p *place) reported(reason string) string {
	p.Helper()
	text := ""
	p.Until("event "+reason, func() bool {
		for _, e := range p.events() {
			if strings.HasPrefix(e, reason+" ") {
				text = e
				return true
			}
		}
		return false
	})
	return text
}

// ready is the condition Ready of a deployment, as the manager knows it.
func (p *place) ready(name string) fleet.Condition {
	p.Helper()
	c := condition.Find(p.Deployment(name).Status.Conditions, fleet.ConditionReady)
	if c == nil {
		p.Fatalf("%s has no condition Ready", name)
	}
	return *c
}

// stamp is a time as a condition has it.
func (p *place) stamp(text string) time.Time {
	p.Helper()
	out, err := time.Parse(time.RFC3339, text)
	p.Must(err)
	return out
}

// cluster is the Cluster of the place.
func (p *place) cluster() *fleet.Cluster {
	p.Helper()
	c, err := kube.StoreOf[*fleet.Cluster](p.Hub.Admin).Get(p.Context(), kube.Key{Namespace: p.Workspace, Name: p.Name})
	p.Must(err)
	return c
}

// remove deletes a ConfigMap of the place.
func (p *place) remove(namespace, name string) {
	p.Helper()
	p.Must(kube.StoreOf[*corev1.ConfigMap](p.Down.Admin).Delete(p.Context(), kube.Key{Namespace: namespace, Name: name}, kube.Precondition{}))
}

// asked lists the requests of the place's agent to its manager since a moment.
func (p *place) asked(since time.Time) []harness.Request {
	p.Helper()
	list, err := p.Hub.Requests(since)
	p.Must(err)
	var out []harness.Request
	for _, r := range list {
		if strings.HasPrefix(r.User, fmt.Sprintf("system:serviceaccount:%s:", p.Deployments)) {
			out = append(out, r)
		}
	}
	return out
}

// files are those of a bundle with one ConfigMap a.
func files(value string) []string { return []string{"a.yaml", harness.ConfigMap("a", value)} }

// correcting puts drift back.
func correcting() fleet.BundleDeploymentOptions {
	return fleet.BundleDeploymentOptions{CorrectDrift: &fleet.CorrectDrift{Enabled: true}}
}
