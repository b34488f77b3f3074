package gitrepo_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

// opaque is a Secret of the test's namespace.
func (s *fixture) opaque(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}, StringData: data}
}

// files are the names of what a Bundle holds.
func (s *fixture) files(bundle string) string {
	s.t.Helper()
	b, ok := get[*fleet.Bundle](s.world, s.ns, bundle)
	if !ok {
		return ""
	}
	var list []string
	for _, r := range b.Spec.Resources {
		list = append(list, r.Name)
	}
	return strings.Join(list, " ")
}

// reported counts events of a text.
func (s *fixture) reported(part string) (n int) {
	s.t.Helper()
	list, err := kube.StoreOf[*eventsv1.Event](s.admin).List(context.Background(), s.ns, "")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range list {
		if strings.Contains(e.Note, part) {
			n++
		}
	}
	return n
}

// Charts are downloaded with the credentials of a Secret, once it is there and
// right; each change of it is read once.
func charts(s *fixture) {
	helm := webtest.Repository(s.t, webtest.Options{Charts: []webtest.Chart{{Name: "demo", Version: "1.0.0"}}, Username: "robot", Password: "canary", TLS: true})
	first := s.git.Commit("first", map[string]string{
		"web/fleet.yaml": "namespace: web\nhelm:\n  repo: " + helm.URL + "\n  chart: demo\n", "ok/fleet.yaml": "namespace: x\n", "ok/cm.yaml": manifest("one"),
	})
	s.follow(func(spec *fleet.GitRepoSpec) {
		spec.Paths, spec.HelmSecretName, spec.HelmRepoURLRegex = []string{"*"}, "helm", "https://127.0.0.1.*"
		spec.InsecureSkipTLSverify = true // it is for charts as well
	})
	s.says("Accepted", "False", fleet.EventFailedValidatingSecret, `secret "helm" does not exist in namespace `+s.ns+` (helmSecretName)`)
	s.until("it is reported", func() bool { return s.reported("helmSecretName") == 1 })
	secret := create(s.world, s.opaque("helm", map[string]string{"username": "robot", "password": "wrong"}))
	s.says("Accepted", "True", "", "")
	s.says("Stalled", "True", "Chart", "")
	s.until("the other bundle is there", func() bool { return s.files("repo-ok") == "cm.yaml" })
	change(s.world, secret, func(x *corev1.Secret) { x.Data["password"] = []byte("canary") })
	s.read(first)
	s.says("Stalled", "False", "", "")
	if got := s.files("repo-web"); !strings.HasSuffix(got, "/demo/templates/configmap.yaml") && !strings.Contains(got, "/demo/Chart.yaml") {
		s.t.Errorf("want the chart, got %q", got)
	}
	repo, _ := get[*fleet.GitRepo](s.world, s.ns, "repo")
	if h := repo.Annotations[fleet.AnnotationHelmSecretHash]; len(h) != 64 {
		s.t.Errorf("want a digest of the Secret, got %q", h)
	}
	// Something else in the Secret is read once, and comes to the same.
	before := helm.Requests("/index.yaml")
	change(s.world, secret, func(x *corev1.Secret) { x.Data["note"] = []byte("x") })
	s.until("it was read again", func() bool {
		now, _ := get[*fleet.GitRepo](s.world, s.ns, "repo")
		return now.Annotations[fleet.AnnotationHelmSecretHash] != repo.Annotations[fleet.AnnotationHelmSecretHash]
	})
	if n := helm.Requests("/index.yaml") - before; n != 1 {
		s.t.Errorf("want the repository asked once, got %d", n)
	}
	if n := helm.Requests("/archives/demo-1.0.0.tgz"); n != 1 {
		s.t.Errorf("want the chart fetched once, got %d", n)
	}
}

