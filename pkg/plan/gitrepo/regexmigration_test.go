package gitrepo

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestNeedsRegex(t *testing.T) {
	cases := map[string]struct {
		why    string
		change func(*fleet.GitRepo)
		want   bool
	}{
		"Old":      {"another manager has read it, and it has a Secret", func(*fleet.GitRepo) {}, true},
		"ByPath":   {"or a Secret by path", func(r *fleet.GitRepo) { r.Spec.HelmSecretName, r.Spec.HelmSecretNameForPaths = "", "paths" }, true},
		"NoSecret": {"nothing is sent", func(r *fleet.GitRepo) { r.Spec.HelmSecretName = "" }, false},
		"Set":      {"the user has decided", func(r *fleet.GitRepo) { r.Spec.HelmRepoURLRegex = "x" }, false},
		"Done":     {"it was migrated, and the user has removed the regex since", func(r *fleet.GitRepo) { r.Annotations = map[string]string{fleet.AnnotationRegexMigrated: "true"} }, false},
		"Read":     {"this manager has read it without a regex", func(r *fleet.GitRepo) { r.Status.Reading = &fleet.Reading{} }, false},
		"New":      {"no manager has read it", func(r *fleet.GitRepo) { r.Status.Commit = "" }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
			r.Spec.HelmSecretName, r.Status.Commit = "charts", "abc"
			c.change(r)
			if got := NeedsRegex(r); got != c.want {
				t.Errorf("%s: got %t", c.why, got)
			}
		})
	}
}

func TestRegexOf(t *testing.T) {
	of := func(repo, chart string) *fleet.Bundle {
		b := &fleet.Bundle{}
		b.Spec.Helm = &fleet.HelmOptions{Repo: repo, Chart: chart}
		return b
	}
	target := &fleet.Bundle{}
	target.Spec.Targets = []fleet.BundleTarget{{}, {BundleDeploymentOptions: fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{Repo: "https://b.example.com/x"}}}}
	cases := map[string]struct {
		why     string
		bundles []*fleet.Bundle
		want    string
	}{
		"None":     {"manifests and charts of the repository itself", []*fleet.Bundle{{}, of("", "./chart"), of("", "")}, ""},
		"One":      {"the host of a Helm repository", []*fleet.Bundle{of("https://charts.example.com/stable", "web")}, `^https://charts\.example\.com/`},
		"Same":     {"one host, once", []*fleet.Bundle{of("https://a.io/x", "web"), of("https://a.io/y", "db")}, `^https://a\.io/`},
		"Several":  {"in order", []*fleet.Bundle{target, of("", "oci://a.example.com:5000/web")}, `^(https://b\.example\.com/|oci://a\.example\.com:5000/)`},
		"Archive":  {"an archive", []*fleet.Bundle{of("", "https://a.io/web-1.0.0.tgz")}, `^https://a\.io/`},
		"Password": {"a user in a URL is left out", []*fleet.Bundle{of("https://ana:canary@a.io/x", "web")}, `^https://a\.io/`},
		"Other":    {"a git source is not of a Helm Secret's regex", []*fleet.Bundle{of("", "git::https://a.io/x"), of("file:///x", "")}, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := RegexOf(c.bundles); got != c.want {
				t.Errorf("%s: got %s, want %s", c.why, got, c.want)
			}
		})
	}
}
