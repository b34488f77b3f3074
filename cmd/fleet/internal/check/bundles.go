package check

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/helm"
	"github.com/fleetworkspace/fleet/pkg/plan/content"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
)

// readBundles reads the Bundles with what decides whether this version deploys
// them. Secrets that this user may not read are left out.
func (c *checker) readBundles(ctx context.Context) error {
	bundles, err := client.ListAs[fleet.Bundle](ctx, c.Session, cli.MustKind("bundles"), "")
	if err != nil {
		return err
	}
	if c.seen.Bundles.Repos, err = c.gitRepos(ctx); err != nil {
		return err
	}
	for _, b := range bundles {
		refused := refusedFiles(&b.Spec)
		b.Spec.Resources = nil
		if err := c.readValues(ctx, b); err != nil {
			return err
		}
		seen := diagnose.BundleSeen{Bundle: b, Origins: map[deployment.Source]deployment.Origin{}, Loads: refused}
		sources, err := deployment.Sources(&b.Spec)
		if err != nil {
			sources = nil // its status says so
		}
		for _, one := range sources {
			origin, known, err := c.origin(ctx, b.Namespace, one)
			if err != nil {
				return err
			}
			if known {
				seen.Origins[one] = origin
			}
		}
		c.seen.Bundles.Bundles = append(c.seen.Bundles.Bundles, seen)
	}
	return nil
}

// refusedFiles is why agents refuse a kustomization or the schema of a chart of a
// Bundle, with its own options or those of a target; empty if they do not.
func refusedFiles(spec *fleet.BundleSpec) string {
	files := content.Manifest{Resources: spec.Resources}
	dirs := []*fleet.KustomizeOptions{spec.Kustomize}
	all := []fleet.BundleDeploymentOptions{spec.BundleDeploymentOptions}
	for _, t := range spec.Targets {
		if t.Kustomize != nil {
			dirs = append(dirs, t.Kustomize)
		}
		if t.Helm != nil {
			all = append(all, options.Merge(spec.BundleDeploymentOptions, t.BundleDeploymentOptions))
		}
	}
	if err := cmp.Or(helm.CheckKustomizations(files, dirs...), helm.CheckSchemas(files, all...)); err != nil {
		return err.Error()
	}
	return ""
}

// readValues puts the values back that a Bundle keeps in a Secret.
func (c *checker) readValues(ctx context.Context, b *fleet.Bundle) error {
	if b.Spec.ValuesHash == "" {
		return nil
	}
	u, err := c.API.Get(ctx, client.Secrets, b.Namespace, b.Name)
	if u == nil || err != nil {
		return client.DescribeServerError(c.Server, unreadOK(err))
	}
	secret, err := client.Convert[corev1.Secret](u)
	if err != nil {
		return err
	}
	if options.BundleValuesHash(secret.Data) != b.Spec.ValuesHash {
		return nil // it is being written
	}
	return options.ApplyBundleValues(&b.Spec, secret.Data)
}

// origin is what a Bundle takes along, without its data; false where it is not
// there, or may not be read.
func (c *checker) origin(ctx context.Context, namespace string, one deployment.Source) (deployment.Origin, bool, error) {
	if one.Kind == deployment.KindConfigMap {
		u, err := c.API.Get(ctx, client.ConfigMaps, namespace, one.Name)
		if u == nil || err != nil {
			return deployment.Origin{}, false, client.DescribeServerError(c.Server, unreadOK(err))
		}
		return deployment.OriginOf(u, ""), true, nil
	}
	u, err := c.API.Get(ctx, client.Secrets, namespace, one.Name)
	if u == nil || err != nil {
		return deployment.Origin{}, false, client.DescribeServerError(c.Server, unreadOK(err))
	}
	secret, err := client.Convert[corev1.Secret](u)
	if err != nil {
		return deployment.Origin{}, false, err
	}
	return deployment.OriginOf(secret, secret.Type), true, nil
}

// unreadOK drops the errors of what is not there or may not be read.
func unreadOK(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return client.AbsentOK(err)
}
