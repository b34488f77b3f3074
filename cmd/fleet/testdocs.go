package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	plantarget "github.com/fleetworkspace/fleet/pkg/plan/target"
)

// matched names the target and the customizations that apply.
func (r Rendering) matched() string {
	return strings.Join(append([]string{r.Target}, r.Customizations...), ", ")
}

// withValues are the options of a version with its Helm values.
func withValues(v deployment.Version) (fleet.BundleDeploymentOptions, error) {
	return options.WithValues(v.Options, v.Values)
}

func groupOf(name string, labels map[string]string) plantarget.Group {
	return plantarget.Group{Name: name, Labels: labels}
}

// documentsOf takes a stream of YAML apart. It leaves out documents without an object.
func documentsOf(text string) ([]map[string]any, error) {
	out := []map[string]any{}
	decode := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		doc := map[string]any{}
		err := decode.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read what was rendered: %w", err)
		}
		if len(doc) > 0 {
			out = append(out, doc)
		}
	}
}
