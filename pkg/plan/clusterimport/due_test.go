package clusterimport

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestDue(t *testing.T) {
	offer := Offer{URL: "https://new", CA: []byte("ca"), TLSMode: "strict"}
	record := func(change func(*Record)) *Record {
		r := &Record{Terms: offer.Terms(), Since: start, Namespace: "cattle-fleet-system", Generation: 2}
		if change != nil {
			change(r)
		}
		return r
	}
	cases := map[string]struct {
		why    string
		facts  Facts
		want   Need
		reason string // part of it
	}{
		"Never":    {why: "a new Cluster", facts: Facts{}, want: Now, reason: "no agent"},
		"Settled":  {why: "nothing has changed", facts: Facts{Record: record(nil), Arrived: true}, want: None},
		"OnItsWay": {why: "the agent has its token and time", facts: Facts{Record: record(nil), Token: true}, want: None},
		"Raised":   {why: "a person asks", facts: Facts{Record: record(func(r *Record) { r.Generation = 1 }), Arrived: true}, want: Now, reason: "redeployAgentGeneration is 2"},
		"Lowered":  {why: "any other number asks", facts: Facts{Record: record(func(r *Record) { r.Generation = 3 }), Arrived: true}, want: Now},
		"Moved":    {why: "a person asks", facts: Facts{Record: record(func(r *Record) { r.Namespace = "elsewhere" }), Arrived: true}, want: Now, reason: "namespace"},
		"URL":      {why: "many clusters have it", facts: Facts{Record: record(func(r *Record) { r.URL = "https://old" }), Arrived: true}, want: InTurn, reason: `"https://new", the agent was told "https://old"`},
		"CA":       {why: "many clusters have it", facts: Facts{Record: record(func(r *Record) { r.CAHash = "x" }), Arrived: true}, want: InTurn, reason: "certificate"},
		"TLSMode":  {why: "many clusters have it", facts: Facts{Record: record(func(r *Record) { r.TLSMode = "system-store" }), Arrived: true}, want: InTurn, reason: "agentTLSMode"},
		"WishTakenBack": {
			why:   "the agent would adopt what was made, and leave in it what it does not know of",
			facts: Facts{Record: record(func(r *Record) { r.Own = "a" }), Own: "b", Arrived: true}, want: Recreate, reason: "has changed",
		},
		"WishDeployed": {
			why:   "the agent knows what it has deployed, and takes that back itself",
			facts: Facts{Record: record(nil), Own: "b", Arrived: true}, want: None,
		},
		"WishUnmanaged": {
			why:   "no manager updates this agent",
			facts: Facts{Record: record(func(r *Record) { r.Own = "a" }), Arrived: true}, want: None,
		},
		"LostForGood": {
			why:   "nothing that the agent has lets it register",
			facts: Facts{Record: record(nil)}, want: Now, reason: "token is gone",
		},
		"SecretGone": {why: "Rancher deletes and makes it again", facts: Facts{Record: record(func(r *Record) { r.URL = "https://old" }), Arrived: true, Offer: &Offer{}}, want: None, reason: "keeps"},
		"KeysGone": {
			why:   "the local Secret has no address for a moment; the settings must not be taken for it",
			facts: Facts{Record: record(func(r *Record) { r.URL, r.FromSecret = "https://own", true }), Arrived: true}, want: None, reason: "Secret does not say",
		},
		"KeysChanged": {
			why:   "its own Secret says so",
			facts: Facts{Record: record(func(r *Record) { r.FromSecret = true }), Arrived: true, Offer: &Offer{URL: "https://own", TLSMode: "strict", FromSecret: true}}, want: InTurn,
		},
		"TakenOver": {
			why:   "a Cluster that the reference has imported is left as it is, whether its agent says where it lives or not",
			facts: Facts{Record: &Record{Terms: offer.Terms(), Generation: 2}, Arrived: true}, want: None,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := c.facts
			f.Cluster = &fleet.Cluster{Spec: fleet.ClusterSpec{RedeployAgentGeneration: 2}}
			f.Namespace = "cattle-fleet-system"
			if f.Offer == nil {
				f.Offer = &offer
			}
			got, reason := Due(f)
			if got != c.want || !strings.Contains(reason, c.reason) || reason == "" {
				t.Errorf("%s: got %v, %q", c.why, got, reason)
			}
			f.Cluster.Status.AgentConfigChanged = true
			if got, _ := Due(f); got != Now {
				t.Error("status.agentConfigChanged always asks for it")
			}
		})
	}
}

