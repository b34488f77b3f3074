package registration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// A cluster is in under another name where a Cluster has the clientID of its agent.
func TestInstalled(t *testing.T) {
	named := func(name, clientID string) *fleet.Cluster {
		return &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "w", Name: name}, Spec: fleet.ClusterSpec{ClientID: clientID}}
	}
	config := func(text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{fleet.KeyConfig: text}}
	}
	cases := map[string]struct {
		config   *corev1.ConfigMap
		clusters []*fleet.Cluster
		want     string
	}{
		"OwnClientID":     {config: config("clientID: c3-of-mine\n"), clusters: []*fleet.Cluster{named("c1", "x"), named("c3", "c3-of-mine")}, want: "c3"},
		"UID":             {config: config("{}"), clusters: []*fleet.Cluster{named("c3", "uid")}, want: "c3"},
		"WithoutAgent":    {clusters: []*fleet.Cluster{named("c3", "uid")}, want: "c3"},
		"UIDBesideOwn":    {config: config("clientID: mine"), clusters: []*fleet.Cluster{named("c3", "uid")}, want: "c3"},
		"ThisName":        {config: config("clientID: mine"), clusters: []*fleet.Cluster{named("c5", "mine")}},
		"OtherManager":    {config: config("clientID: mine"), clusters: []*fleet.Cluster{named("c3", "theirs")}},
		"WithoutClientID": {config: config("clientID: ''"), clusters: []*fleet.Cluster{named("c3", "")}},
		"Unreadable":      {config: config(": ["), clusters: []*fleet.Cluster{named("c3", "uid")}, want: "c3"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if joined := ReadInstalled(c.config, nil, "uid").JoinedAs(c.clusters, types.NamespacedName{Namespace: "w", Name: "c5"}); joined != nil {
				got = joined.Name
			}
			if got != c.want {
				t.Errorf("want %q, got %q", c.want, got)
			}
		})
	}
	secret := &corev1.Secret{Data: map[string][]byte{"clusterNamespace": []byte("w"), "clusterName": []byte("c3")}}
	if got := ReadInstalled(nil, secret, "uid").Cluster.String(); got != "w/c3" {
		t.Errorf("want the Cluster that it has registered as, got %s", got)
	}
}
