package publish_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/bundlesource/publish"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/plan/bundle"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// bundleWith is the set of one Bundle with a Helm value.
func bundleWith(value string) bundle.Set {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default", Labels: map[string]string{fleet.LabelRepoName: "repo"}}}
	b.Spec.Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"a": value}}}
	return bundle.NewSet([]bundle.Result{{Name: "app", Bundle: b}}, nil)
}

// A second commit changes the Bundle and the Secret of its values, also where other
// writers were faster. A Secret that is not Fleet's stays as it is.
func TestPublishValues(t *testing.T) {
	s := kubetest.New(t)
	client := s.Connect("test")
	p := publish.New(publish.Config{Client: client})
	order := publish.Order{Namespace: "default", Owner: "repo"}
	secrets := kube.StoreOf[*corev1.Secret](client)
	values := func() *corev1.Secret {
		t.Helper()
		secret, err := secrets.Get(t.Context(), kube.Key{Namespace: "default", Name: "app"})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	for _, value := range []string{"one", "two"} {
		if value == "two" {
			s.Conflict(1, kubetest.Match{Verb: "patch", Resource: "bundles"})
			s.Conflict(1, kubetest.Match{Verb: "patch", Resource: "secrets"})
		}
		done, err := p.Publish(t.Context(), order, bundleWith(value))
		if err != nil || done.Written != 1 || len(done.Findings) > 0 {
			t.Fatalf("%s: %+v, %v", value, done, err)
		}
		if got := string(values().Data["values.yaml"]); !strings.Contains(got, value) {
			t.Errorf("want the value %s, got %s", value, got)
		}
	}
	if err := secrets.Delete(t.Context(), kube.Key{Namespace: "default", Name: "app"}, kube.Precondition{}); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: "default"}}); err != nil {
		t.Fatal(err)
	}
	done, err := p.Publish(t.Context(), order, bundleWith("three"))
	if err != nil || len(done.Findings) != 1 || !strings.Contains(done.Findings[0].Message, `secret "app" exists and is not Fleet's`) {
		t.Errorf("want a finding about the Secret, got %+v, %v", done, err)
	}
	if len(values().Data) > 0 {
		t.Error("a Secret that is not Fleet's was changed")
	}
}

// Content that exists already is marked as in use, and not written again.
func TestPublishContent(t *testing.T) {
	s := kubetest.New(t)
	client := s.Connect("test")
	p := publish.New(publish.Config{Client: client, ManagerID: func(context.Context) (string, error) { return "manager", nil }})
	contents := kube.StoreOf[*fleet.Content](client)
	m := content.Manifest{Resources: []fleet.BundleResource{{Name: "a.yaml", Content: "kind: ConfigMap\n"}}}
	id, err := p.Content(t.Context(), "app", m)
	if err != nil {
		t.Fatal(err)
	}
	first, err := contents.Get(t.Context(), kube.Key{Name: id})
	if err != nil || first.Labels[fleet.LabelManagerID] != "manager" {
		t.Fatalf("%+v, %v", first, err)
	}
	s.Conflict(1, kubetest.Match{Verb: "patch", Resource: "contents"})
	if _, err := p.Content(t.Context(), "app", m); err != nil {
		t.Fatal(err)
	}
	second, err := contents.Get(t.Context(), kube.Key{Name: id})
	if err != nil || second.UID != first.UID || second.Annotations[fleet.AnnotationContentRenewed] == "" {
		t.Errorf("want the same content, marked as in use; got %+v, %v", second, err)
	}
}

// ImageScans that a repository does not yield any more are removed, as long as image
// scanning is on and nothing holds removals; a user's own stay.
func TestPublishRemovesScans(t *testing.T) {
	s := kubetest.New(t)
	client := s.Connect("test")
	p := publish.New(publish.Config{Client: client, Suspended: func() string { return "" }})
	scans := kube.StoreOf[*fleet.ImageScan](client)
	make := func(name string, labels map[string]string) *fleet.ImageScan {
		return &fleet.ImageScan{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: labels}, Spec: fleet.ImageScanSpec{GitRepoName: "repo", Image: "x", TagName: name},
		}
	}
	own := map[string]string{fleet.LabelRepoName: "repo"}
	set := bundleWith("one")
	set.Results[0].Scans = []*fleet.ImageScan{make("kept", own), make("left", own)}
	if _, err := scans.Create(t.Context(), make("byhand", nil)); err != nil {
		t.Fatal(err)
	}
	publishNow := func(o publish.Order, want string) {
		t.Helper()
		o.Namespace, o.Owner = "default", "repo"
		if _, err := p.Publish(t.Context(), o, set); err != nil {
			t.Fatal(err)
		}
		list, err := scans.List(t.Context(), "default", "")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range list {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	publishNow(publish.Order{Scans: true}, "byhand kept left")
	set.Results[0].Scans = set.Results[0].Scans[:1]
	publishNow(publish.Order{}, "byhand kept left")
	publishNow(publish.Order{Scans: true, Keep: true}, "byhand kept left")
	publishNow(publish.Order{Scans: true}, "byhand kept")
	if err := p.RemoveScans(t.Context(), "default", "repo"); err != nil {
		t.Fatal(err)
	}
	publishNow(publish.Order{Scans: true}, "byhand kept") // written again, as it is yielded
}
