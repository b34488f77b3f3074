package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"sigs.k8s.io/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/helmop"
)

// helmOp is a block of a page that shows a HelmOp.
var helmOp = regexp.MustCompile("(?s)```yaml\n(apiVersion: [^\n]*\nkind: HelmOp\n.*?)```")

// Each HelmOp that a page shows has only fields that exist, and names a chart that the
// manager accepts.
func TestHelmOpsInPages(t *testing.T) {
	for _, path := range []string{"docs/helmops.md", "examples/README.md"} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		found := helmOp.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s shows no HelmOp", path)
		}
		for _, block := range found {
			var op fleet.HelmOp
			if err := yaml.UnmarshalStrict(block[1], &op); err != nil {
				t.Errorf("%s: %v\n%s", path, err, block[1])
			}
			if err := helmop.SpecError(&op.Spec); err != nil {
				t.Errorf("%s: %v\n%s", path, err, block[1])
			}
		}
	}
}
