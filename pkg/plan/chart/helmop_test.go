package chart

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

const somePEM = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"

func TestHelmOpCredentials(t *testing.T) {
	other := "-----BEGIN CERTIFICATE-----\nMQ==\n-----END CERTIFICATE-----\n"
	cases := map[string]struct {
		why    string
		data   map[string][]byte
		o      fleet.BundleHelmOptions
		want   Credentials
		reason string
	}{
		"Nothing":      {"a public source", nil, fleet.BundleHelmOptions{}, Credentials{}, ""},
		"OptionsCA":    {"an authority of the options", nil, fleet.BundleHelmOptions{CABundle: []byte(somePEM)}, Credentials{CABundle: []byte(somePEM)}, ""},
		"SecretBefore": {"the Secret's own comes first", map[string][]byte{"cacerts": []byte(other)}, fleet.BundleHelmOptions{CABundle: []byte(somePEM)}, Credentials{CABundle: []byte(other)}, ""},
		"Insecure":     {"either flag is enough", map[string][]byte{"insecureSkipVerify": []byte("true")}, fleet.BundleHelmOptions{}, Credentials{InsecureSkipVerify: true}, ""},
		"InsecureToo":  {"either flag is enough", nil, fleet.BundleHelmOptions{InsecureSkipTLSverify: true}, Credentials{InsecureSkipVerify: true}, ""},
		"NoPEM":        {"what cannot be right is refused", nil, fleet.BundleHelmOptions{CABundle: []byte("x")}, Credentials{}, ReasonInvalidCredentials},
		"Half":         {"a user name alone", map[string][]byte{"username": []byte("u")}, fleet.BundleHelmOptions{}, Credentials{}, ReasonInvalidCredentials},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := HelmOpCredentials(c.data, c.o)
			if c.reason != "" {
				if reconcile.ReasonOf(err) != c.reason {
					t.Errorf("%s: got %v", c.why, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestHelmOpAccess(t *testing.T) {
	c := Credentials{Username: "u", Password: "p"}
	repo := Request{Repo: "https://name:pass@charts.example.com/a.b", Chart: "app"}
	registry := Request{Repo: "oci://registry.example.com/charts/app"}
	archive := Request{Chart: "https://files.example.com/app-1.0.0.tgz"}
	a := HelmOpAccess(c, []Request{repo, registry, archive})
	for source, want := range map[string]bool{
		repo.Repo:                                  true,
		"https://charts.example.com/a.b":           true,
		"https://charts.example.com/aXb":           false,
		"https://charts.example.com.evil.example/": false,
		"http://charts.example.com/a.b":            false,
		registry.Repo:                              true,
		"oci://other.example.com/charts/app":       false,
		archive.Chart:                              true,
	} {
		got, err := a.Send(c, source)
		if err != nil || (got.Password != "") != want {
			t.Errorf("send to %s: %t, want %t (%v)", source, got.Password != "", want, err)
		}
	}
	for source, want := range map[string]bool{
		"https://charts.example.com/elsewhere/app-1.0.0.tgz": true, // the same origin
		"https://cdn.example.com/app-1.0.0.tgz":              false,
		"https://charts.example.com:8443/app-1.0.0.tgz":      false,
	} {
		got, err := a.SendOn(c, repo.Repo, source)
		if err != nil || (got.Password != "") != want {
			t.Errorf("an index names %s: %t, want %t (%v)", source, got.Password != "", want, err)
		}
	}
}

func TestKeyOf(t *testing.T) {
	a := []Request{{Repo: "https://x", Chart: "a", Version: "1"}}
	b := []Request{{Repo: "https://x", Chart: "a1"}}
	if KeyOf(a) == KeyOf(b) || KeyOf(a) != KeyOf([]Request{a[0]}) {
		t.Error("lists differ by what they ask for")
	}
}

func TestResources(t *testing.T) {
	got, err := Resources(".chart/x", fstest.MapFS{
		"app/Chart.yaml":           {Data: []byte("name: app")},
		"app/templates/cm.yaml":    {Data: []byte("a: 1")},
		"app/charts/dep-1.0.0.tgz": {Data: []byte{0x1f, 0x8b, 0xff}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range got {
		names = append(names, r.Name+" "+r.Encoding)
	}
	want := []string{".chart/x/app/Chart.yaml ", ".chart/x/app/charts/dep-1.0.0.tgz base64+gz", ".chart/x/app/templates/cm.yaml "}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for why, files := range map[string]fstest.MapFS{
		"no chart":              {"app/readme.md": {Data: []byte("x")}},
		"a chart too far below": {"a/b/Chart.yaml": {Data: []byte("x")}},
	} {
		if _, err := Resources("x", files); reconcile.ReasonOf(err) != ReasonInvalidChart {
			t.Errorf("%s: got %v", why, err)
		}
	}
}
