package rancher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Charts is the manager of Rancher's system charts, which installs Fleet
// (rancher-differences.md, A 1 and D: pkg/catalogv2/system/system.go).
type Charts struct {
	Helm       func() *action.Configuration // for the namespace of Fleet
	Client     kubernetes.Interface         // reads nodes
	Namespace  string
	Repository []*chart.Chart // the one named rancher-charts, of which alone it installs
	Timeout    time.Duration  // of one operation
}

// Ensure installs or upgrades a chart of the repository as the release of its name.
// A release that is not below the version least stays, or is upgraded to its own version
// where its values are not those that are wanted. It reports whether it has done anything;
// that a version is not in the repository is an error.
func (c *Charts) Ensure(ctx context.Context, name, least string, values map[string]any) (bool, error) {
	if c.find(name, least) == nil {
		return false, fmt.Errorf("specified version %s doesn't exist in the index", least)
	}
	installed, version, values, err := c.wanted(name, least, values)
	if err != nil || installed {
		return false, err
	}
	if values["tolerations"] == nil { // those that a release has stay
		tolerations, err := c.tolerations(ctx)
		if err != nil {
			return false, err
		}
		if len(tolerations) > 0 {
			values["tolerations"] = tolerations
		}
	}
	found := c.find(name, version)
	if found == nil {
		return false, fmt.Errorf("no chart version found for %s-%s", name, version)
	}
	return true, c.operate(ctx, found, values)
}

// wanted reports whether a release is as it should be; else with which version and values
// it is to be upgraded. Values are those of the release with the wanted ones merged in.
func (c *Charts) wanted(name, least string, values map[string]any) (bool, string, map[string]any, error) {
	if values == nil {
		values = map[string]any{}
	}
	release, err := action.NewGet(c.Helm()).Run(name)
	switch {
	case errors.Is(err, driver.ErrReleaseNotFound):
		return false, least, values, nil
	case err != nil:
		return false, "", nil, err
	}
	has, err := json.Marshal(release.Config)
	if err != nil {
		return false, "", nil, err
	}
	if release.Config == nil {
		has = []byte("{}")
	}
	wants, err := json.Marshal(values)
	if err != nil {
		return false, "", nil, err
	}
	merged, err := jsonpatch.MergePatch(has, wants)
	if err != nil {
		return false, "", nil, err
	}
	out := map[string]any{}
	if err := json.Unmarshal(merged, &out); err != nil {
		return false, "", nil, err
	}
	current, err := semver.NewVersion(release.Chart.Metadata.Version)
	if err != nil {
		return false, "", nil, err
	}
	if current.LessThan(semver.MustParse(least)) {
		return false, least, out, nil
	}
	return bytes.Equal(merged, has), release.Chart.Metadata.Version, out, nil
}

// operate is the operation of Rancher's shell: "helm upgrade --install --reset-values
// --take-ownership --wait --history-max=5".
func (c *Charts) operate(ctx context.Context, what *chart.Chart, values map[string]any) error {
	if _, err := action.NewGet(c.Helm()).Run(what.Name()); errors.Is(err, driver.ErrReleaseNotFound) {
		do := action.NewInstall(c.Helm())
		do.ReleaseName, do.Namespace, do.CreateNamespace, do.TakeOwnership, do.Wait, do.Timeout = what.Name(), c.Namespace, true, true, true, c.Timeout
		_, err := do.RunWithContext(ctx, what, values)
		return err
	}
	do := action.NewUpgrade(c.Helm())
	do.Namespace, do.ResetValues, do.TakeOwnership, do.MaxHistory, do.Wait, do.Timeout = c.Namespace, true, true, 5, true, c.Timeout
	_, err := do.RunWithContext(ctx, what.Name(), what, values)
	return err
}

// find is a chart of the repository; nil where it has not that version.
func (c *Charts) find(name, version string) *chart.Chart {
	at := slices.IndexFunc(c.Repository, func(one *chart.Chart) bool { return one.Name() == name && one.Metadata.Version == version })
	if at < 0 {
		return nil
	}
	return c.Repository[at]
}

// tolerations are those of the taints of the control plane, as Helm has values.
func (c *Charts) tolerations(ctx context.Context) ([]any, error) {
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/control-plane=true"})
	if err != nil {
		return nil, err
	}
	var out []any
	for i := range nodes.Items {
		for _, t := range nodes.Items[i].Spec.Taints {
			one := map[string]any{"key": t.Key, "operator": "Equal", "effect": string(t.Effect)}
			if t.Value != "" {
				one["value"] = t.Value
			}
			out = append(out, one)
		}
	}
	return out, nil
}
