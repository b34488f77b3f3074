package tenants

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// An upgrade that would change an immutable field names the object and says what
// helps. helm.force does not help: it replaces an object, which keeps the field.
func TestImmutableFields(t *testing.T) {
	hub := harness.SharedHub(t)
	client, err := helm.Connect(helm.Config{REST: hub.Cluster.REST(), AgentNamespace: "agent-immutable"})
	if err != nil {
		t.Fatal(err)
	}
	deployment := func(app string) string { return strings.ReplaceAll(stuck, "a: b", "a: "+app) }
	service := func(ip string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: front}\nspec: {clusterIP: " + ip + ", ports: [{port: 80}]}\n"
	}
	cases := map[string]struct{ before, after, object string }{
		"deployment": {deployment("web"), deployment("other"), "Deployment deployment/web in a.yaml: spec.selector: "},
		"job":        {job, strings.Replace(job, "image: ", "image: another-", 1), "Job job/"},
		"service":    {service(`""`), service("%s"), "Service service/front in a.yaml: spec.clusterIP"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := &port{T: t, Client: client, hub: hub, name: name}
			p.must(p.Install(p.Context(), p.deployment(fleet.BundleDeploymentOptions{}, "a.yaml", c.before)))
			if front, err := hub.Client.CoreV1().Services(name).Get(p.Context(), "front", metav1.GetOptions{}); err == nil {
				c.after = fmt.Sprintf(c.after, netip.MustParseAddr(front.Spec.ClusterIP).Next())
			}
			for _, force := range []bool{false, true} {
				err := p.Upgrade(p.Context(), p.deployment(with(fleet.HelmOptions{Force: force}), "a.yaml", c.after))
				p.fails(err, release.ReasonImmutable, c.object, "delete the object or give it another name")
			}
		})
	}
}
