package harness

import (
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
)

// An Order is what a test, as the manager, wants to be deployed.
type Order struct {
	Files   []string // names and texts in turns
	Options fleet.BundleDeploymentOptions
	Values  map[string]any                // of Helm
	Repo    string                        // "repo-<name>" where empty
	Change  func(*fleet.BundleDeployment) // before it is written
}

// Order writes content, values and deployment, as a manager does. What says no
// namespace goes to the one that Home names.
func (s *Site) Order(name string, o Order) *fleet.BundleDeployment {
	s.Helper()
	if o.Options.DefaultNamespace == "" && o.Options.TargetNamespace == "" {
		o.Options.DefaultNamespace = s.Home(name)
	}
	if o.Values != nil {
		helm := fleet.HelmOptions{}
		if o.Options.Helm != nil {
			helm = *o.Options.Helm
		}
		helm.Values = &fleet.GenericMap{Data: o.Values}
		o.Options.Helm = &helm
	}
	id := s.content(o)
	stripped, values, err := options.SplitValues(o.Options)
	s.Must(err)
	if values != nil {
		_, err := kube.StoreOf[*corev1.Secret](s.Hub.Admin).Apply(s.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Deployments, Name: name}, Type: fleet.SecretTypeBundleDeployment,
			Data: map[string][]byte{fleet.KeyValues: values, fleet.KeyStagedValues: values},
		})
		s.Must(err)
	}
	return CreateOrPatch(s.TB, s.Hub.Admin, s.blank(name, o.Repo), func(bd *fleet.BundleDeployment) {
		Want(bd, id, stripped, values)
		if o.Change != nil {
			o.Change(bd)
		}
	})
}

// Want lets a BundleDeployment ask for a version: its id, its options without their
// values, and these.
func Want(bd *fleet.BundleDeployment, id string, o fleet.BundleDeploymentOptions, values []byte) {
	bd.Spec.Options, bd.Spec.DeploymentID = o, id
	bd.Spec.StagedOptions, bd.Spec.StagedDeploymentID = o, id
	bd.Spec.ValuesHash = options.DeploymentValuesHash(values, values)
	bd.Spec.CorrectDrift = o.CorrectDrift
}

// Home is the namespace of a deployment that names none.
func (s *Site) Home(name string) string { return s.Prefix + name }

// content writes the Content of an order and returns the deployment id.
func (s *Site) content(o Order) string {
	s.Helper()
	m := content.Manifest{}
	for i := 0; i < len(o.Files); i += 2 {
		m.Resources = append(m.Resources, fleet.BundleResource{Name: o.Files[i], Content: o.Files[i+1]})
	}
	c, err := content.New(m)
	s.Must(err)
	if _, err := kube.StoreOf[*fleet.Content](s.Hub.Admin).Create(s.Context(), c); err != nil && !kube.IsExists(err) {
		s.Fatal(err)
	}
	id, err := options.DeploymentID(content.ID(m), o.Options)
	s.Must(err)
	return id
}

func (s *Site) blank(name, repo string) *fleet.BundleDeployment {
	if repo == "" {
		repo = "repo-" + name
	}
	return &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Deployments, Name: name, Labels: map[string]string{
		fleet.LabelBundleName: name, fleet.LabelBundleNamespace: s.Workspace, fleet.LabelRepoName: repo, fleet.LabelCommit: "0123456789abcdef",
	}}}
}

func (s *Site) bds() *kube.Store[*fleet.BundleDeployment] {
	return kube.StoreOf[*fleet.BundleDeployment](s.Hub.Admin)
}

// Deployment reads a BundleDeployment, which must exist.
func (s *Site) Deployment(name string) *fleet.BundleDeployment {
	s.Helper()
	bd, err := s.bds().Get(s.Context(), kube.Key{Namespace: s.Deployments, Name: name})
	s.Must(err)
	return bd
}

// DeleteDeployment deletes a BundleDeployment, as no manager of ours does without
// an answer.
func (s *Site) DeleteDeployment(name string) {
	s.Helper()
	s.Must(s.bds().Delete(s.Context(), kube.Key{Namespace: s.Deployments, Name: name}, kube.Precondition{}))
}

// State waits until a deployment is in a state, and returns it.
func (s *Site) State(name string, want fleet.BundleState) *fleet.BundleDeployment {
	s.Helper()
	var bd *fleet.BundleDeployment
	ok := poll(siteLimit, func() bool {
		bd = s.Deployment(name)
		c := condition.Find(bd.Status.Conditions, fleet.ConditionReady)
		return c != nil && c.ObservedGeneration == bd.Generation && summary.State(bd, "") == want
	})
	if !ok {
		text, _ := yaml.Marshal(bd.Status)
		s.Fatalf("%s is %s, want %s:\n%s", name, summary.State(bd, ""), want, text)
	}
	return bd
}

// Says waits until a condition of a deployment has a reason, and a text in its
// message.
func (s *Site) Says(name, kind, reason, text string) *fleet.BundleDeployment {
	s.Helper()
	var bd *fleet.BundleDeployment
	ok := poll(siteLimit, func() bool {
		bd = s.Deployment(name)
		c := condition.Find(bd.Status.Conditions, kind)
		return c != nil && c.Reason == reason && strings.Contains(c.Message, text)
	})
	if !ok {
		list, _ := yaml.Marshal(bd.Status.Conditions)
		s.Fatalf("%s does not say %s %s %q:\n%s", name, kind, reason, text, list)
	}
	return bd
}

