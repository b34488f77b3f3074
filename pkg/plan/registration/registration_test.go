package registration

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// noon is when everything in these tests happens.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }

func request(name, clientID string, made time.Duration) *fleet.ClusterRegistration {
	return &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet-default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: at(made),
		},
		Spec: fleet.ClusterRegistrationSpec{ClientID: clientID, ClientRandom: "random"},
	}
}

func granted(r *fleet.ClusterRegistration) *fleet.ClusterRegistration {
	r.Status.Granted = true
	return r
}

func aCluster(name, clientID string, made time.Duration) *fleet.Cluster {
	return &fleet.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: name, CreationTimestamp: at(made)},
		Spec:       fleet.ClusterSpec{ClientID: clientID},
	}
}

var manager = System{Namespace: fleet.NamespaceSystem, ManagerID: "abc123"}

func TestAcceptedLabels(t *testing.T) {
	cases := map[string]struct {
		why     string
		asked   map[string]string
		ignore  bool
		want    map[string]string
		dropped []string // beginnings
	}{
		"OwnLabels": {
			why:   "targeting by the labels of a site is what they are for",
			asked: map[string]string{"env": "prod", "example.com/site": "a1"},
			want:  map[string]string{"env": "prod", "example.com/site": "a1"},
		},
		"Reserved": {
			why: "a display name that an agent chose would make a clusterName target match it",
			asked: map[string]string{
				"management.cattle.io/cluster-display-name": "prod", "fleet.cattle.io/cluster-management": "true",
				"x.fleet.cattle.io/y": "1", "objectset.rio.cattle.io/hash": "1", "env": "dev",
			},
			want: map[string]string{"env": "dev"},
			dropped: []string{
				`"fleet.cattle.io/cluster-management"`, `"management.cattle.io/`, `"objectset.rio.cattle.io/hash"`, `"x.fleet.cattle.io/y"`,
			},
		},
		"CreatedByAgentPod": {
			why:   "the one reserved label that an agent may ask for",
			asked: map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-0"},
			want:  map[string]string{fleet.LabelCreatedByAgentPod: "fleet-agent-0"},
		},
		"LooksReserved": {
			why:   "another domain that merely ends alike is free",
			asked: map[string]string{"notfleet.cattle.io/x": "1", "fleet.cattle.io.example.com/x": "1"},
			want:  map[string]string{"notfleet.cattle.io/x": "1", "fleet.cattle.io.example.com/x": "1"},
		},
		"Invalid": {
			why:     "one bad label must not stop the registration",
			asked:   map[string]string{"good": "1", "bad value": "1", "worse": strings.Repeat("x", 64), "a/b/c": "1"},
			want:    map[string]string{"good": "1"},
			dropped: []string{`"a/b/c"`, `"bad value"`, `"worse"`},
		},
		"Ignored": {
			why:    "with ignoreClusterRegistrationLabels an agent decides nothing about targeting",
			asked:  map[string]string{"env": "prod"},
			ignore: true,
			want:   map[string]string{},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, dropped := AcceptedLabels(c.asked, c.ignore)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			if len(dropped) != len(c.dropped) {
				t.Fatalf("%s\nwant dropped %v, got %v", c.why, c.dropped, dropped)
			}
			for i, want := range c.dropped {
				if !strings.HasPrefix(dropped[i], want) {
					t.Errorf("%s\nwant %s first, got %s", c.why, want, dropped[i])
				}
			}
		})
	}
}

func TestAssign(t *testing.T) {
	const auto = "cluster-08f9d8eb5b7d" // of "really-random", as the reference names it
	elsewhere := aCluster("a", "really-random", 0)
	elsewhere.Namespace = "other"
	cases := map[string]struct {
		why      string
		request  *fleet.ClusterRegistration
		clusters []*fleet.Cluster
		existing string
		create   string
		refused  string
	}{
		"New": {why: "an unknown client gets a Cluster", request: request("r", "really-random", 0), create: auto},
		"SameClient": {
			why:      "the same client gets the same Cluster, whatever it is called",
			request:  request("r", "really-random", 0),
			clusters: []*fleet.Cluster{aCluster("other", "x", 0), aCluster("mine", "really-random", 0)},
			existing: "mine",
		},
		"OldestOfTwo": {
			why:      "two Clusters of one client must not take turns",
			request:  request("r", "really-random", 0),
			clusters: []*fleet.Cluster{aCluster("young", "really-random", time.Minute), aCluster("old", "really-random", 0)},
			existing: "old",
		},
		"OtherWorkspace": {
			why:      "clients of another workspace are others",
			request:  request("r", "really-random", 0),
			clusters: []*fleet.Cluster{elsewhere},
			create:   auto,
		},
		"NameTaken": {
			why:      "only the first 100 bytes of a clientID are in the name: another client's Cluster is not handed out",
			request:  request("r", "really-random", 0),
			clusters: []*fleet.Cluster{aCluster(auto, "other", 0)},
			refused:  "another clientID",
		},
		"NoClient": {why: "an empty clientID would match every Cluster without one", request: request("r", "", 0), refused: "no clientID"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Assign(c.request, c.clusters)
			existing := ""
			if got.Cluster != nil {
				existing = got.Cluster.Name
			}
			if existing != c.existing || got.Name != c.create || (c.refused == "") != (got.Refused == "") || !strings.Contains(got.Refused, c.refused) {
				t.Errorf("%s\ngot existing %q, create %q, refused %q", c.why, existing, got.Name, got.Refused)
			}
		})
	}
}

