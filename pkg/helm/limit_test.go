package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// limitObjects are objects that a limit is about, and where they would be
// written.
var limitObjects = map[string]struct{ text, path string }{
	"CustomResourceDefinition": {
		"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: pwns.x.io}\n" +
			"spec: {group: x.io, scope: Namespaced, names: {kind: Pwn, plural: pwns}, versions: [{name: v1, served: true, storage: true}]}\n",
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pwns.x.io",
	},
	"ClusterRoleBinding": {
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: pwn, namespace: team-a}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n",
		"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/pwn",
	},
	"Secret": {
		"apiVersion: v1\nkind: Secret\nmetadata: {name: pwn, namespace: kube-system}\n",
		"/api/v1/namespaces/kube-system/secrets/pwn",
	},
}

const limitChart = "apiVersion: v2\nname: web\nversion: 1.0.0\n"

// limitWays are all ways by which an object of a bundle comes to the cluster:
// the files of a bundle, and the file that an error names.
var limitWays = map[string]struct {
	files  func(text string) map[string]string
	source string
	crds   bool // it is a folder for CRDs
	hook   bool
}{
	"templates": {source: "templates/pwn.yaml", files: func(text string) map[string]string {
		return map[string]string{"Chart.yaml": limitChart, "templates/pwn.yaml": text}
	}},
	"manifests": {source: "pwn.yaml", files: func(text string) map[string]string {
		return map[string]string{"pwn.yaml": text}
	}},
	"list": {source: "pwn.yaml", files: func(text string) map[string]string {
		return map[string]string{"pwn.yaml": listed(text)}
	}},
	"crds": {source: "crds/pwn.yaml", crds: true, files: func(text string) map[string]string {
		return map[string]string{"Chart.yaml": limitChart, "crds/pwn.yaml": text}
	}},
	"crds-list": {source: "crds/pwn.yaml", crds: true, files: func(text string) map[string]string {
		return map[string]string{"Chart.yaml": limitChart, "crds/pwn.yaml": listed(text)}
	}},
	"crds-of-subchart": {source: "charts/sub/crds/pwn.yaml", crds: true, files: func(text string) map[string]string {
		return map[string]string{
			"Chart.yaml":               limitChart + "dependencies: [{name: sub, version: 1.0.0}]\n",
			"charts/sub/Chart.yaml":    "apiVersion: v2\nname: sub\nversion: 1.0.0\n",
			"charts/sub/crds/pwn.yaml": text,
		}
	}},
	"hook": {hook: true, files: func(text string) map[string]string {
		return map[string]string{"Chart.yaml": limitChart, "templates/pwn.yaml": strings.Replace(text, "metadata: {", "metadata: {annotations: {helm.sh/hook: pre-install}, ", 1)}
	}},
	"overlay": {source: "pwn.yaml", files: func(text string) map[string]string {
		return map[string]string{"overlays/prod/pwn.yaml": text}
	}},
	"kustomize": {files: func(text string) map[string]string {
		return map[string]string{"kustomization.yaml": "resources: [pwn.yaml]\n", "pwn.yaml": text}
	}},
	"kustomize-over-chart": {files: func(text string) map[string]string {
		return map[string]string{
			"Chart.yaml": limitChart, "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
			"kustomization.yaml": "resources: [pwn.yaml]\n", "pwn.yaml": text,
		}
	}},
}

