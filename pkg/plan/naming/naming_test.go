package naming_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

func TestLimit(t *testing.T) {
	tests := map[string]struct {
		in   string
		n    int
		want string
		why  string
	}{
		"Fits":    {"1234567", 7, "1234567", "nothing to cut"},
		"Cut":     {"12345678", 7, "1-25d55", "known vector"},
		"Longer":  {"123456789", 8, "12-25f9e", "known vector"},
		"Dash":    {"1-3456789", 8, "1-9b657", "known vector: no second dash"},
		"NoRoom":  {"12345678", 6, "123456", "no room for a digest"},
		"Nothing": {"12345678", 0, "", "no room at all"},
		"Minus":   {"12345678", -1, "", "no room at all"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			if got := naming.Limit(c.in, c.n); got != c.want {
				t.Errorf("got %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

func TestReleaseName(t *testing.T) {
	tests := map[string]string{
		"one/multi-cluster/hello-world":                          "one-multi-cluster-hello-world",
		"bundle.name.example.com":                                "bundle-name-example-com-645ef821",
		"long-name-test-0.App_ ":                                 "long-name-test-0-app-5bf6b3fb",
		"long-name-test--App_-_12.factor":                        "long-name-test-app-12-factor-0efbac37",
		"opni-fleet-examples-fleets-opni-ui-plugin-operator-crd": "opni-fleet-examples-fleets-opni-ui-plugin-opera-021f7",
		"my_repo/Path/UPPER":                                     "my-repo-path-upper-e0e8259f",
		"-":                                                      "336d5ebc5436534e61d16e63",
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			if got := naming.ReleaseName(in); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestBundleName(t *testing.T) {
	tests := map[string]struct{ repo, dir, options, want string }{
		"Root":    {"repo", ".", "", "repo"},
		"Path":    {"repo", "a/b", "", "repo-a-b"},
		"Slash":   {"repo", "/a/", "", "repo-a"},
		"Options": {"repo", "a", "dev.yaml", "repo-a-dev"},
		"Below":   {"repo", "a", "env/dev.yml", "repo-a-env-dev"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			if got := naming.BundleName(c.repo, c.dir, c.options); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSafeConcat(t *testing.T) {
	a63, a64 := strings.Repeat("a", 63), strings.Repeat("a", 64)
	tests := map[string]struct {
		parts []string
		want  string
		why   string
	}{
		"Short": {[]string{"a", "b", "c"}, "a-b-c", "nothing to shorten"},
		"Just":  {[]string{a63}, a63, "63 is allowed"},
		"Over":  {[]string{a64}, a64[:57] + "-ffe05", "ends in a letter"},
		"Dash":  {[]string{a64[:56], "bcdefghi"}, a64[:56] + "-371b52", "never two dashes at the cut"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			if got := naming.SafeConcat(c.parts...); got != c.want || len(got) > 63 {
				t.Errorf("got %q, want %q: %s", got, c.want, c.why)
			}
		})
	}
}

// The names of objects; those that come from elsewhere are known vectors.
func TestObjects(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	tests := map[string]struct{ got, want string }{
		"LocalClusterNamespace":      {naming.ClusterNamespace("fleet-local", "local"), "cluster-fleet-local-local-1a3d67d0a899"},
		"DownstreamClusterNamespace": {naming.ClusterNamespace("fleet-default", "downstream1"), "cluster-fleet-default-downstream1-32d08b529583"},
		"LongClusterNamespace":       {naming.ClusterNamespace("fleet-default", "a-very-long-cluster-name-that-goes-over-the-limit-of-63"), "cluster-fleet-default-a-very-long-cluster-name-that-goes-3b614d"},
		"RegisteredCluster":          {naming.RegisteredCluster("really-random"), "cluster-08f9d8eb5b7d"},
		"RegistrationSecret":         {naming.RegistrationSecret("client", "random"), "c-8150d44f100d34d77e6d8589694d05645ec40ee2f47982eda19053e416662"},
		"ImportToken":                {naming.ImportToken("c1"), "import-token-c1"},
		"TokenAccount":               {naming.TokenAccount("token", "uid"), "token-uid"},
		"TokenRole":                  {naming.TokenRole("token-uid"), "token-uid-role"},
		"TokenRoleBinding":           {naming.TokenRoleBinding("token-uid"), "token-uid-to-role"},
		"AccountToken":               {naming.AccountToken("token-uid"), "token-uid-token"},
		"RequestAccount":             {naming.RequestAccount("request-x", "uid"), "request-x-uid"},
		"ContentBinding":             {naming.ContentBinding("request-x"), "request-x-content"},
		"CredentialRole":             {naming.CredentialRole("request-x"), "request-x-creds"},
		"AgentBundle":                {naming.AgentBundle("c1"), "fleet-agent-c1"},
		"CABundle":                   {naming.CABundleSecret("repo"), "repo-cabundle"},
		"RancherCABundle":            {naming.RancherCABundleSecret("repo"), "repo-rancher-cabundle"},
		"ImageScan":                  {naming.ImageScan("bundle", 1), "imagescan-bundle-1"},
		"ChartDir":                   {naming.ChartDir("c", "r", "v"), ".chart/708b7b8826688a3517b72dbaeb61c7e1299cf77d5d6c992b5b7668e0ba511ebc"},
		"ChartVersionOfCommit":       {naming.ChartVersion(commit, "s-1"), "v0.0.0+git-0123456789ab"},
		"ChartVersionOfShortCommit":  {naming.ChartVersion("abc", "s-1"), "v0.0.0+git-abc"},
		"ChartVersionOfContent":      {naming.ChartVersion("", "s-1"), "v0.0.0+s-1"},
		"RegistrationNamespace":      {naming.SystemRegistrationNamespace("cattle-fleet-system"), "cattle-fleet-clusters-system"},
		"RegistrationNamespaceOther": {naming.SystemRegistrationNamespace("fleet"), "fleet-clusters-system"},
		"ObjectSet":                  {naming.ObjectSetID("repo-a", ""), "default-repo-a"},
		"ObjectSetScoped":            {naming.ObjectSetID("repo-a", "ns"), "default-repo-a-ns"},
		"ObjectSetOfAgent":           {naming.ObjectSetID("fleet-agent-c1", ""), "fleet-agent-bootstrap"},
		"ObjectSetOfAgentScoped":     {naming.ObjectSetID("fleet-agent-c1", "ns"), "fleet-agent-bootstrap-ns"},
		"ObjectSetHash":              {naming.ObjectSetHash("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d"},
		"KeyHashOfEmpty":             {naming.KeyHash(""), "e3b0c44298fc"},
		"KeyHashIgnoresBeyond100":    {naming.KeyHash(strings.Repeat("a", 100) + "b"), naming.KeyHash(strings.Repeat("a", 100))},
		"Bucket":                     {naming.Bucket("abc"), "ba"},
		"OwnerBucket":                {naming.OwnerBucket("ns", "repo"), naming.Bucket("ns/repo")},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("got %q, want %q", c.got, c.want)
			}
		})
	}
}

func TestStatusHash(t *testing.T) {
	got, err := naming.StatusHash(map[string]string{"a": "b"})
	if err != nil || len(got) != 56 {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := naming.StatusHash(func() {}); err == nil {
		t.Error("a function has no JSON")
	}
}

func TestUserKeys(t *testing.T) {
	got := naming.UserKeys(map[string]string{
		"env":                              "prod",
		"example.com/team":                 "a",
		"fleet.cattle.io/cluster":          "c",
		"management.cattle.io/cluster":     "c",
		"objectset.rio.cattle.io/hash":     "h",
		"kubectl.kubernetes.io/last":       "l",
		"app.kubernetes.io/name":           "n",
		"sub.kubectl.kubernetes.io/anyway": "y",
	})
	want := map[string]string{"env": "prod", "example.com/team": "a", "app.kubernetes.io/name": "n", "sub.kubectl.kubernetes.io/anyway": "y"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got: %s", diff)
	}
}

// Whatever a directory is called, its bundle can be created.
func FuzzReleaseName(f *testing.F) {
	valid := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?$`)
	for _, s := range []string{"", "-", "a/b", "Ä", "a.b", strings.Repeat("x-", 40), strings.Repeat("-", 100)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := naming.ReleaseName(s); !valid.MatchString(got) {
			t.Errorf("%q gives %q", s, got)
		}
	})
}
