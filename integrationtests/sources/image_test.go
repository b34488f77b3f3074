package sources

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/git/gittest"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
)

// pushImage stores an image for two architectures under a tag, and returns the digest of its
// index.
func pushImage(t *testing.T, s *ocitest.Server, path, tag string) string {
	t.Helper()
	config := s.PushBlob(t, path, ocispec.MediaTypeImageConfig, []byte(`{"os": "linux", "version": "`+tag+`"}`))
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	for _, arch := range []string{"amd64", "arm64"} {
		m := s.PushManifest(t, path, tag+"-"+arch, ocispec.MediaTypeImageManifest, ocispec.Manifest{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config,
			Layers: []ocispec.Descriptor{s.PushBlob(t, path, ocispec.MediaTypeImageLayer, []byte(arch))},
		})
		m.Platform = &ocispec.Platform{Architecture: arch, OS: "linux"}
		index.Manifests = append(index.Manifests, m)
	}
	return s.PushManifest(t, path, tag, ocispec.MediaTypeImageIndex, index).Digest.String()
}

// A new tag in a private registry is found, committed and deployed; while the registry is
// away, what is deployed stays and the ImageScan says what is wrong.
func TestImageUpdate(t *testing.T) {
	w := harness.Open(t)
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: robot, Password: canary}}})
	image := registry.Host + "/team/app"
	pushImage(t, registry, "team/app", "1.0.0")
	newest := pushImage(t, registry, "team/app", "1.1.0")
	pushImage(t, registry, "team/app", "2.0.0")

	repo := gittest.NewRepo(t)
	repo.Git("config", "http.receivepack", "true")
	repo.Git("config", "receive.denyCurrentBranch", "ignore")
	scan := "imageScans:\n- image: " + image + "\n  tagName: app\n  interval: 10s\n  secretRef: {name: images}\n  policy: {semver: {range: ^1}}\n"
	manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: images}\ndata:\n" +
		"  image: old # {\"$imagescan\": \"app\"}\n  pinned: 'old' # {\"$imagescan\": \"app:digest\"}\n"
	repo.Commit("first", map[string]string{"web/fleet.yaml": "defaultNamespace: images\n" + scan, "web/cm.yaml": manifest})
	server := gittest.ServeTLS(t, filepath.Dir(repo.Dir))
	server.Intercept(gittest.BasicAuth(robot, canary))
	secret(t, w, "pusher", corev1.SecretTypeBasicAuth, map[string]string{"username": robot, "password": canary})
	account := secret(t, w, "images", corev1.SecretTypeDockerConfigJson, map[string]string{
		corev1.DockerConfigJsonKey: `{"auths": {"https://` + registry.Host + `/v1/": {"username": "` + robot + `", "password": "` + canary + `"}}}`,
	})

	r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.NamespaceDefault, Name: "images"}}
	r.Spec.Repo, r.Spec.Branch, r.Spec.CABundle, r.Spec.ClientSecretName = server.URL+"/repo", "main", server.PEM(), "pusher"
	r.Spec.Paths, r.Spec.PollingInterval = []string{"web"}, &metav1.Duration{Duration: time.Second}
	r.Spec.ImageScanCommit, r.Spec.ImageScanInterval = &fleet.CommitSpec{}, &metav1.Duration{Duration: time.Second}
	r.Spec.Targets = []fleet.GitTarget{{ClusterSelector: &metav1.LabelSelector{}}}
	r = harness.Create(w, w.Local, r)
	deployed := func(tag, digest string) {
		t.Helper()
		want := map[string]string{"image": image + ":" + tag, "pinned": image + ":" + tag + "@" + digest}
		for _, m := range w.Downstream() {
			harness.Eventually(w, tag+" on "+m.Name, harness.Data(w, m, "images", "images"), want)
		}
	}
	deployed("1.1.0", newest)
	if log := repo.Git("log", "--format=%an %s", "main"); log != "Fleet Update from image update automation\nTest first" {
		t.Errorf("commits: %s", log)
	}

	registry.Break(500)
	name := kube.Key{Namespace: fleet.NamespaceDefault, Name: "imagescan-images-web-0"}
	w.Until("the ImageScan says that the registry is away", func() string {
		s, _ := harness.Get[*fleet.ImageScan](w, w.Local, name.Namespace, name.Name)
		c := condition.Find(s.Status.Conditions, fleet.ConditionImageScanned)
		if c == nil || c.Status != corev1.ConditionFalse || s.Status.LatestTag != "1.1.0" {
			return "it has not"
		}
		return harness.Missing(c.Message, registry.Host)
	})
	w.Until("the GitRepo says so", func() string {
		r, _ := harness.Get[*fleet.GitRepo](w, w.Local, r.Namespace, r.Name)
		c := condition.Find(r.Status.Conditions, fleet.ConditionReady)
		if c == nil || c.Status != corev1.ConditionFalse {
			return "it is Ready"
		}
		return harness.Missing(c.Message, name.Name)
	})
	deployed("1.1.0", newest)

	registry.Intercept(nil)
	newest = pushImage(t, registry, "team/app", "1.2.0")
	// After a failure, a changed Secret makes the manager ask at once.
	harness.Revise(t, w.Local.Client, kube.KeyOf(account), func(s *corev1.Secret) { s.Labels = map[string]string{"changed": "true"} })
	deployed("1.2.0", newest)
	search(t, w, canary)

	harness.Delete(w, w.Local, r)
	w.Until("the ImageScan is gone", func() string {
		if _, ok := harness.Get[*fleet.ImageScan](w, w.Local, name.Namespace, name.Name); ok {
			return "it is there"
		}
		return ""
	})
	if strings.Contains(repo.Git("show", "main:web/cm.yaml"), "old") {
		t.Error("a marked value is the old one")
	}
}
