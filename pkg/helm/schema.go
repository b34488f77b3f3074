package helm

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// schemaFile is the file with the schema of a chart's values.
const schemaFile = "values.schema.json"

// checkSchemas refuses a chart if its values.schema.json, or that of a subchart,
// names a schema that it does not hold: Helm would download it, or read it from
// the disk of the machine. It compiles each schema as Helm does, by the same
// library, with a loader that loads nothing.
func checkSchemas(c *chart.Chart) error {
	if address := loadedBy(c.Schema); address != "" {
		return reconcile.TerminalError(release.ReasonBadChart, fmt.Errorf(
			"%s of chart %q names %w, or set helm.skipSchemaValidation: true", schemaFile, c.Name(), remote(address)))
	}
	for _, sub := range c.Dependencies() {
		if err := checkSchemas(sub); err != nil {
			return err
		}
	}
	return nil
}

// CheckSchemas returns why agents refuse a values.schema.json of a bundle's files,
// with any of these options: an error that wraps ErrRemote. It returns nil if they
// accept all of them, if there is none, or if the files cannot be read.
func CheckSchemas(m content.Manifest, options ...fleet.BundleDeploymentOptions) error {
	if !slices.ContainsFunc(m.Resources, func(r fleet.BundleResource) bool {
		return path.Base(r.Name) == schemaFile || path.Ext(r.Name) == ".tgz"
	}) {
		return nil // most bundles, and nothing has to be unpacked to know it
	}
	for _, o := range options {
		if _, err := partsOf(Deployment{Content: m, Options: o}); errors.Is(err, ErrRemote) {
			return err
		}
	}
	return nil
}

// loadedBy is the first address that a schema loads something from; empty where it
// loads nothing, or where Helm refuses it before it would.
func loadedBy(schema []byte) (address string) {
	if len(schema) == 0 {
		return ""
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return ""
	}
	loads := &noLoader{}
	defer func() {
		if recover() != nil { // as Helm does: the library panics at some schemas
			address = loads.address
		}
	}()
	const name = "file:///values.schema.json" // as Helm calls it: other addresses are relative to it
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(loads)
	if compiler.AddResource(name, doc) == nil {
		_, _ = compiler.Compile(name)
	}
	return loads.address
}

// A noLoader notes the first address that is loaded, and loads none.
type noLoader struct{ address string }

// Load loads a schema. Helm takes all schemas named by a URN for true.
func (l *noLoader) Load(address string) (any, error) {
	if strings.HasPrefix(address, "urn:") {
		return true, nil
	}
	if l.address == "" {
		l.address = address
	}
	return nil, errors.New("nothing is loaded")
}