// Mark changes the annotations of a deployment.
func (s *Site) Mark(name string, f func(map[string]string)) *fleet.BundleDeployment {
	s.Helper()
	return Revise(s.TB, s.Hub.Admin, kube.Key{Namespace: s.Deployments, Name: name}, func(bd *fleet.BundleDeployment) {
		if bd.Annotations == nil {
			bd.Annotations = map[string]string{}
		}
		f(bd.Annotations)
	})
}

// Withdraw orders a deployment to leave.
func (s *Site) Withdraw(name, order string) {
	s.Helper()
	s.Mark(name, func(a map[string]string) { a[fleet.AnnotationWithdrawn] = order })
}

// Revive takes the order back.
func (s *Site) Revive(name string) {
	s.Helper()
	s.Mark(name, func(a map[string]string) { delete(a, fleet.AnnotationWithdrawn) })
}

// Answered waits for the answer to an order.
func (s *Site) Answered(name, order string) *fleet.BundleDeployment {
	s.Helper()
	bd := s.Says(name, fleet.ConditionWithdrawn, fleet.ReasonUninstalled, order)
	if bd.Status.AppliedDeploymentID != "" || bd.Status.Release != "" {
		s.Errorf("%s is answered with %+v", name, bd.Status)
	}
	return bd
}

// Data is key k of a ConfigMap of the Site's cluster, "" if there is none.
func (s *Site) Data(namespace, name string) string {
	s.Helper()
	cm, err := kube.StoreOf[*corev1.ConfigMap](s.Down.Admin).Get(s.Context(), kube.Key{Namespace: namespace, Name: name})
	if err != nil && !kube.IsGone(err) {
		s.Fatal(err)
	}
	if err != nil {
		return ""
	}
	return cm.Data["k"]
}

// SetData changes key k of a ConfigMap of the Site's cluster.
func (s *Site) SetData(namespace, name, value string) {
	s.Helper()
	Edit(s.TB, s.Down, namespace, name, func(cm *corev1.ConfigMap) { cm.Data["k"] = value })
}

// Orphans are the orphans that the agent has reported.
func (s *Site) Orphans() []string {
	s.Helper()
	c, err := kube.StoreOf[*fleet.Cluster](s.Hub.Admin).Get(s.Context(), kube.Key{Namespace: s.Workspace, Name: s.Name})
	s.Must(err)
	if c.Status.Agent.Orphans == nil {
		return nil
	}
	return c.Status.Agent.Orphans.Names
}

// Contact returns the agent's record of its contact with its manager.
func (s *Site) Contact() map[string]string {
	s.Helper()
	cm, err := kube.StoreOf[*corev1.ConfigMap](s.Down.Admin).Get(s.Context(), kube.Key{Namespace: s.Namespace, Name: "fleet-agent-contact"})
	if err != nil && !kube.IsGone(err) {
		s.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return cm.Data
}

// Record is the record of a deployment in the agent's store; false if there is
// none.
func (s *Site) Record(name string) (store.Record, bool) {
	s.Helper()
	for _, secret := range s.records() {
		if r := recordOf(secret); r.Key.Name == name {
			return r, true
		}
	}
	return store.Record{}, false
}

// ChangeRecord changes the record of a deployment, while the agent is stopped.
func (s *Site) ChangeRecord(name string, change func(*store.Record)) {
	s.Helper()
	for _, secret := range s.records() {
		r := recordOf(secret)
		if r.Key.Name != name {
			continue
		}
		change(&r)
		text, err := json.Marshal(r)
		s.Must(err)
		changed := secret.DeepCopy()
		changed.Data["deployment"] = text
		_, err = kube.StoreOf[*corev1.Secret](s.Down.Admin).Patch(s.Context(), secret, changed)
		s.Must(err)
		return
	}
	s.Fatalf("no record of %s", name)
}

// Forget deletes all records of the agent's store.
func (s *Site) Forget() {
	s.Helper()
	for _, secret := range s.records() {
		s.Must(kube.StoreOf[*corev1.Secret](s.Down.Admin).Delete(s.Context(), kube.KeyOf(secret), kube.Precondition{}))
	}
}

func (s *Site) records() []*corev1.Secret {
	s.Helper()
	list, err := kube.StoreOf[*corev1.Secret](s.Down.Admin).List(s.Context(), s.Namespace, "")
	s.Must(err)
	var out []*corev1.Secret
	for _, secret := range list {
		if secret.Type == fleet.SecretTypeAgentStore {
			out = append(out, secret)
		}
	}
	return out
}

func recordOf(secret *corev1.Secret) store.Record {
	var r store.Record
	_ = json.Unmarshal(secret.Data["deployment"], &r) // a further chunk has none
	return r
}

// ConfigMap is the manifest of a ConfigMap with one value.
func ConfigMap(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  k: \"" + value + "\"\n"
}

// Moment is now, as audit logs have it.
func (s *Site) Moment() time.Time { return time.Now() }
