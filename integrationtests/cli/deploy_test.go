package cli_test

import (
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// addCluster makes a Cluster with its namespace.
func (s *fixture) addCluster(name, env string) {
	s.t.Helper()
	store := kube.StoreOf[*fleet.Cluster](s.admin)
	c, err := store.Create(s.t.Context(), &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.ns, Name: name, Labels: map[string]string{"env": env},
		Annotations: map[string]string{registration.AnnotationDeploymentNamespace: naming.ClusterNamespace(s.ns, name)},
	}})
	s.must(err)
	changed := c.DeepCopy()
	changed.Status.Namespace = naming.ClusterNamespace(s.ns, name)
	_, err = store.PatchStatus(s.t.Context(), c, changed)
	s.must(err)
}

// web is a bundle with a chart that takes values of its cluster.
func (s *fixture) web() {
	s.t.Helper()
	s.put("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	s.put("web/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {site: {{ .Values.site | quote }}}\n")
	s.put("web/fleet.yaml", "defaultNamespace: "+s.ns+"-web\nhelm:\n  releaseName: web\n  values: {site: '${ .ClusterName }'}\n"+
		"targetCustomizations:\n- name: prod\n  clusterSelector: {matchLabels: {env: prod}}\n")
}

// A file says the same as a live cluster; and nothing is written by looking.
func targetOffline(s *fixture) {
	s.web()
	s.addCluster("c1", "dev")
	s.addCluster("c2", "prod")
	s.ok("apply", "-o", "web.yaml", "-n", s.ns, "--commit", "c1", "shop", "web")
	before := s.versions(s.ns)
	live := s.run("", "target", "-b", "web.yaml")
	if live.code != 0 || !strings.Contains(live.notes, `not for c1: target 1 "prod" wants env=prod, c1 has env=dev`) {
		s.t.Fatalf("got %+v", live)
	}
	s.put("clusters.yaml", s.ok("get", "clusters", "-n", s.ns, "-o", "yaml"))
	offline := s.run("", "target", "-b", "web.yaml", "--cluster-file", "clusters.yaml", "--kubeconfig", "/nonexistent")
	if diff := cmp.Diff(live.out, offline.out); diff != "" || offline.code != 0 {
		s.t.Errorf("the file says something else than the cluster:\n%s\n%s", diff, offline.notes)
	}
	if diff := cmp.Diff(before, s.versions(s.ns)); diff != "" {
		s.t.Errorf("looking must not write:\n%s", diff)
	}
	s.ok("apply", "-n", s.ns, "--commit", "c1", "shop", "web")
	s.put("stored.yaml", s.ok("get", "bundle", "shop-web", "-n", s.ns, "-o", "yaml"))
	if stored := s.ok("target", "-b", "stored.yaml"); stored != live.out {
		s.t.Errorf("the Bundle of the cluster, with its values Secret, is another one:\n%s", cmp.Diff(live.out, stored))
	}
	s.fails(4, "waits for Secret", "target", "-b", "stored.yaml", "--cluster-file", "clusters.yaml")
}

// A deployment from a file becomes a release that an agent knows as its own, and
// deploying it again changes nothing.
func deployTwice(s *fixture) {
	s.web()
	s.addCluster("c2", "prod")
	s.ok("apply", "-o", "web.yaml", "-n", s.ns, "--commit", "c1", "shop", "web")
	s.put("deployments.yaml", s.ok("target", "-b", "web.yaml"))
	ns := s.ns + "-web"
	dry := s.ok("deploy", "-i", "deployments.yaml", "--dry-run")
	if !strings.Contains(dry, "site: c2") {
		s.t.Fatalf("got %s", dry)
	}
	if list := s.versions(ns); strings.Contains(strings.Join(list, " "), "ConfigMap "+ns+"/web") {
		s.t.Fatalf("a dry run must not write: %v", list)
	}
	a := s.run("", "deploy", "-i", "deployments.yaml")
	if a.code != 0 || !strings.Contains(a.notes, "install: not installed yet") || !strings.Contains(a.notes, s.cluster.URL()+", release "+ns+"/web") {
		s.t.Fatalf("got %+v", a)
	}
	live, err := kube.StoreOf[*corev1.ConfigMap](s.admin).Get(s.t.Context(), kube.Key{Namespace: ns, Name: "web"})
	s.must(err)
	if live.Data["site"] != "c2" || live.Labels[fleet.LabelObjectSetHash] != naming.ObjectSetHash(naming.ObjectSetID("shop-web", "")) {
		s.t.Errorf("the object is not what an agent makes: %v %v", live.Labels, live.Data)
	}
	before := s.versions(ns)
	again := s.run("", "deploy", "-i", "deployments.yaml")
	if again.code != 0 || again.out != a.out || !strings.Contains(again.notes, "nothing to do") {
		s.t.Errorf("got %+v", again)
	}
	if diff := cmp.Diff(before, s.versions(ns)); diff != "" {
		s.t.Errorf("nothing has changed, but it was written:\n%s", diff)
	}
	s.agentKeeps(release.ID{Namespace: ns, Name: "web"})

	s.put("web/values.yaml", "more: true\n")
	s.ok("apply", "-o", "web.yaml", "-n", s.ns, "--commit", "c2", "shop", "web")
	s.put("deployments.yaml", s.ok("target", "-b", "web.yaml"))
	if got := s.ok("deploy", "-i", "deployments.yaml", "-o", "jsonpath={.changed} {.revision} {.reason}"); got != "true 2 another deployment is wanted\n" {
		s.t.Errorf("got %q", got)
	}
}

// agentKeeps asks what an agent of this cluster would do with the release.
func (s *fixture) agentKeeps(id release.ID) {
	s.t.Helper()
	client, err := helm.Connect(helm.Config{REST: s.cluster.REST(), AgentNamespace: fleet.NamespaceSystem})
	s.must(err)
	found, err := client.Observe(s.t.Context(), id)
	s.must(err)
	a := release.Decide(found, release.Wanted{
		ID: id, Self: release.Owner{AgentNamespace: fleet.NamespaceSystem, BundleID: "shop-web"}, DeploymentID: found.GoodID,
	})
	if found.GoodID == "" || a.Verb != release.Keep || a.Reason != release.ReasonUpToDate {
		s.t.Errorf("an agent would not keep it as it is: %+v", a)
	}
	if found.Memory.Commit != "c1" {
		s.t.Errorf("the release does not remember its commit: %+v", found.Memory)
	}
}

// What belongs to others, or is not there, is refused.
func deployRefusals(s *fixture) {
	s.web()
	s.addCluster("c2", "prod")
	s.ok("apply", "-o", "web.yaml", "-n", s.ns, "--commit", "c1", "shop", "web")
	s.put("deployments.yaml", s.ok("target", "-b", "web.yaml"))
	s.ok("deploy", "-i", "deployments.yaml", "-a", "another-agent")
	ns := s.ns + "-web"
	before := s.versions(ns)
	s.fails(5, "belongs to the Fleet agent in namespace another-agent", "deploy", "-i", "deployments.yaml")
	if diff := cmp.Diff(before, s.versions(ns)); diff != "" {
		s.t.Errorf("it was refused, but something was written:\n%s", diff)
	}
	s.put("web/fleet.yaml", "namespace: "+ns+"\nhelm: {releaseName: other}\ntargets: [{clusterSelector: {}}]\n")
	s.put("web/templates/cm.yaml", "{{ fail \"no tier\" }}")
	s.ok("apply", "-o", "web.yaml", "-n", s.ns, "--commit", "c1", "shop", "web")
	s.put("deployments.yaml", s.ok("target", "-b", "web.yaml"))
	s.fails(4, "no tier", "deploy", "-i", "deployments.yaml")
	s.put("web/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
	s.ok("apply", "-o", "web.yaml", "-n", s.ns, "--commit", "c1", "shop", "web")
	s.put("deployments.yaml", s.ok("target", "-b", "web.yaml"))
	s.fails(5, "exists and does not belong to this release", "deploy", "-i", "deployments.yaml")
}
