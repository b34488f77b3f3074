package deploy

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
	"github.com/fleetworkspace/fleet/pkg/plan/report"
)

// Where things are: the server is the manager and the agent's own cluster in one.
const (
	agentNamespace = "agent"
	deploymentsAt  = "deployments"
)

// offline is an agent on an API server in memory whose loop does not run.
type offline struct {
	*testing.T
	*Reconciler
	server *kubetest.Server
	client *kube.Client
}

func newOffline(t *testing.T) *offline {
	t.Helper()
	s := kubetest.New(t)
	s.MakeNamespace(agentNamespace)
	s.MakeNamespace(deploymentsAt)
	c := s.Connect("agent")
	h, err := helm.Connect(helm.Config{REST: c.REST(), AgentNamespace: agentNamespace})
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	kept := store.New(c, agentNamespace)
	if err := kept.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := New(t.Context(), Config{Namespace: agentNamespace, Workers: 1, Helm: h, Store: kept, Log: logrus.NewEntry(log)})
	o := &offline{T: t, Reconciler: r, server: s, client: c}
	r.link.session.Store(&Session{
		Namespace:   deploymentsAt,
		Deployments: kube.NewListed[*fleet.BundleDeployment](c, kube.Watch{Namespace: deploymentsAt}, nil),
		Statuses:    kube.StoreOf[*fleet.BundleDeployment](c), Contents: kube.StoreOf[*fleet.Content](c),
		Secrets: kube.StoreOf[*corev1.Secret](c), ConfigMaps: kube.StoreOf[*corev1.ConfigMap](c),
	})
	return o
}

// deployment makes a BundleDeployment, and returns what a run of the loop knows of it.
func (o *offline) deployment(name string, change func(*fleet.BundleDeployment)) *snapshot {
	o.Helper()
	bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: deploymentsAt, Name: name}}
	if change != nil {
		change(bd)
	}
	made, err := kube.StoreOf[*fleet.BundleDeployment](o.client).Create(o.Context(), bd)
	if err != nil {
		o.Fatal(err)
	}
	s := &snapshot{name: name, session: o.link.session.Load(), bd: made, spec: made.Spec, labels: made.Labels, conflicts: &conflicts{}}
	s.wanted = release.Wanted{ID: release.ID{Namespace: "default", Name: name}}
	s.rec = store.Record{Key: store.Key{Name: name}, Spec: made.Spec}
	return s
}

// kept stores the record of a deployment.
func (o *offline) kept(s *snapshot) *snapshot {
	o.Helper()
	if err := o.records.Save(o.Context(), s.rec); err != nil {
		o.Fatal(err)
	}
	s.known = true
	return s
}

// recorded are the names of the deployments of which there is a record.
func (o *offline) recorded() []string {
	var out []string
	for _, rec := range o.records.All() {
		out = append(out, rec.Key.Name)
	}
	slices.Sort(out)
	return out
}

// answered reports whether an order was answered.
func (o *offline) answered(name, order string) bool {
	o.Helper()
	bd, err := kube.StoreOf[*fleet.BundleDeployment](o.client).Get(o.Context(), kube.Key{Namespace: deploymentsAt, Name: name})
	if err != nil {
		o.Fatal(err)
	}
	return report.Answered(bd, order)
}

// An attempt that cannot succeed is noted in the record and is not repeated; one that may
// succeed is repeated, and leaves nothing in the record.
func TestPermanentFailureIsNotRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		err       error
		permanent bool
	}{
		"Permanent": {reconcile.TerminalError(release.ReasonBadContent, errors.New("no chart")), true},
		"Passing":   {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffline(t)
			s := o.deployment("web", func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "s-1:x" })
			if err := o.failed(t.Context(), s, c.err); err != nil {
				t.Fatal(err)
			}
			if noted := s.rec.Failed != nil; noted != c.permanent || s.failure.Permanent != c.permanent || s.after > 0 == c.permanent {
				t.Errorf("noted %t, again after %s: %+v", noted, s.after, s.failure)
			}
		})
	}
}

// An order to remove one deployment is answered, and what the agent knows of the others
// stays.
func TestOrderForgetsOneDeployment(t *testing.T) {
	o := newOffline(t)
	o.kept(o.deployment("other", nil))
	s := o.kept(o.deployment("web", nil))
	s.wanted.Order = "o1"
	if err := o.withdrawals.acknowledge(t.Context(), s, release.Action{Verb: release.Acknowledge}); err != nil {
		t.Fatal(err)
	}
	if got := o.recorded(); !slices.Equal(got, []string{"other"}) || !o.answered("web", "o1") {
		t.Errorf("records of %v; answered: %t", got, o.answered("web", "o1"))
	}
}

// Where a record cannot be deleted, the order is not answered: it is carried out again.
func TestOrderIsAnsweredAfterItsRecord(t *testing.T) {
	o := newOffline(t)
	s := o.kept(o.deployment("web", nil))
	s.wanted.Order = "o1"
	o.server.Broken(1, kubetest.Match{Verb: "delete", Resource: "secrets"})
	for i := range 2 {
		err := o.withdrawals.acknowledge(t.Context(), s, release.Action{Verb: release.Acknowledge})
		if failed := i == 0; (err != nil) != failed || o.answered("web", "o1") == failed {
			t.Errorf("time %d: %v; answered: %t", i, err, o.answered("web", "o1"))
		}
	}
}