// What stands in the annotation is what was done; rancher/fleet's status counts
// where there is no annotation.
func TestRecord(t *testing.T) {
	r := Record{
		Terms: Terms{URL: "https://x", CAHash: HashOf([]byte("ca")), TLSMode: "strict"}, Since: start, Namespace: "a",
		AdoptFrom: "b", Generation: 3, Secret: "u/1", FromSecret: true, WasOnline: true, UID: "u", Own: "o",
	}
	noted := r.Annotate(&fleet.Cluster{})
	if diff := cmp.Diff(&r, RecordOf(noted)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	three := int64(3)
	old := &fleet.Cluster{Status: fleet.ClusterStatus{
		AgentDeployedGeneration: &three, AgentMigrated: true, CattleNamespaceMigrated: true, AgentNamespaceMigrated: true,
		APIServerURL: "https://x", APIServerCAHash: r.CAHash, AgentTLSMode: "strict",
	}}
	got := RecordOf(old)
	if got == nil || !got.MadeByRancherFleet() || got.Terms != r.Terms || got.Generation != 3 {
		t.Errorf("of the reference's status: %+v", got)
	}
	r.NoteStatus(&noted.Status)
	if s := noted.Status; *s.AgentDeployedGeneration != 3 || !s.AgentMigrated || s.APIServerURL != "https://x" || s.AgentTLSMode != "strict" {
		t.Errorf("status %+v", s)
	}
	old.Status.AgentMigrated = false
	if RecordOf(old) != nil {
		t.Error("an import of the reference that was not finished is none")
	}
	if RecordOf(&fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationImported: "{"}}}) != nil {
		t.Error("an unreadable annotation counts as none")
	}
}

