package imagescan

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

func TestParseImage(t *testing.T) {
	cases := map[string]struct {
		why, image string
		want       string // canonical name
		plain      bool
		err        string
	}{
		"Short":     {why: "Docker's defaults", image: "nginx", want: "index.docker.io/library/nginx"},
		"User":      {why: "of a user of Docker Hub", image: "grafana/loki", want: "index.docker.io/grafana/loki"},
		"Hub":       {why: "Docker Hub has one name", image: "docker.io/grafana/loki", want: "index.docker.io/grafana/loki"},
		"Canonical": {why: "a name that rancher/fleet wrote", image: "index.docker.io/library/nginx", want: "index.docker.io/library/nginx"},
		"Tag":       {why: "a tag is ignored", image: "ghcr.io/a/b:1.2", want: "ghcr.io/a/b"},
		"Port":      {why: "a registry with a port", image: "registry.example.com:5000/a", want: "registry.example.com:5000/a"},
		"Loopback":  {why: "this machine is asked without TLS", image: "127.0.0.1:5000/a", want: "127.0.0.1:5000/a", plain: true},
		"Localhost": {why: "so is its name", image: "localhost:5000/a", want: "localhost:5000/a", plain: true},
		"Private":   {why: "a private address is another machine", image: "10.0.0.1:5000/a", want: "10.0.0.1:5000/a"},
		"Upper":     {why: "names have lower case", image: "ghcr.io/A", err: `image "ghcr.io/A": invalid reference format: repository name (A) must be lowercase`},
		"Empty":     {why: "an image is needed", err: `image "": invalid reference format`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseImage(c.image)
			if c.err != "" {
				if err == nil || !reconcile.IsTerminal(err) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: got %v", c.why, err)
				}
				return
			}
			if err != nil || got.Name() != c.want || got.PlainHTTP() != c.plain {
				t.Errorf("%s: got %s, plain %t, %v", c.why, got.Name(), got.PlainHTTP(), err)
			}
		})
	}
}

func TestLatest(t *testing.T) {
	semverOf := func(r string) fleet.ImagePolicyChoice {
		return fleet.ImagePolicyChoice{SemVer: &fleet.SemVerPolicy{Range: r}}
	}
	alphabetical := func(order string) fleet.ImagePolicyChoice {
		return fleet.ImagePolicyChoice{Alphabetical: &fleet.AlphabeticalPolicy{Order: order}}
	}
	numerical := func(order string) fleet.ImagePolicyChoice {
		return fleet.ImagePolicyChoice{Numerical: &fleet.NumericalPolicy{Order: order}}
	}
	cases := map[string]struct {
		why    string
		tags   string
		policy fleet.ImagePolicyChoice
		want   string
		err    string
	}{
		"Default":      {"without a policy the highest version", "1.9.0 1.10.0 latest 2.0.0-rc1", fleet.ImagePolicyChoice{}, "1.10.0", ""},
		"EmptyRange":   {"an empty range is any version", "1.0.0 2.0.0", semverOf(""), "2.0.0", ""},
		"Range":        {"the highest of the range", "1.9.0 1.10.0 2.0.0", semverOf("^1"), "1.10.0", ""},
		"Spelling":     {"as it is spelled", "v1.2 v1.3", semverOf("*"), "v1.3", ""},
		"Longer":       {"of one version the spelling that says more", "1 1.0 v1.0.0 1.0.0", semverOf("*"), "v1.0.0", ""},
		"Prerelease":   {"a range with a prerelease has prereleases", "1.0.0 2.0.0-rc1", semverOf(">=1.0.0-0"), "2.0.0-rc1", ""},
		"NoMatch":      {"nothing satisfies the range", "1.0.0 latest", semverOf("^3"), "", "no available version matching ^3"},
		"BadRange":     {"the range cannot be read", "1.0.0", semverOf("x y"), "", `policy.semver.range "x y"`},
		"Last":         {"the largest text", "a c b", alphabetical(""), "c", ""},
		"LastUpper":    {"in any case", "a c b", alphabetical("DESC"), "c", ""},
		"First":        {"the smallest text", "b a c", alphabetical("asc"), "a", ""},
		"Number":       {"the largest number, not the last text", "9 10 latest 1.5", numerical(""), "10", ""},
		"Smallest":     {"the smallest number", "9 10 007", numerical("asc"), "007", ""},
		"LongNumber":   {"longer than any integer type", "99999999999999999998 99999999999999999999", numerical("desc"), "99999999999999999999", ""},
		"NoNumber":     {"no tag is a number", "latest", numerical(""), "", "no tag is a number"},
		"SemVerBefore": {"semver counts before the others", "1.0.0 z", fleet.ImagePolicyChoice{SemVer: &fleet.SemVerPolicy{}, Alphabetical: &fleet.AlphabeticalPolicy{}}, "1.0.0", ""},
		"NoTags":       {"the image has no tags", "", alphabetical(""), "", "no tag found"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Latest(strings.Fields(c.tags), c.policy)
			if c.err != "" {
				if err == nil || !reconcile.IsTerminal(err) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%s: got %q, %v", c.why, got, err)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("%s: got %q, %v", c.why, got, err)
			}
		})
	}
}

