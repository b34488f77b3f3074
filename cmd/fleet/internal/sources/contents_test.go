package sources

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
)

// noise is text that does not compress well.
func noise(bytes int) string {
	raw := make([]byte, bytes)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(raw)
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	for i := range raw {
		raw[i] = letters[raw[i]%64]
	}
	return string(raw)
}

// A large bundle is shown in parts, and deployed from them; none may be missing
// or another.
func TestContentsInParts(t *testing.T) {
	b := &fleet.Bundle{}
	b.Name = "big"
	b.Spec.Resources = []fleet.BundleResource{{Name: "a.yaml", Content: noise(3 << 20)}}
	s := Source{Bundle: b}
	list, err := s.Contents(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 3 {
		t.Fatalf("want parts and an index, got %d objects", len(list))
	}
	id := list[len(list)-1].Name
	m, err := ManifestOf(Objects{contents: list}, id)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.Spec.Resources, m.Resources); diff != "" {
		t.Error("what is unpacked is another bundle")
	}
	if _, err := ManifestOf(Objects{contents: list[1:]}, id); err == nil || !strings.Contains(err.Error(), content.PartName(id, 0)+`" is missing`) {
		t.Errorf("want the missing part named, got %v", err)
	}
	other := list[0].DeepCopy()
	other.Content[0]++
	if _, err := ManifestOf(Objects{contents: append([]*fleet.Content{other}, list[1:]...)}, id); err == nil {
		t.Error("a damaged part was taken")
	}

	// The Bundle as a server holds it: its resources are in the parts.
	stored := b.DeepCopy()
	stored.Spec.Resources, stored.Annotations = nil, map[string]string{fleet.AnnotationContent: id}
	s = Source{Bundle: stored, File: Objects{contents: list}}
	again, err := s.Contents(t.Context(), id)
	if err != nil || len(again) != len(list) {
		t.Errorf("want the parts of the file, got %d, %v", len(again), err)
	}
	s.File = Objects{}
	if _, err := s.Contents(t.Context(), id); cli.ExitCode(err, false) != 4 || !strings.Contains(err.Error(), id) {
		t.Errorf("want the missing content named, got %v", err)
	}
}
