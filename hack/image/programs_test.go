package main

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// agentLimitBytes is how large the agent's image may be: it goes to each cluster,
// over lines that may be thin.
const agentLimitBytes = 25 << 20

// built makes an image of real programs.
func built(t *testing.T, o options, r recipe, arch string) image {
	t.Helper()
	bin := t.TempDir()
	if err := o.build(context.Background(), arch, bin, []recipe{r}); err != nil {
		t.Fatal(err)
	}
	root, err := r.rootfs(bin, o)
	if err != nil {
		t.Fatal(err)
	}
	i, err := r.image(root, arch, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s linux/%s: %.1f MiB compressed, %.1f MiB unpacked, %s", r.name, arch, mebibytes(i.layer.Size), mebibytes(i.unpackedBytes), i.manifest.Digest)
	return i
}

func realOptions(t *testing.T) options {
	t.Helper()
	o, err := parse([]string{"-out=unused"}, func(string) string { return "" })
	if err != nil {
		t.Skip(err)
	}
	o.log = io.Discard
	return o
}

// The agent's image from the agent's source: small, and the same when it is made
// again.
func TestAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the agent twice")
	}
	o := realOptions(t)
	agent := recipes[1]
	first := built(t, o, agent, "amd64")
	if first.layer.Size > agentLimitBytes {
		t.Errorf("%.1f MiB are more than %.1f: go version -m and go tool nm -size show what weighs", mebibytes(first.layer.Size), mebibytes(agentLimitBytes))
	}
	if second := built(t, o, agent, "amd64"); first.manifest.Digest != second.manifest.Digest {
		t.Errorf("made again it is another: %s, %s", first.manifest.Digest, second.manifest.Digest)
	}
}

// Everything for both architectures, as a release is made: programs hold no path of
// the machine, so that the folder of the source does not matter.
func TestRelease(t *testing.T) {
	if os.Getenv("FLEET_TEST_SOAK") == "" {
		t.Skip("compiles everything for two architectures; go run ./hack/test -soak")
	}
	o := realOptions(t)
	elsewhere := o
	elsewhere.root = filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(elsewhere.root, os.DirFS(o.root)); err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		for _, r := range recipes {
			here := built(t, o, r, arch)
			if there := built(t, elsewhere, r, arch); here.manifest.Digest != there.manifest.Digest {
				t.Errorf("%s linux/%s depends on the folder it is built in", r.name, arch)
			}
			if r.name == "fleet-agent" && here.layer.Size > agentLimitBytes {
				t.Errorf("linux/%s: %.1f MiB", arch, mebibytes(here.layer.Size))
			}
		}
	}
	bin := t.TempDir()
	if err := o.build(t.Context(), "amd64", bin, recipes[1:]); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(bin, "fleet-agent"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), o.root) {
		t.Errorf("the agent (%x) names the folder %s", sha256.Sum256(text), o.root)
	}
}