// The digest is rancher/fleet's: SHA-224 of the JSON of the bytes, so of base64
// in quotes. Calculated with: printf '"UEVN"' | sha224sum.
func TestHashOf(t *testing.T) {
	if got, want := HashOf([]byte("PEM")), "e3361e574259d8d3217735d9f05a2bbf27f753f261f321633df3109a"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := HashOf(nil), "a7408a8b23aff882d8b95165eb24c3a6b519468539eb2b3072f529cb"; got != want { // printf null | sha224sum
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestArrived(t *testing.T) {
	request := func(at time.Time, granted bool) *fleet.ClusterRegistration {
		return &fleet.ClusterRegistration{
			ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at)}, Status: fleet.ClusterRegistrationStatus{Granted: granted},
		}
	}
	r := Record{Since: start}
	for name, c := range map[string]struct {
		requests []*fleet.ClusterRegistration
		want     bool
	}{
		"None":      {nil, false},
		"Before":    {[]*fleet.ClusterRegistration{request(start.Add(-time.Second), true)}, false},
		"Waiting":   {[]*fleet.ClusterRegistration{request(start.Add(time.Second), false)}, false},
		"SameTime":  {[]*fleet.ClusterRegistration{request(start, true)}, true},
		"OldAndNew": {[]*fleet.ClusterRegistration{request(start.Add(-time.Hour), true), request(start.Add(time.Second), true)}, true},
	} {
		if got := r.AgentRegistered(c.requests); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestMayUse(t *testing.T) {
	cluster := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c1", Labels: map[string]string{fleet.LabelManagementCluster: "c-m-1"}},
		Spec: fleet.ClusterSpec{KubeConfigSecret: "c1-kubeconfig"}}
	secret := func(namespace string, annotations map[string]string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: namespace, Name: "c1-kubeconfig", Annotations: annotations}
	}
	proof := Proof{Secret: "c1-kubeconfig", Cluster: "c-m-1", Workspace: "team-a"}
	cases := map[string]struct {
		why    string
		secret *metav1.ObjectMeta
		proof  Proof
		want   bool
	}{
		"Own":        {why: "the usual place", secret: secret("team-a", nil), want: true},
		"Unassigned": {why: "else every workspace could take over every cluster of fleet-default", secret: secret("fleet-default", nil)},
		"Meant":      {why: "the annotations of the Secret say so", secret: secret("fleet-default", map[string]string{fleet.AnnotationCluster: "c1", fleet.AnnotationClusterNamespace: "team-a"}), want: true},
		"MeantOther": {why: "it is for another one", secret: secret("fleet-default", map[string]string{fleet.AnnotationCluster: "c1", fleet.AnnotationClusterNamespace: "team-b"})},
		"Rancher":    {why: "Rancher has moved the cluster to this workspace", secret: secret("fleet-default", nil), proof: proof, want: true},
		"OtherSecret": {
			why: "it is the Secret of another cluster", secret: secret("fleet-default", nil),
			proof: Proof{Secret: "c2-kubeconfig", Cluster: "c-m-1", Workspace: "team-a"},
		},
		"OtherCluster":   {why: "the label of the Cluster can be forged, the management Cluster cannot", secret: secret("fleet-default", nil), proof: Proof{Secret: "c1-kubeconfig", Cluster: "c-m-2", Workspace: "team-a"}},
		"OtherWorkspace": {why: "Rancher has it elsewhere", secret: secret("fleet-default", nil), proof: Proof{Secret: "c1-kubeconfig", Cluster: "c-m-1", Workspace: "team-b"}},
		"Nothing":        {why: "no names are no proof", secret: secret("fleet-default", nil), proof: Proof{Secret: "c1-kubeconfig", Workspace: "team-a"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := MayUse(cluster, c.secret, c.proof)
			if (err == nil) != c.want {
				t.Errorf("%s: got %v", c.why, err)
			}
			if err != nil && (reconcile.ReasonOf(err) != ReasonSecretForbidden || !reconcile.IsRequeue(err)) {
				t.Errorf("not an error of its own, that is looked at again: %v", err)
			}
			foreign := cluster.DeepCopy()
			foreign.Labels = nil
			if err := MayUse(foreign, secret("fleet-default", nil), c.proof); !reconcile.IsTerminal(err) {
				t.Errorf("a Cluster that is none of Rancher's has to be changed: %v", err)
			}
		})
	}
}

// Members of a workspace cannot find out by a Cluster of theirs which Secrets there
// are elsewhere, and cannot use them; Rancher may leave a kubeconfig where it is.
func TestMayRead(t *testing.T) {
	cluster := func(in string) *fleet.Cluster {
		return &fleet.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "c1", Labels: map[string]string{fleet.LabelManagementCluster: "c-m-1"}},
			Spec:       fleet.ClusterSpec{KubeConfigSecret: "c1-kubeconfig", KubeConfigSecretNamespace: in},
		}
	}
	for in, want := range map[string]bool{"": true, "b": true, "fleet-local": true, "fleet-default": true, "cattle-fleet-system": true,
		"cattle-fleet-clusters-system": true, "fleet-system": true, "cluster-x": true, "a": false, "kube-system": false, "cluster": false} {
		if err := MayRead(cluster(in), Proof{}); (err == nil) != want {
			t.Errorf("namespace %q: %v", in, err)
		}
		if got := NamespaceOfSecret(cluster(in)); in != "" && got != in || in == "" && got != "b" {
			t.Errorf("namespace %q: %q", in, got)
		}
	}
	for name, c := range map[string]struct {
		why   string
		proof Proof
		want  bool
	}{
		"Moved":          {why: "it was provisioned in a, and Rancher has it in b now", proof: Proof{Secret: "c1-kubeconfig", Cluster: "c-m-1", Workspace: "b"}, want: true},
		"OtherSecret":    {why: "the provisioning Cluster has another Secret", proof: Proof{Secret: "c2-kubeconfig", Cluster: "c-m-1", Workspace: "b"}},
		"OtherCluster":   {why: "the provisioning Cluster there is another cluster", proof: Proof{Secret: "c1-kubeconfig", Cluster: "c-m-2", Workspace: "b"}},
		"OtherWorkspace": {why: "Rancher has the cluster elsewhere", proof: Proof{Secret: "c1-kubeconfig", Cluster: "c-m-1", Workspace: "c"}},
		"Nothing":        {why: "no names are no proof", proof: Proof{Workspace: "b"}},
	} {
		if err := MayRead(cluster("a"), c.proof); (err == nil) != c.want {
			t.Errorf("%s: %s: %v", name, c.why, err)
		}
	}
}

