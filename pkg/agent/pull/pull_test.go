package pull

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/archive"
	"github.com/fleetworkspace/fleet/pkg/oci"
	"github.com/fleetworkspace/fleet/pkg/oci/ocitest"
	"github.com/fleetworkspace/fleet/pkg/plan/chart"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/web"
	"github.com/fleetworkspace/fleet/pkg/web/webtest"
)

const user, password = "reader", "a-password"

func packed(version, text string) webtest.Chart {
	return webtest.Chart{Name: "app", Version: version, Files: map[string]string{"templates/cm.yaml": text}}
}

// text is the template of a chart that was pulled, where it belongs.
func text(r chart.Request, m content.Manifest) string {
	for _, f := range m.Resources {
		if f.Name == r.Dir()+"/app/templates/cm.yaml" {
			return f.Content
		}
	}
	return ""
}

func TestChart(t *testing.T) {
	repo := webtest.Repository(t, webtest.Options{Path: "/stable", Username: user, Password: password, TLS: true,
		Charts: []webtest.Chart{packed("1.0.0", "one"), packed("1.1.0", "newer"), packed("2.0.0-rc.1", "next")}})
	registry := ocitest.Start(t, ocitest.Options{Accounts: []ocitest.Account{{Username: user, Password: password}}, Token: true})
	for version, text := range map[string]string{"1.0.0": "one", "1.1.0": "newer"} {
		registry.PushChart(t, "charts/app", version, ocitest.Chart(t, "app", version, map[string]string{"templates/cm.yaml": text}))
	}
	byIndex := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "app", Version: "1.0.0", URL: "oci://" + registry.Host + "/charts/app:1.0.0"}}})
	elsewhere := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "app", Version: "1.0.0", URL: repo.URL + "/archives/app-1.0.0.tgz"}}})

	inRepo := chart.Credentials{Username: user, Password: password, CABundle: repo.CA}
	inRegistry := chart.Credentials{Username: user, Password: password, BasicHTTP: true}
	cases := map[string]struct {
		why    string
		r      chart.Request
		c      chart.Credentials
		want   string
		reason string // of the error
	}{
		"Exact":           {"a version of a repository", chart.Request{Repo: repo.URL, Chart: "app", Version: "1.0.0"}, inRepo, "one", ""},
		"Range":           {"the newest of a range", chart.Request{Repo: repo.URL, Chart: "app", Version: "^1"}, inRepo, "newer", ""},
		"Newest":          {"the newest stable one", chart.Request{Repo: repo.URL, Chart: "app"}, inRepo, "newer", ""},
		"Archive":         {"an archive by its URL", chart.Request{Chart: repo.URL + "/archives/app-1.0.0.tgz"}, inRepo, "one", ""},
		"Directory":       {"a directory of an archive is not where the chart belongs", chart.Request{Chart: repo.URL + "/archives/app-1.0.0.tgz//nowhere"}, inRepo, "", chart.ReasonInvalidSource},
		"Tag":             {"a tag of a registry", chart.Request{Repo: "oci://" + registry.Host + "/charts/app", Version: "1.0.0"}, inRegistry, "one", ""},
		"TagRange":        {"a range of tags", chart.Request{Repo: "oci://" + registry.Host + "/charts/app", Version: "1.x"}, inRegistry, "newer", ""},
		"InReference":     {"a tag in the reference", chart.Request{Repo: "oci://" + registry.Host + "/charts/app:1.0.0"}, inRegistry, "one", ""},
		"NoSuchVersion":   {"", chart.Request{Repo: repo.URL, Chart: "app", Version: "7.0.0"}, inRepo, "", chart.ReasonVersionNotFound},
		"NoSuchChart":     {"", chart.Request{Repo: repo.URL, Chart: "other"}, inRepo, "", chart.ReasonChartNotFound},
		"NoSuchTag":       {"", chart.Request{Repo: "oci://" + registry.Host + "/charts/app", Version: "7.0.0"}, inRegistry, "", chart.ReasonVersionNotFound},
		"WrongPassword":   {"", chart.Request{Repo: repo.URL, Chart: "app"}, chart.Credentials{Username: user, Password: "x", CABundle: repo.CA}, "", web.ReasonAuthenticationRefused},
		"UnknownCA":       {"", chart.Request{Repo: repo.URL, Chart: "app"}, chart.Credentials{Username: user, Password: password}, "", web.ReasonCertificateRefused},
		"Git":             {"agents have no git", chart.Request{Chart: "git::https://git.example.com/a/b"}, chart.Credentials{}, "", ReasonNotHere},
		"Nothing":         {"no chart is named", chart.Request{}, chart.Credentials{}, "", chart.ReasonInvalidSource},
		"IndexToRegistry": {"credentials are not for the registry that an index names", chart.Request{Repo: byIndex.URL, Chart: "app"}, inRegistry, "", oci.ReasonAuthenticationRefused},
		"IndexToHost":     {"and not for another host", chart.Request{Repo: elsewhere.URL, Chart: "app"}, inRepo, "", web.ReasonAuthenticationRefused},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m, err := New(Config{UserAgent: "fleet-agent/test", Dir: dir}).Chart(t.Context(), c.r, c.c)
			left, dirErr := os.ReadDir(dir)
			if dirErr != nil || len(left) > 0 {
				t.Errorf("left on disk: %v %v", left, dirErr)
			}
			if c.reason != "" {
				if err == nil || reconcile.ReasonOf(err) != c.reason {
					t.Fatalf("%s: want %s, got %v", c.why, c.reason, err)
				}
				if strings.Contains(err.Error(), password) {
					t.Errorf("the text holds the password: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := text(c.r, m); got != c.want {
				t.Errorf("%s: got %q, want %q", c.why, got, c.want)
			}
		})
	}
	for _, a := range slices.Concat(byIndex.Authorizations(), elsewhere.Authorizations()) {
		t.Logf("told to who was named: %s", a)
	}
}

// What a server makes of an archive is noticed before anything is unpacked.
func TestChartIsVerified(t *testing.T) {
	lying := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "app", Version: "1.0.0", Digest: strings.Repeat("a", 64)}}})
	_, err := New(Config{}).Chart(t.Context(), chart.Request{Repo: lying.URL, Chart: "app"}, chart.Credentials{})
	if diff := cmp.Diff(web.ReasonChecksumMismatch, reconcile.ReasonOf(err)); diff != "" {
		t.Errorf("an archive that its index does not know: %s", diff)
	}
	other := webtest.Repository(t, webtest.Options{Charts: []webtest.Chart{{Name: "app", Version: "1.0.0"}}, Files: map[string][]byte{"/page.tgz": []byte("<html>")}})
	_, err = New(Config{}).Chart(t.Context(), chart.Request{Chart: other.URL + "/page.tgz"}, chart.Credentials{})
	if diff := cmp.Diff(archive.ReasonInvalidArchive, reconcile.ReasonOf(err)); diff != "" {
		t.Errorf("a web page: %s", diff)
	}
}

func TestChartWaits(t *testing.T) {
	busy := webtest.Repository(t, webtest.Options{Handlers: map[string]http.HandlerFunc{"/index.yaml": webtest.Status(503)}})
	for why, url := range map[string]string{"busy": busy.URL, "nobody there": "http://127.0.0.1:1"} {
		_, err := New(Config{}).Chart(t.Context(), chart.Request{Repo: url, Chart: "app"}, chart.Credentials{})
		if !reconcile.IsRequeue(err) || reconcile.ReasonOf(err) != web.ReasonUnreachable {
			t.Errorf("%s: it may pass: got %v", why, err)
		}
	}
}
