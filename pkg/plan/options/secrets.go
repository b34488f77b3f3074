package options

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// secretKey matches the keys that Kubernetes accepts in a Secret.
var secretKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)

// BundleValuesSecretData returns the data of the Secret with the Helm values of
// a bundle and its targets, as JSON: the bundle's under values.yaml, those of
// each target under its name. It is empty if there are no values.
//
// It fails for values that have no JSON, such as infinity.
func BundleValuesSecretData(spec fleet.BundleSpec) (map[string][]byte, error) {
	data := map[string][]byte{}
	for key, o := range withKeys(&spec) {
		if !hasValues(o) {
			continue
		}
		raw, err := json.Marshal(o.Helm.Values)
		if err != nil {
			return nil, fmt.Errorf("encode values %q: %w", key, err)
		}
		data[key] = raw
	}
	return data, nil
}

// BundleValuesHash binds a bundle to the data of its values Secret. No data
// have the hash "".
func BundleValuesHash(data map[string][]byte) string {
	if len(data) == 0 {
		return ""
	}
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // a map of bytes always has a JSON
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// StripBundleValues takes the Helm values of the bundle and its targets out of
// spec. Take BundleValuesSecretData first.
func StripBundleValues(spec *fleet.BundleSpec) {
	for _, o := range withKeys(spec) {
		if o.Helm != nil {
			o.Helm.Values = nil
		}
	}
}

// ApplyBundleValues puts the values of a Secret, made by
// BundleValuesSecretData, back into spec. Keys of targets that are gone are
// ignored.
func ApplyBundleValues(spec *fleet.BundleSpec, data map[string][]byte) error {
	for key, o := range withKeys(spec) {
		raw, ok := data[key]
		if !ok {
			continue
		}
		values := &fleet.GenericMap{}
		if err := json.Unmarshal(raw, values); err != nil {
			return fmt.Errorf("values %q of the bundle's Secret: not a JSON object", key)
		}
		ensure(&o.Helm).Values = values
	}
	return nil
}

// SplitValues returns o without Helm values, and the values as JSON: nil if
// there are none. o itself is left as it is.
//
// It fails for values that have no JSON, such as infinity.
func SplitValues(o fleet.BundleDeploymentOptions) (fleet.BundleDeploymentOptions, []byte, error) {
	if !hasValues(&o) {
		return StripValues(o), nil, nil
	}
	raw, err := json.Marshal(o.Helm.Values)
	if err != nil {
		return o, nil, fmt.Errorf("encode values: %w", err)
	}
	return StripValues(o), raw, nil
}

// StripValues returns o without Helm values. o itself is left as it is.
func StripValues(o fleet.BundleDeploymentOptions) fleet.BundleDeploymentOptions {
	if o.Helm != nil && o.Helm.Values != nil {
		helm := *o.Helm
		helm.Values = nil
		o.Helm = &helm
	}
	return o
}

// WithValues returns o with the values that SplitValues took out. o itself is
// left as it is.
func WithValues(o fleet.BundleDeploymentOptions, values []byte) (fleet.BundleDeploymentOptions, error) {
	if len(values) == 0 {
		return o, nil
	}
	data := &fleet.GenericMap{}
	if err := json.Unmarshal(values, data); err != nil {
		return o, fmt.Errorf("values of the deployment's Secret: not a JSON object")
	}
	helm := fleet.HelmOptions{}
	if o.Helm != nil {
		helm = *o.Helm
	}
	helm.Values = data
	o.Helm = &helm
	return o, nil
}

// DeploymentValuesHash binds a deployment to the two sets of values in its
// Secret. No values have the hash "".
func DeploymentValuesHash(values, staged []byte) string {
	if len(values) == 0 && len(staged) == 0 {
		return ""
	}
	h := sha256.New()
	h.Write(values)
	h.Write(staged)
	return hex.EncodeToString(h.Sum(nil))
}

func hasValues(o *fleet.BundleDeploymentOptions) bool {
	return o.Helm != nil && o.Helm.Values != nil && len(o.Helm.Values.Data) > 0
}

// withKeys returns the options of the bundle and of its targets, by their keys
// in the values Secret. The key of a target is its name. One whose name cannot
// be a key, or is taken, gets a key made of its place in the list.
func withKeys(spec *fleet.BundleSpec) map[string]*fleet.BundleDeploymentOptions {
	all := map[string]*fleet.BundleDeploymentOptions{
		fleet.KeyBundleValues: &spec.BundleDeploymentOptions,
	}
	names := map[string]bool{}
	for _, t := range spec.Targets {
		names[t.Name] = true
	}
	for i := range spec.Targets {
		key := spec.Targets[i].Name
		_, taken := all[key]
		if taken || !secretKey.MatchString(key) {
			key = fmt.Sprintf("target-%03d", i)
			for names[key] {
				key += "-"
			}
		}
		all[key] = &spec.Targets[i].BundleDeploymentOptions
	}
	return all
}
