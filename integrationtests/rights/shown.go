package rights

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// Shown returns the requests about a Secret, and about all Secrets of its namespace,
// whose answers hold a marker. Among them are all kinds of patches, with and without
// a dry run; a request that is no dry run changes nothing, or a label.
func Shown(t testing.TB, as *rest.Config, namespace, name, marker string) []string {
	t.Helper()
	client, err := rest.HTTPClientFor(unlimited(as))
	if err != nil {
		t.Fatal(err)
	}
	all := "/api/v1/namespaces/" + namespace + "/secrets"
	one := all + "/" + name
	const dry = "?dryRun=All"
	whole := fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q,"namespace":%q}}`, name, namespace)
	label := `{"metadata":{"labels":{"seen":"yes"}}}`
	var out []string
	for _, r := range []struct{ what, method, path, kind, body string }{
		{"get", "GET", one, "", ""},
		{"list", "GET", all, "", ""},
		{"list of one", "GET", all + "?fieldSelector=metadata.name%3D" + name, "", ""},
		{"watch", "GET", all + "?watch=true&timeoutSeconds=1", "", ""},
		{"merge patch of nothing", "PATCH", one, "application/merge-patch+json", "{}"},
		{"merge patch, dry", "PATCH", one + dry, "application/merge-patch+json", "{}"},
		{"merge patch of a label", "PATCH", one, "application/merge-patch+json", label},
		{"strategic merge patch, dry", "PATCH", one + dry, "application/strategic-merge-patch+json", label},
		{"JSON patch, dry", "PATCH", one + dry, "application/json-patch+json", "[]"},
		{"apply, dry", "PATCH", one + "?fieldManager=x&force=true&dryRun=All", "application/apply-patch+yaml", whole},
		{"update, dry", "PUT", one + dry, "application/json", whole},
		{"create, dry", "POST", all + dry, "application/json", whole},
		{"delete, dry", "DELETE", one + dry, "", ""},
		{"delete in the foreground, dry", "DELETE", one + dry + "&propagationPolicy=Foreground", "", ""},
		{"delete that orphans, dry", "DELETE", one + dry + "&propagationPolicy=Orphan", "", ""},
		{"delete of all, dry", "DELETE", all + dry, "", ""},
	} {
		text, err := answer(t.Context(), client, r.method, strings.TrimSuffix(as.Host, "/")+r.path, r.kind, r.body)
		if err != nil {
			t.Fatalf("%s: %v", r.what, err)
		}
		if strings.Contains(text, marker) {
			out = append(out, r.what)
		}
	}
	return out
}

// answer returns the API server's response to a request, whatever its status.
func answer(ctx context.Context, client *http.Client, method, url, kind, body string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	got, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return string(text), err
}