// A chart that cannot be had now is tried again, and the status says what it
// waits for.
func passing(s *fixture) {
	var away atomic.Bool
	away.Store(true)
	packed := webtest.Chart{Name: "demo", Version: "1.0.0"}.Pack()
	helm := webtest.Repository(s.t, webtest.Options{Handlers: map[string]http.HandlerFunc{"/demo.tgz": func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(packed)
	}}})
	first := s.git.Commit("first", map[string]string{"web/fleet.yaml": "helm:\n  chart: " + helm.URL + "/demo.tgz\n"})
	s.follow(nil)
	s.says("Reconciling", "True", "Chart", fmt.Sprintf("web/fleet.yaml:2: %q cannot be had: the server answers 503 Service Unavailable", helm.URL+"/demo.tgz"))
	s.says("Stalled", "False", "Progressing", "")
	if st := s.status(); st.GitJobStatus != "InProgress" || st.Commit != first {
		s.t.Errorf("got %s at %s", st.GitJobStatus, st.Commit)
	}
	away.Store(false)
	s.says("Reconciling", "False", "", "")
	if s.files("repo-web") == "" {
		s.t.Error("want the bundle")
	}
	s.until("it is reported", func() bool { return s.reported("503 Service Unavailable") > 0 })
	if n := s.reported("503 Service Unavailable"); n != 1 {
		s.t.Errorf("want one event, however often it was tried; got %d", n)
	}
}

// The worker reports every finding, with its text, once for each commit.
func findings(s *fixture) {
	s.git.Commit("first", map[string]string{
		"a/fleet.yaml": "nmespace: x\n", "a/cm.yaml": manifest("one"), "b/fleet.yaml": "namespace: b\n", "b/cm.yaml": "a:\n\tb\n",
		"c/fleet.yaml": "dependsOn: [{}]\n", "c/cm.yaml": manifest("three"),
	})
	s.follow(nil)
	s.says("Stalled", "True", "InvalidYAML", "")
	for _, text := range []string{"nmespace", "b/cm.yaml:2", "dependsOn"} {
		s.until("reported: "+text, func() bool { return s.reported(text) == 1 })
	}
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.ForceSyncGeneration = 7 })
	s.until("it was read again", func() bool { return s.status().UpdateGeneration == 7 })
	if n := s.reported("nmespace"); n != 1 {
		s.t.Errorf("want one event, got %d", n)
	}
}

