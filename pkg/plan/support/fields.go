package support

import (
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// collect keeps the names of the fields that are set.
type collect []string

func (c *collect) add(set bool, name string) {
	if set {
		*c = append(*c, name)
	}
}

func gitRepo(s *fleet.GitRepoSpec) []string {
	var c collect
	c.add(s.HelmSecretName != "", "helmSecretName")
	c.add(s.HelmSecretNameForPaths != "", "helmSecretNameForPaths")
	c.add(s.HelmRepoURLRegex != "", "helmRepoURLRegex")
	c.add(s.WebhookSecret != "", "webhookSecret")
	c.add(s.ImageScanInterval != nil, "imageScanInterval")
	c.add(s.ImageScanCommit != nil, "imageScanCommit")
	c.add(s.DeleteNamespace, "deleteNamespace")
	c.add(s.OCIRegistrySecret != "", "ociRegistrySecret")
	return c
}

func bundle(s *fleet.BundleSpec) []string {
	var c collect
	c.add(len(s.DependsOn) > 0, "dependsOn")
	c.add(s.ContentsID != "", "contentsId")
	c.add(s.HelmOpOptions != nil, "helmOpOptions")
	c.options(&s.BundleDeploymentOptions)
	for i := range s.Targets {
		c.options(&s.Targets[i].BundleDeploymentOptions)
	}
	return c
}

func (c *collect) options(o *fleet.BundleDeploymentOptions) {
	c.add(len(o.DownstreamResources) > 0, "downstreamResources")
	c.add(o.DeleteNamespace, "deleteNamespace")
	c.add(o.AllowedTargetNamespaceSelector != nil, "allowedTargetNamespaceSelector")
	c.add(o.YAML != nil && len(o.YAML.Overlays) > 0, "yaml.overlays")
}

func cluster(s *fleet.ClusterSpec) []string {
	var c collect
	c.add(s.KubeConfigSecret != "", "kubeConfigSecret")
	c.add(s.PrivateRepoURL != "", "privateRepoURL")
	return c
}