func dockerSecret(config string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(config)},
	}
}

func TestCredentials(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("robot:pass:word"))
	cases := map[string]struct {
		why, config, registry, want, err string
	}{
		"Host":     {"the key is the host", `{"auths": {"ghcr.io": {"username": "u", "password": "p"}}}`, "ghcr.io", "u:p", ""},
		"Kubectl":  {"kubectl create secret docker-registry writes this", `{"auths": {"https://index.docker.io/v1/": {"username": "u", "password": "p", "auth": "` + auth + `"}}}`, "index.docker.io", "robot:pass:word", ""},
		"Hub":      {"another name of Docker Hub", `{"auths": {"docker.io": {"auth": "` + auth + `"}}}`, "index.docker.io", "robot:pass:word", ""},
		"Scheme":   {"with a scheme", `{"auths": {"https://ghcr.io": {"username": "u", "password": "p"}}}`, "ghcr.io", "u:p", ""},
		"Port":     {"the port counts", `{"auths": {"r.io:5000": {"username": "u", "password": "p"}, "r.io": {"username": "x", "password": "x"}}}`, "r.io:5000", "u:p", ""},
		"Exact":    {"the exact spelling counts first", `{"auths": {"https://ghcr.io": {"username": "x", "password": "x"}, "ghcr.io": {"username": "u", "password": "p"}}}`, "ghcr.io", "u:p", ""},
		"Missing":  {"the error names the registries", `{"auths": {"b.io": {}, "a.io": {}}}`, "ghcr.io", "", `secret "pull": it has no entry for registry "ghcr.io", only for ["a.io" "b.io"]`},
		"Empty":    {"an entry without account", `{"auths": {"ghcr.io": {}}}`, "ghcr.io", "", `entry "ghcr.io": it has neither auth nor username and password`},
		"NoBase64": {"auth is not base64", `{"auths": {"ghcr.io": {"auth": "canary!"}}}`, "ghcr.io", "", "auth is not base64"},
		"NoColon":  {"auth has no password", `{"auths": {"ghcr.io": {"auth": "Y2FuYXJ5"}}}`, "ghcr.io", "", "separated by a colon"},
		"NoJSON":   {"not JSON", `canary`, "ghcr.io", "", `is not the JSON of a Docker configuration`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			username, password, err := Credentials(dockerSecret(c.config), c.registry)
			if c.err != "" {
				if err == nil || !reconcile.IsTerminal(err) || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "canary") {
					t.Errorf("%s: got %v", c.why, err)
				}
				return
			}
			if err != nil || username+":"+password != c.want {
				t.Errorf("%s: got %s:%s, %v", c.why, username, password, err)
			}
		})
	}
	s := dockerSecret(`{}`)
	s.Type = corev1.SecretTypeOpaque
	if _, _, err := Credentials(s, "ghcr.io"); err == nil || !strings.Contains(err.Error(), `its type is "Opaque", not kubernetes.io/dockerconfigjson`) {
		t.Errorf("another type: got %v", err)
	}
}

func FuzzCredentials(f *testing.F) {
	f.Add([]byte(`{"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}}}`), "index.docker.io")
	f.Add([]byte(`{"auths": null}`), "")
	f.Fuzz(func(t *testing.T, config []byte, registry string) {
		username, password, err := Credentials(dockerSecret(string(config)), registry)
		if err == nil && (username == "" || password == "") {
			t.Errorf("half an account: %q %q", username, password)
		}
	})
}

func FuzzParseImage(f *testing.F) {
	for _, image := range []string{"nginx", "ghcr.io/a/b:1", "localhost:1/a@sha256:1", "a//b", "[::1]:80/a"} {
		f.Add(image)
	}
	f.Fuzz(func(t *testing.T, image string) {
		i, err := ParseImage(image)
		if err != nil {
			return
		}
		if again, err := ParseImage(i.Name()); err != nil || again != i {
			t.Errorf("%q is %q, which is %q, %v", image, i.Name(), again.Name(), err)
		}
	})
}

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func scanOf(change func(*fleet.ImageScan)) *fleet.ImageScan {
	s := &fleet.ImageScan{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: fleet.ImageScanSpec{Interval: metav1.Duration{Duration: time.Minute}}}
	s.Status.ObservedGeneration, s.Status.LastScanTime = 2, metav1.NewTime(noon)
	s.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionImageScanned, Status: corev1.ConditionTrue}}
	change(s)
	return s
}