// A directory that has become empty keeps its bundle; one that is gone does not,
// and its neighbours go on.
func emptied(s *fixture) {
	s.follow(func(spec *fleet.GitRepoSpec) { spec.Paths = []string{"a", "b", "c"} })
	s.read(s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one"), "b/cm.yaml": manifest("two"), "c/cm.yaml": manifest("three")}))
	s.read(s.git.Commit("second", map[string]string{"a/cm.yaml": "", "a/README.md": "x", "b": "", "c/cm.yaml": manifest("four")}))
	s.engine("repo-b")
	s.says("Stalled", "True", "Empty", `a: the directory has become empty; bundle "repo-a" stays as it was`)
	s.until("a stays, b is gone", func() bool { now := s.bundles(); return now["repo-a"] != "" && now["repo-b"] == "" && len(now) == 2 })
	if c, _ := get[*fleet.Bundle](s.world, s.ns, "repo-c"); !strings.Contains(c.Spec.Resources[0].Content, "four") {
		s.t.Error("want the neighbour rolled out")
	}
	s.git.Commit("third", map[string]string{"a/cm.yaml": manifest("one"), "a/.fleetignore": "*.md\n*.yaml\n", "a/README.md": "", "c/.fleetignore": "cm.yaml\n"})
	s.says("Stalled", "True", "NothingToDeploy", `a/.fleetignore:2: nothing is left to deploy: "*.yaml" ignores all manifests; what was deployed before stays`)
}

// Image scans come with their bundle.
func scans(s *fixture) {
	text := "imageScans:\n- image: nginx\n  tagName: web\n  interval: 5m\n  policy: {semver: {range: \"%s\"}}\n"
	s.read2(s.git.Commit("first", map[string]string{"web/fleet.yaml": fmt.Sprintf(text, "1.x"), "web/cm.yaml": manifest("one")}))
	list, err := kube.StoreOf[*fleet.ImageScan](s.admin).List(context.Background(), s.ns, "")
	if err != nil || len(list) != 1 {
		s.t.Fatalf("want one image scan, got %v, %v", list, err)
	}
	if l := list[0]; l.Spec.Image != "nginx" || l.Spec.GitRepoName != "repo" || l.Labels[fleet.LabelRepoName] != "repo" {
		s.t.Errorf("got %+v", l)
	}
	s.read(s.git.Commit("second", map[string]string{"web/fleet.yaml": fmt.Sprintf(text, "2.x")}))
	if l, _ := get[*fleet.ImageScan](s.world, s.ns, list[0].Name); l.Spec.Policy.SemVer == nil || l.Spec.Policy.SemVer.Range != "2.x" {
		s.t.Errorf("want it changed, got %+v", l.Spec)
	}
	at, _ := get[*fleet.ImageScan](s.world, s.ns, list[0].Name)
	s.read(s.git.Commit("third", map[string]string{"README.md": "x"}))
	if l, _ := get[*fleet.ImageScan](s.world, s.ns, at.Name); l.ResourceVersion != at.ResourceVersion {
		s.t.Error("another commit alone writes nothing")
	}
}

// Where a registry's Secret is, resources go there: the artifact before the
// Secret that leads to it, and that before the Bundle.
func storage(s *fixture) {
	registry := ocitest.Start(s.t, ocitest.Options{Accounts: []ocitest.Account{{Username: "robot", Password: "canary"}}})
	first := s.git.Commit("first", map[string]string{"a/cm.yaml": manifest("one")})
	s.follow(func(spec *fleet.GitRepoSpec) { spec.Paths, spec.OCIRegistrySecret = []string{"a"}, "registry" })
	s.says("Accepted", "False", fleet.EventFailedValidatingSecret, `secret "registry" does not exist in namespace `+s.ns+` (ociRegistrySecret)`)
	secret := s.opaque("registry", map[string]string{"reference": registry.Host + "/fleet", "username": "robot", "password": "canary", "basicHTTP": "true"})
	secret.Type = fleet.SecretTypeOCIStorage
	create(s.world, secret)
	s.read(first)
	b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a")
	id := content.ID(content.Manifest{Resources: []fleet.BundleResource{{Name: "cm.yaml", Content: manifest("one")}}})
	if b.Spec.ContentsID != id || len(b.Spec.Resources) != 0 {
		s.t.Fatalf("want nothing but the id %s in the Bundle, got %+v", id, b.Spec)
	}
	lead, ok := get[*corev1.Secret](s.world, s.ns, id)
	if !ok || lead.Type != fleet.SecretTypeOCIStorage || lead.Labels[fleet.LabelInternalSecret] != "true" || string(lead.Data["password"]) != "canary" {
		s.t.Fatalf("want the Secret that leads to it, got %+v", lead)
	}
	kept, err := oci.StorageOf(string(lead.Type), lead.Data)
	if err != nil {
		s.t.Fatal(err)
	}
	raw, err := oci.New(oci.Config{Addresses: address.WithLoopback()}).Pull(context.Background(), kept.Read(), id)
	if err != nil || !strings.Contains(string(raw), "cm.yaml") {
		s.t.Errorf("want the artifact, got %q, %v", raw, err)
	}
	if order := strings.Join(s.writes(), "\n"); strings.Index(order, "create secrets/"+id) > strings.Index(order, "create bundles/") {
		s.t.Errorf("the Secret comes first:\n%s", order)
	}

	// Another password is handed on; nothing is deployed again.
	before := s.bundles()
	user, _ := get[*corev1.Secret](s.world, s.ns, "registry")
	change(s.world, user, func(x *corev1.Secret) { x.Data["agentPassword"] = []byte("canary") })
	s.read(s.git.Commit("second", map[string]string{"README.md": "x"}))
	if lead, _ = get[*corev1.Secret](s.world, s.ns, id); string(lead.Data["agentPassword"]) != "canary" || s.bundles()["repo-a"] != before["repo-a"] {
		s.t.Errorf("want the Secret changed and the Bundle not: %v, %v", lead.Data, s.bundles())
	}

	// Back to the cluster.
	change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.OCIRegistrySecret = "" })
	s.until("the resources are in the Bundle", func() bool { return s.files("repo-a") == "cm.yaml" })
	if b, _ = get[*fleet.Bundle](s.world, s.ns, "repo-a"); b.Spec.ContentsID != "" {
		s.t.Errorf("want no artifact named, got %s", b.Spec.ContentsID)
	}
}

