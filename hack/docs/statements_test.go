package docs

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// untrue are statements that were in pages and are not true, with what is.
var untrue = map[string]*regexp.Regexp{
	"the manager connects to clusters that it imports by a kubeconfig": regexp.MustCompile(`manager never\s+connects`),
	"caBundle is base64 of PEM":                                        regexp.MustCompile(`caBundle holds PEM`),
	"an address with … cannot be pasted":                               regexp.MustCompile(`\$schema=\S*…`),
	"images and programs are not published":                            regexp.MustCompile(`(?i)docker pull fleetworkspace|images are published at`),
	"a GitRepo does not use Rancher's authorities":                     regexp.MustCompile(`those of the system, and Rancher`),
}

// No page says what is not true.
func TestUntrueStatements(t *testing.T) {
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" || entry.Name() == "CHANGELOG.md" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for truth, statement := range untrue {
			if found := statement.Find(text); found != nil {
				t.Errorf("%s says %q: %s", path, found, truth)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The pages that say how manager and clusters are connected name the exception:
// clusters that are imported.
func TestConnectionsOfTheManager(t *testing.T) {
	for name, section := range map[string]string{
		"security.md": "## Who holds what", "architecture.md": "# Architecture", "registration.md": "# How clusters come in",
	} {
		_, text, found := strings.Cut("\n"+page(t, name), "\n"+section+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		if !found || !strings.Contains(text, "(imports.md)") {
			t.Errorf("docs/%s does not say under %q that the manager connects to clusters that it imports", name, section)
		}
	}
	if !strings.Contains(page(t, "security.md"), "`kubeConfigSecret`") {
		t.Error("docs/security.md does not list the kubeconfig of an import among the credentials")
	}
}

// caBundle is base64 of PEM, as the kind's description and docs/git.md say, and
// not PEM.
func TestCABundleIsBase64(t *testing.T) {
	const pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	for value, good := range map[string]bool{pem: false, base64.StdEncoding.EncodeToString([]byte(pem)): true} {
		text, err := json.Marshal(map[string]string{"caBundle": value})
		if err != nil {
			t.Fatal(err)
		}
		var spec fleet.GitRepoSpec
		if err := json.Unmarshal(text, &spec); (err == nil) != good || good && string(spec.CABundle) != pem {
			t.Errorf("caBundle %q: %v", value, err)
		}
	}
	crd, err := os.ReadFile(filepath.Join(root, "charts/fleet-crd/templates/gitrepos.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(crd), "\n              caBundle:\n")
	text, _, _ = strings.Cut(text, "\n              clientSecretName:\n")
	if !strings.Contains(text, "base64") || !strings.Contains(page(t, "git.md"), "`caBundle` is one base64 string of the PEM text") {
		t.Errorf("who reads the description or docs/git.md does not learn that it is base64:\n%s", text)
	}
}