// listed is an object in a List.
func listed(text string) string {
	return "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// limits are who limits a bundle to namespace team-a.
var limits = map[string]struct {
	options fleet.BundleDeploymentOptions
	admin   bool // GitRepo.spec.targetNamespace
	forced  bool // namespaced objects are put there
	limited bool
	closed  bool // an administrator has set the limit
}{
	"none":            {options: fleet.BundleDeploymentOptions{DefaultNamespace: "team-a"}},
	"fleet.yaml":      {options: fleet.BundleDeploymentOptions{TargetNamespace: "team-a"}, forced: true, limited: true},
	"targetNamespace": {options: fleet.BundleDeploymentOptions{TargetNamespace: "team-a"}, admin: true, forced: true, limited: true, closed: true},
	"selector": {
		options: fleet.BundleDeploymentOptions{DefaultNamespace: "team-a", AllowedTargetNamespaceSelector: &metav1.LabelSelector{}},
		limited: true, closed: true,
	},
}

// wantWritten is where an object is written that comes by a way within a limit;
// empty: it is refused.
func wantWritten(way, limit, object string) string {
	w, l := limitWays[way], limits[limit]
	path := limitObjects[object].path
	switch {
	case w.crds && object != kindCRD:
		return "" // whatever limits it
	case w.crds && !l.closed, !l.limited:
		return path
	case object == "Secret" && l.forced && !w.hook:
		return strings.Replace(path, "kube-system", "team-a", 1)
	}
	return ""
}

// What is outside of a limit is refused by whatever way it comes, before
// anything is written; and a folder for CRDs holds nothing else.
func TestLimit(t *testing.T) {
	for way, w := range limitWays {
		for limit, l := range limits {
			for object, o := range limitObjects {
				t.Run(way+"/"+limit+"/"+object, func(t *testing.T) {
					t.Parallel()
					cluster := newFakeCluster(t)
					options := *l.options.DeepCopy()
					options.YAML = &fleet.YAMLOptions{Overlays: []string{"prod"}}
					d := rendered(options, w.files(o.text))
					d.AdminNamespace = l.admin
					err := cluster.client(t).Install(t.Context(), d)
					want := wantWritten(way, limit, object)
					if want != "" {
						if err != nil || !slices.Contains(cluster.writes(), "POST "+want) {
							t.Fatalf("want %s written, got %v: %v", want, cluster.writes(), err)
						}
						return
					}
					if !reconcile.IsTerminal(err) {
						t.Fatalf("want it refused for good, got %v; written: %v", err, cluster.writes())
					}
					for _, piece := range []string{w.source, object, "pwn"} {
						if !strings.Contains(err.Error(), piece) {
							t.Errorf("want %q in %q", piece, err)
						}
					}
					if len(cluster.written) > 0 {
						t.Errorf("written all the same: %v", cluster.written)
					}
				})
			}
		}
	}
}

// Before an upgrade, too, nothing is written; but Helm installs no CRDs then, so
// those that are there already hold up no upgrade.
func TestLimitUpgrade(t *testing.T) {
	d := rendered(fleet.BundleDeploymentOptions{TargetNamespace: "team-a"}, limitWays["crds"].files(limitObjects[kindCRD].text))
	cluster := newFakeCluster(t)
	client := cluster.client(t)
	if err := client.Install(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	d.AdminNamespace = true
	if err := client.Upgrade(t.Context(), d); err != nil {
		t.Errorf("nothing outside is written: %v", err)
	}
	before := len(cluster.written)
	d = rendered(d.Options, limitWays["crds"].files(limitObjects["ClusterRoleBinding"].text))
	if err := client.Upgrade(t.Context(), d); reconcile.ReasonOf(err) != release.ReasonBadChart {
		t.Errorf("the object would never be there: %v", err)
	}
	if len(cluster.written) != before {
		t.Errorf("written: %v", cluster.written[before:])
	}
}

// The last look is at what Helm is about to write, whatever was looked at before.
func TestLimitOfEngine(t *testing.T) {
	cluster := newFakeCluster(t)
	client := cluster.client(t)
	who, err := client.accountFor(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for object, o := range limitObjects {
		eng := engineOf(who, release.ID{Namespace: "team-a", Name: "app"})
		eng.limit = namespaceLimit{namespace: "team-a"}
		list, err := eng.Build(strings.NewReader(o.text), false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := eng.Create(list); reconcile.ReasonOf(err) != release.ReasonClusterScoped {
			t.Errorf("%s created: %v", object, err)
		}
		if _, err := eng.UpdateThreeWayMerge(nil, list, false); reconcile.ReasonOf(err) != release.ReasonClusterScoped {
			t.Errorf("%s updated: %v", object, err)
		}
	}
	for _, object := range []string{"ClusterRoleBinding", "Secret"} {
		eng := engineOf(who, release.ID{Namespace: "team-a", Name: "app"})
		text := limitObjects[object].text
		eng.expectCRDs([]chart.CRD{{Filename: "web/crds/pwn.yaml", File: &chart.File{Data: []byte(text)}}})
		if _, err := eng.Build(strings.NewReader(text), false); reconcile.ReasonOf(err) != release.ReasonBadChart {
			t.Errorf("%s among CRDs: %v", object, err)
		}
	}
	if len(cluster.written) > 0 {
		t.Errorf("written: %v", cluster.written)
	}
}

// What a subchart brings that is switched off is not written, and is no
// error; a file that parsers may read differently is refused.
func TestLimitOfCharts(t *testing.T) {
	off := limitWays["crds-of-subchart"].files(limitObjects["Secret"].text)
	off["Chart.yaml"] = limitChart + "dependencies: [{name: sub, version: 1.0.0, condition: sub.enabled}]\n"
	off["values.yaml"] = "sub: {enabled: false}\n"
	off["crds/a.yaml"] = limitObjects[kindCRD].text
	cluster := newFakeCluster(t)
	err := cluster.client(t).Install(t.Context(), rendered(fleet.BundleDeploymentOptions{DefaultNamespace: "team-a"}, off))
	if got := cluster.writes(); err != nil || !slices.Equal(got, []string{"POST " + limitObjects[kindCRD].path}) {
		t.Errorf("want the CRD alone, got %v: %v", got, err)
	}

	second := map[string]string{"Chart.yaml": limitChart, "crds/a.yaml": limitObjects[kindCRD].text, "crds/b.yaml": limitObjects["Secret"].text}
	cluster = newFakeCluster(t)
	err = cluster.client(t).Install(t.Context(), rendered(fleet.BundleDeploymentOptions{DefaultNamespace: "team-a"}, second))
	if reconcile.ReasonOf(err) != release.ReasonBadChart || len(cluster.written) > 0 {
		t.Errorf("the CRD before the Secret was written: %v: %v", cluster.written, err)
	}

	stream := map[string]string{"Chart.yaml": limitChart, "crds/a.json": `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"pwns.x.io"}}
{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pwn","namespace":"kube-system"}}`}
	cluster = newFakeCluster(t)
	err = cluster.client(t).Install(t.Context(), rendered(fleet.BundleDeploymentOptions{DefaultNamespace: "team-a"}, stream))
	if !reconcile.IsTerminal(err) || len(cluster.written) > 0 {
		t.Errorf("written: %v: %v", cluster.written, err)
	}
}

// A fleet.yaml that cannot be deployed as it stands is found without a cluster.
func TestLimitRender(t *testing.T) {
	for object, o := range limitObjects {
		for _, way := range []string{"crds", "crds-of-subchart"} {
			_, err := Render(rendered(fleet.BundleDeploymentOptions{}, limitWays[way].files(o.text)), RenderOptions{})
			if (err != nil) != (object != kindCRD) {
				t.Errorf("%s, %s: %v", way, object, err)
			}
			if err != nil && !strings.HasPrefix(err.Error(), limitWays[way].source+": "+object+" ") {
				t.Errorf("%s, %s: no file in %v", way, object, err)
			}
		}
	}
}

func TestRightsOf(t *testing.T) {
	selector := &metav1.LabelSelector{}
	cases := map[string]struct {
		why     string
		options fleet.BundleDeploymentOptions
		want    string
	}{
		"None":     {"no limit, no namespace", fleet.BundleDeploymentOptions{DefaultNamespace: "a"}, ""},
		"Forced":   {"namespace is a limit", fleet.BundleDeploymentOptions{DefaultNamespace: "a", TargetNamespace: "b"}, "b"},
		"Selector": {"the labels of one namespace were looked at", fleet.BundleDeploymentOptions{DefaultNamespace: "a", AllowedTargetNamespaceSelector: selector}, "a"},
		"Default":  {"which may be the namespace default", fleet.BundleDeploymentOptions{AllowedTargetNamespaceSelector: selector}, "default"},
		"Both":     {"the forced one goes before", fleet.BundleDeploymentOptions{TargetNamespace: "b", AllowedTargetNamespaceSelector: selector}, "b"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := RightsOf(c.options).Namespace; got != c.want {
				t.Errorf("%s: want %q, got %q", c.why, c.want, got)
			}
		})
	}
}

// A release remembers which CRDs its chart has brought beside its manifest: those
// of subcharts that are on, and not what the chart's own annotations claim.
func TestReleaseRemembersCRDs(t *testing.T) {
	options := fleet.BundleDeploymentOptions{DefaultNamespace: "team-a"}
	files := limitWays["crds-of-subchart"].files(limitObjects[kindCRD].text)
	files["Chart.yaml"] += "annotations: {fleet.cattle.io/crds: others.x.io}\n"
	files["crds/b.yaml"] = strings.ReplaceAll(limitObjects[kindCRD].text, "pwns", "a-pwns") + "---\n# nothing\n"
	cluster := newFakeCluster(t)
	client := cluster.client(t)
	remembers := func(want ...string) {
		t.Helper()
		o, err := client.Observe(t.Context(), IDOf("app", options))
		if err != nil || !slices.Equal(o.CRDs, want) {
			t.Errorf("want %v, got %v: %v", want, o.CRDs, err)
		}
	}
	if err := client.Install(t.Context(), rendered(options, files)); err != nil {
		t.Fatal(err)
	}
	remembers("a-pwns.x.io", "pwns.x.io")
	off := maps.Clone(files)
	off["Chart.yaml"] = limitChart + "dependencies: [{name: sub, version: 1.0.0, condition: sub.enabled}]\n"
	off["values.yaml"] = "sub: {enabled: false}\n"
	if err := client.Upgrade(t.Context(), rendered(options, off)); err != nil {
		t.Fatal(err)
	}
	remembers("a-pwns.x.io")
	plain := map[string]string{"Chart.yaml": limitChart + "annotations: {fleet.cattle.io/crds: others.x.io}\n"}
	if err := client.Upgrade(t.Context(), rendered(options, plain)); err != nil {
		t.Fatal(err)
	}
	remembers()
	if got := notedCRDs(map[string]string{fleet.ReleaseCRDs: "a.x,../b,,c.x"}); !slices.Equal(got, []string{"a.x", "c.x"}) {
		t.Errorf("names that cannot be are left out: %v", got)
	}
	if got := notedCRDs(map[string]string{fleet.ReleaseCRDs: strings.Repeat("a.x,", 10*maxCRDs)}); len(got) > maxCRDs {
		t.Errorf("%d CRDs", len(got))
	}
}