func TestHandOver(t *testing.T) {
	r, c := request("request-abcde", "client", 0), aCluster("c", "client", 0)
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "import", UID: "u1"}}
	h := HandOver(r, c, manager, token)
	h.Fill(c, "ns", manager, []byte("secret"))
	if h.Secret.Name != "c-8150d44f100d34d77e6d8589694d05645ec40ee2f47982eda19053e416662"[:63] {
		t.Errorf("the agent looks for another name than %s", h.Secret.Name)
	}
	want := []string{"clusterName", "clusterNamespace", "deploymentNamespace", "systemNamespace", "token"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(h.Secret.Data))); diff != "" {
		t.Error(diff)
	}
	rule := h.Role.Rules[0]
	if len(h.Role.Rules) != 1 || !slices.Equal(rule.Verbs, []string{"get"}) || !slices.Equal(rule.ResourceNames, []string{h.Secret.Name}) {
		t.Errorf("more than that one Secret: %+v", h.Role.Rules)
	}
	if s := h.RoleBinding.Subjects[0]; s.Name != "import-u1" || s.Namespace != "fleet-default" {
		t.Errorf("not the account of the token that was used: %+v", s)
	}
	h.OwnedBy(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: h.Secret.Name, UID: "u2"}})
	if h.Role.OwnerReferences[0].UID != "u2" || h.RoleBinding.OwnerReferences[0].Kind != "Secret" {
		t.Error("the right to read it must go with the Secret")
	}
	if ns, name, ok := RequestOf(h.Secret); !ok || ns+"/"+name != "fleet-default/request-abcde" {
		t.Errorf("made for %s/%s", ns, name)
	}
}

// Two workspaces may have requests of one name: their cluster-wide objects and
// those in the shared registration namespace must not meet.
func TestGrantsOfTwoWorkspacesDoNotMeet(t *testing.T) {
	a, b := request("request-abcde", "a", 0), request("request-abcde", "b", 0)
	b.Namespace, b.UID = "other", "uid-2"
	one, two := GrantAgent(a, aCluster("c", "a", 0), "ns1", manager), GrantAgent(b, aCluster("c", "b", 0), "ns2", manager)
	if one.Content.Name == two.Content.Name || one.ServiceAccount.Name == two.ServiceAccount.Name || one.Secret.Name == two.Secret.Name {
		t.Error("two requests share an object")
	}
}

func TestCredentialLeft(t *testing.T) {
	if got := CredentialLeft(noon, noon.Add(15*time.Minute)); got != 25*time.Minute {
		t.Errorf("want 25m, got %s", got)
	}
	if got := CredentialLeft(noon, noon.Add(time.Hour)); got != 0 {
		t.Errorf("want 0, got %s", got)
	}
}

func TestJudge(t *testing.T) {
	patient := map[string]time.Duration{"a": 10 * time.Minute, "b": time.Hour}
	s, ripe := OrphanTracker{}.Update(patient, noon)
	if len(ripe) != 0 {
		t.Errorf("the first look never deletes: %v", ripe)
	}
	s, ripe = s.Update(patient, noon.Add(10*time.Minute))
	if diff := cmp.Diff([]string{"a"}, ripe); diff != "" {
		t.Error(diff)
	}
	s, _ = s.Update(map[string]time.Duration{"b": time.Hour}, noon.Add(11*time.Minute))
	if _, ripe = s.Update(patient, noon.Add(30*time.Minute)); len(ripe) != 0 {
		t.Errorf("what was owned in between is counted from the start again: %v", ripe)
	}
}
