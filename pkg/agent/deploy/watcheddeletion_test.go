package deploy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// referenceLabels are those that the reference's manager gives to a BundleDeployment.
var referenceLabels = map[string]string{fleet.LabelManaged: "true", fleet.LabelBundleName: "web", fleet.LabelCluster: "c1"}

// A deletion that the agent watches is an order under a manager that knows no other
// order, and under no other manager: there it is a mistake.
func TestWatchedDeletion(t *testing.T) {
	for name, c := range map[string]struct {
		why      string
		protocol int
		labels   map[string]string
		order    bool
	}{
		"Reference": {"the reference's manager deletes what is to go", 0, nil, true},
		"First":     {"a manager that gives orders has given none", 1, nil, false},
		"Ours":      {"the same", fleet.ProtocolVersion, nil, false},
		"WayBack":   {"the reference has written it, whatever the Cluster says", fleet.ProtocolVersion, referenceLabels, true},
		"OurShard":  {"ours has written it, beside the reference", 0, map[string]string{fleet.LabelBucket: "a1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := kube.Connect(kube.Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}})
			if err != nil {
				t.Fatal(err)
			}
			enqueued := 0
			d := &deletions{link: newLink(), records: records{store.New(client, "agent")}, enqueue: func(string) { enqueued++ }}
			d.link.mark.Store(&registration.Mark{ID: "m", Protocol: c.protocol})
			d.onDeleted(&Session{}, &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u", Labels: c.labels}})
			if noted := d.remove("web") != nil; noted != c.order || enqueued > 0 != c.order {
				t.Errorf("%s: noted %v, enqueued %d times", c.why, noted, enqueued)
			}
		})
	}
}