func TestForeign(t *testing.T) {
	own := Mark{Manager: "m1", Workspace: "w", Cluster: "c"}
	object := func(manager, workspace, cluster string) *metav1.ObjectMeta {
		o := &metav1.ObjectMeta{Labels: map[string]string{}, Annotations: map[string]string{}}
		if manager != "" {
			o.Labels[fleet.LabelManagerID] = manager
		}
		if cluster != "" {
			o.Annotations[fleet.AnnotationCluster], o.Annotations[fleet.AnnotationClusterNamespace] = cluster, workspace
		}
		return o
	}
	cases := map[string]struct {
		why   string
		have  *metav1.ObjectMeta
		known bool
		want  string
	}{
		"Ours":            {why: "made by an import", have: object("m1", "w", "c")},
		"OlderOurs":       {why: "made by this manager before it named the Cluster", have: object("m1", "", "")},
		"Unlabelled":      {why: "another client made it", have: object("", "", ""), want: "not made by this manager"},
		"ChartOfOurs":     {why: "the agent beside it is ours: installed by its chart, or by the reference", have: object("", "", ""), known: true},
		"OtherManager":    {why: "an agent of another manager", have: object("m2", "w", "c"), known: true, want: "manager m2"},
		"OtherCluster":    {why: "two Clusters that lead to the same place", have: object("m1", "w", "d"), known: true, want: "Cluster w/d"},
		"OtherWorkspace":  {why: "the same name elsewhere", have: object("m1", "v", "c"), want: "Cluster v/c"},
		"OthersWithClust": {why: "another manager with the same names", have: object("m2", "w", "c"), want: "manager m2"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := own.ForeignOwner(c.have, c.known)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: got %q", c.why, got)
			}
		})
	}
	moved := Mark{Manager: "m1", Workspace: "w", Cluster: "c", Former: []string{"v/c"}}
	for name, c := range map[string]struct {
		why    string
		have   *metav1.ObjectMeta
		ours   bool
		former string
	}{
		"Before":       {why: "the Cluster has moved, and its agent stays where it is", have: object("m1", "v", "c"), ours: true, former: "v/c"},
		"Ours":         {why: "it was imported already", have: object("m1", "w", "c"), ours: true},
		"Elsewhere":    {why: "that one has not moved", have: object("m1", "u", "c")},
		"OtherManager": {why: "another manager with the same names", have: object("m2", "v", "c")},
	} {
		if got := moved.ForeignOwner(c.have, false); (got == "") != c.ours {
			t.Errorf("%s: %s: got %q", name, c.why, got)
		}
		if got := moved.FormerOf(c.have); got != c.former {
			t.Errorf("%s: %s: former is %q", name, c.why, got)
		}
	}
	marked := &metav1.ObjectMeta{Labels: own.Labels(), Annotations: own.Annotations()}
	if own.ForeignOwner(marked, false) != "" {
		t.Error("a mark is not known again")
	}
}

func TestAccountOf(t *testing.T) {
	token := func(payload string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + ".sig"
	}
	want := Account{Namespace: "n", Name: "a", UID: "u"}
	for name, c := range map[string]struct {
		token string
		want  Account
	}{
		"Secret":  {token(`{"kubernetes.io/serviceaccount/namespace":"n","kubernetes.io/serviceaccount/service-account.name":"a","kubernetes.io/serviceaccount/service-account.uid":"u"}`), want},
		"Bound":   {token(`{"kubernetes.io":{"namespace":"n","serviceaccount":{"name":"a","uid":"u"}}}`), want},
		"Opaque":  {"token-abc", Account{}},
		"Garbage": {"a.b.c", Account{}},
		"Other":   {token(`{"sub":"me"}`), Account{}},
	} {
		if got := AccountOf(c.token); got != c.want {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