// An order is not answered while a release that the deployment made under another name is
// still there.
func TestOrderWaitsForFormerRelease(t *testing.T) {
	o := newOffline(t)
	s := o.deployment("web", nil)
	s.rec.Former = []release.ID{{Namespace: "default", Name: "before"}}
	s.failure = &report.Failure{Reason: "InstallFailed"} // the release before stays as long
	o.kept(s)
	s.wanted.Order = "o1"
	if err := o.withdrawals.acknowledge(t.Context(), s, release.Action{Verb: release.Acknowledge}); err != nil {
		t.Fatal(err)
	}
	if got := o.recorded(); !slices.Equal(got, []string{"web"}) || o.answered("web", "o1") {
		t.Errorf("records of %v; answered: %t", got, o.answered("web", "o1"))
	}
}

// An order removes the release that the deployment made, also where its options, and so the
// name of its release, have changed meanwhile.
func TestOrderRemovesWhatWasMade(t *testing.T) {
	made, asked := release.ID{Namespace: "shop", Name: "web"}, release.ID{Namespace: "till", Name: "web"}
	for name, c := range map[string]struct {
		known bool
		rec   release.ID
		want  release.ID
	}{
		"Moved":       {true, made, made},
		"NeverMade":   {true, release.ID{}, asked},
		"NotRecorded": {false, made, asked},
	} {
		s := &snapshot{known: c.known, rec: store.Record{Release: c.rec}, wanted: release.Wanted{ID: asked}}
		if got := installed(s); got != c.want {
			t.Errorf("%s: want %s, got %s", name, c.want, got)
		}
	}
}

// A payload is taken whole and verified, or not at all: what belongs to another version, is
// damaged, or is not there yet is waited for.
func TestPayloadIsVerified(t *testing.T) {
	values, others := []byte("a: 1"), []byte("a: 2")
	packed, err := content.Pack(content.Manifest{Resources: []fleet.BundleResource{{Name: "cm.yaml", Content: "kind: ConfigMap"}}})
	if err != nil {
		t.Fatal(err)
	}
	whole := packed.Contents()[0]
	damaged := whole.DeepCopy()
	damaged.Content = content.Compress([]byte("another"))
	secret := func(data []byte) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: deploymentsAt, Name: "web"}, Data: map[string][]byte{fleet.KeyValues: data}}
	}
	for name, c := range map[string]struct {
		content *fleet.Content
		secret  *corev1.Secret
		fault   func(*kubetest.Server)
		reason  string // of the wait; empty: it is taken
		after   time.Duration
	}{
		"Whole":          {content: whole, secret: secret(values)},
		"NoContent":      {secret: secret(values), reason: reasonNoContent, after: contentDelay},
		"Damaged":        {content: damaged, secret: secret(values), reason: content.ReasonDamaged, after: managerDelay},
		"NoValues":       {content: whole, reason: reasonValues, after: valuesDelay},
		"OthersValues":   {content: whole, secret: secret(others), reason: reasonValues, after: valuesDelay},
		"ContentsBroken": {content: whole, secret: secret(values), fault: func(s *kubetest.Server) { s.Broken(1, kubetest.Match{Verb: "get", Resource: "contents"}) }, reason: reasonManagerAway, after: managerDelay},
		"SecretsBroken":  {content: whole, secret: secret(values), fault: func(s *kubetest.Server) { s.Broken(1, kubetest.Match{Verb: "get", Resource: "secrets"}) }, reason: reasonManagerAway, after: managerDelay},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffline(t)
			if c.content != nil {
				if _, err := kube.StoreOf[*fleet.Content](o.client).Create(t.Context(), c.content.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			if c.secret != nil {
				if _, err := kube.StoreOf[*corev1.Secret](o.client).Create(t.Context(), c.secret.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			if c.fault != nil {
				c.fault(o.server)
			}
			s := o.deployment("web", func(bd *fleet.BundleDeployment) {
				bd.Spec.DeploymentID, bd.Spec.ValuesHash = whole.Name+":x", options.DeploymentValuesHash(values, nil)
			})
			p, err := o.releases.payloads.get(t.Context(), s)
			if c.reason == "" {
				if err != nil || string(p.values) != string(values) || !slices.Equal(o.recorded(), []string{"web"}) {
					t.Fatalf("want it taken and kept, got %q, %v, records of %v", p.values, err, o.recorded())
				}
				before := len(o.server.Requests())
				if again, err := o.releases.payloads.get(t.Context(), s); err != nil || string(again.values) != string(values) {
					t.Errorf("what is kept: %q, %v", again.values, err)
				}
				for _, r := range o.server.Requests()[before:] {
					if r.Namespace != agentNamespace {
						t.Errorf("the manager is asked for what is kept: %s", r)
					}
				}
				s.spec.ValuesHash = options.DeploymentValuesHash(others, nil)
				if _, err := o.releases.payloads.get(t.Context(), s); reconcile.ReasonOf(err) != reasonValues {
					t.Errorf("other values are those that are kept: %v", err)
				}
				return
			}
			var wait *reconcile.RequeueAfter
			if !errors.As(err, &wait) || reconcile.ReasonOf(err) != c.reason || wait.After != c.after {
				t.Errorf("want to wait %s for %s, got %v", c.after, c.reason, err)
			}
			if got := o.recorded(); len(got) > 0 {
				t.Errorf("kept: %s", strings.Join(got, ", "))
			}
		})
	}
}