func TestDue(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*fleet.ImageScan)
		want   time.Time
	}{
		"After":     {"an interval after the last scan", func(*fleet.ImageScan) {}, noon.Add(time.Minute)},
		"Default":   {"0 stands for 15 minutes", func(s *fleet.ImageScan) { s.Spec.Interval.Duration = 0 }, noon.Add(15 * time.Minute)},
		"Short":     {"a registry is not asked all the time", func(s *fleet.ImageScan) { s.Spec.Interval.Duration = time.Millisecond }, noon.Add(10 * time.Second)},
		"First":     {"a new ImageScan is due at once", func(s *fleet.ImageScan) { s.Status = fleet.ImageScanStatus{} }, time.Time{}},
		"Changed":   {"so is a changed one", func(s *fleet.ImageScan) { s.Generation = 3 }, time.Time{}},
		"Failed":    {"so is one that failed before this process began", func(s *fleet.ImageScan) { s.Status.Conditions[0].Status = corev1.ConditionFalse }, time.Time{}},
		"Reference": {"so is one that rancher/fleet has scanned: it writes no generation", func(s *fleet.ImageScan) { s.Status.ObservedGeneration = 0 }, time.Time{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := Due(scanOf(c.change)); !got.Equal(c.want) {
				t.Errorf("%s: got %s, want %s", c.why, got, c.want)
			}
		})
	}
}

func TestRetryDelay(t *testing.T) {
	spec := &fleet.ImageScanSpec{Interval: metav1.Duration{Duration: time.Hour}}
	away, refused := reconcile.RequeueError("Unreachable", 0, errors.New("x")), reconcile.TerminalError("Refused", errors.New("x"))
	for failures, want := range map[int]time.Duration{1: 15 * time.Second, 2: 30 * time.Second, 3: time.Minute, 30: 15 * time.Minute} {
		if got := RetryDelay(away, spec, failures); got != want {
			t.Errorf("after %d failures: got %s, want %s", failures, got, want)
		}
	}
	if got := RetryDelay(refused, spec, 5); got != time.Hour {
		t.Errorf("a registry that has answered: got %s", got)
	}
}

func TestStatus(t *testing.T) {
	image := Image{Registry: "ghcr.io", Path: "a/b"}
	good := Found{Image: image, Listed: true, Tag: "1.0.0", Digest: "sha256:1"}
	s := scanOf(func(s *fleet.ImageScan) {
		s.Status = fleet.ImageScanStatus{Conditions: []fleet.Condition{{Type: fleet.ConditionAccepted, Status: corev1.ConditionFalse}}}
	})
	s.Status = Status(s, good, noon)
	want := fleet.ImageScanStatus{
		LastScanTime: metav1.NewTime(noon), LatestImage: "ghcr.io/a/b:1.0.0", LatestTag: "1.0.0", LatestDigest: "sha256:1",
		ObservedGeneration: 2, CanonicalImageName: "ghcr.io/a/b",
	}
	got := s.Status
	got.Conditions = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found: -want +got\n%s", diff)
	}
	states := func(s *fleet.ImageScan) string {
		var out []string
		for _, c := range s.Status.Conditions {
			out = append(out, strings.TrimSpace(c.Type+"="+string(c.Status)+" "+c.Reason+" "+c.Message))
		}
		return strings.Join(out, "; ")
	}
	if diff := cmp.Diff("ImageScanned=True; Stalled=False; Reconciling=False", states(s)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	s.Status = Status(s, Found{Image: image, Err: reconcile.RequeueError("Unreachable", 0, errors.New("no answer"))}, noon.Add(time.Hour))
	if s.Status.LatestTag != "1.0.0" || !s.Status.LastScanTime.Equal(&want.LastScanTime) {
		t.Errorf("after a failure: %+v", s.Status)
	}
	if diff := cmp.Diff("ImageScanned=False Unreachable no answer; Stalled=False; Reconciling=True Unreachable no answer", states(s)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}

	other := Image{Registry: "ghcr.io", Path: "c"}
	s.Status = Status(s, Found{Image: other, Listed: true, Err: noTag("no tag found")}, noon.Add(2*time.Hour))
	if s.Status.LatestTag != "" || s.Status.LatestImage != "" || s.Status.LatestDigest != "" || s.Status.CanonicalImageName != "ghcr.io/c" {
		t.Errorf("of another image: %+v", s.Status)
	}
	if diff := cmp.Diff("ImageScanned=False NoTag no tag found; Stalled=True NoTag no tag found; Reconciling=False", states(s)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
