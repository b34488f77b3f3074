package gitrepo

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// NeedsRegex reports whether a GitRepo may come from a manager that sent the credentials of
// charts to every URL (rancher/fleet before v0.16): it has a Secret for charts, no
// helmRepoURLRegex, and this manager has never read it. One that a user makes now is never
// migrated: it has no Bundles of an earlier reading.
func NeedsRegex(r *fleet.GitRepo) bool {
	return (r.Spec.HelmSecretName != "" || r.Spec.HelmSecretNameForPaths != "") && r.Spec.HelmRepoURLRegex == "" &&
		r.Annotations[fleet.AnnotationRegexMigrated] == "" && r.Status.Reading == nil && r.Status.Commit != ""
}

// RegexOf returns the helmRepoURLRegex that lets the charts of Bundles be downloaded with
// credentials as before: the hosts of their Helm repositories and registries, in the form
// that rancher/fleet writes: ^https://host/, or ^(a|b) for several. It is empty if no Bundle
// names one.
func RegexOf(bundles []*fleet.Bundle) string {
	hosts := map[string]bool{}
	add := func(h *fleet.HelmOptions) {
		if h == nil {
			return
		}
		for _, source := range []string{h.Repo, h.Chart} {
			u, err := url.Parse(source)
			if err == nil && u.Host != "" && slices.Contains([]string{"http", "https", "oci"}, strings.ToLower(u.Scheme)) {
				hosts[regexp.QuoteMeta(strings.ToLower(u.Scheme)+"://"+u.Host+"/")] = true
			}
		}
	}
	for _, b := range bundles {
		add(b.Spec.Helm)
		for i := range b.Spec.Targets {
			add(b.Spec.Targets[i].Helm)
		}
	}
	list := slices.Sorted(maps.Keys(hosts))
	switch len(list) {
	case 0:
		return ""
	case 1:
		return "^" + list[0]
	}
	return "^(" + strings.Join(list, "|") + ")"
}