// A bundle above 1 MiB is kept in Contents, each below 1 MiB, that the Bundle
// names.
func large(s *fixture) {
	create(s.world, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: fleet.NamespaceSystem, Name: fleet.ConfigMapInstallation, Labels: map[string]string{fleet.LabelManagerID: "0123456789abcdef"},
	}})
	files := map[string]string{"a/cm.yaml": manifest("one")}
	state := uint32(1)
	for i := range 3 {
		data := make([]byte, 1<<20)
		for j := range data { // what cannot be packed
			state = state*1664525 + 1013904223
			data[j] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[state>>26]
		}
		files[fmt.Sprintf("a/big-%d.txt", i)] = string(data)
	}
	first := s.git.Commit("first", files)
	s.follow(func(spec *fleet.GitRepoSpec) { spec.Paths = []string{"a"} })
	s.read(first)
	s.says("Stalled", "False", "", "")
	b, _ := get[*fleet.Bundle](s.world, s.ns, "repo-a")
	id := b.Annotations[fleet.AnnotationContent]
	if id == "" || len(b.Spec.Resources) != 0 || !strings.Contains(b.Annotations[fleet.AnnotationContentLargest], "big-0.txt") {
		s.t.Fatalf("want the content named, got %+v", b.ObjectMeta)
	}
	parts := s.whole(id)
	if len(parts) < 2 {
		s.t.Fatalf("want it in parts, got %d", len(parts))
	}
	at := b.ResourceVersion
	s.read(s.git.Commit("second", map[string]string{"README.md": "x"}))
	if b, _ = get[*fleet.Bundle](s.world, s.ns, "repo-a"); b.ResourceVersion != at {
		s.t.Error("another commit alone writes nothing")
	}
	// Whatever is missing, or was left behind by a process that was stopped
	// between two of them, is made good when it is asked for.
	for i, harm := range []func(){
		func() { remove(s.world, parts[0]) },
		func() {
			remove(s.world, &fleet.Content{ObjectMeta: metav1.ObjectMeta{Name: id}})
			remove(s.world, parts[1])
		},
		func() {
			remove(s.world, &fleet.Content{ObjectMeta: metav1.ObjectMeta{Name: id}})
			change(s.world, parts[0], func(c *fleet.Content) { c.Content, c.SHA256Sum = []byte("packed otherwise"), "" })
		},
	} {
		harm()
		generation := int64(i + 1)
		change(s.world, s.repo, func(r *fleet.GitRepo) { r.Spec.ForceSyncGeneration = generation })
		s.until("it is deployed again", func() bool { return s.status().UpdateGeneration == generation })
		s.whole(id)
	}
}

// whole is the parts of a content of four files, all of which must be there.
func (s *fixture) whole(id string) (parts []*fleet.Content) {
	s.t.Helper()
	list, err := kube.StoreOf[*fleet.Content](s.admin).List(context.Background(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	var index *fleet.Content
	for _, c := range list {
		switch {
		case c.Name == id:
			index = c
		case c.Labels[fleet.LabelContentOf] == id:
			parts = append(parts, c)
		}
		if len(c.Content) > 1<<20 || c.Labels[fleet.LabelManagerID] != "0123456789abcdef" {
			s.t.Errorf("%s has %d bytes and labels %v", c.Name, len(c.Content), c.Labels)
		}
	}
	if index == nil {
		s.t.Fatal("the index is missing")
	}
	packed, err := content.Join(index, parts)
	if err != nil {
		s.t.Fatal(err)
	}
	if m, err := content.Unpack(id, packed); err != nil || len(m.Resources) != 4 {
		s.t.Errorf("want 4 files, got %d, %v", len(m.Resources), err)
	}
	return parts
}
