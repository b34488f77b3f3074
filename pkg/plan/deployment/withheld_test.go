package deployment

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func labelled(pairs ...string) Origin {
	o := Origin{Type: corev1.SecretTypeOpaque, Labels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		o.Labels[pairs[i]] = pairs[i+1]
	}
	return o
}

func owned(apiVersion, kind string) Origin {
	return Origin{Type: corev1.SecretTypeOpaque, Owners: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "owner"}}}
}

func typed(t corev1.SecretType) Origin { return Origin{Type: t} }

// TestWithheld: Secrets that open clusters, or that Fleet and Rancher work with,
// stay on the management cluster.
func TestWithheld(t *testing.T) {
	secret := func(name string) Source { return Source{KindSecret, name} }
	east := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "east"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "way-in"}}
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "app"}, Spec: fleet.GitRepoSpec{
		ClientSecretName: "git", HelmSecretName: "helm", HelmSecretNameForPaths: "paths", OCIRegistrySecret: "oci", WebhookSecret: "hook",
	}}
	helmop := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "op"}, Spec: fleet.BundleSpec{HelmOpOptions: &fleet.BundleHelmOptions{SecretName: "charts"}}}
	uses := append(append(UsesOfCluster(east), UsesOfRepo(repo)...), UsesOfBundle(helmop)...)
	opaque := typed(corev1.SecretTypeOpaque)
	for name, c := range map[string]struct {
		source   Source
		origin   Origin
		want     string // part of the reason, empty: it goes along
		require  bool
		forChart bool
	}{
		"Plain":              {source: secret("pull"), origin: typed(corev1.SecretTypeDockerConfigJson)},
		"TLS":                {source: secret("cert"), origin: typed(corev1.SecretTypeTLS)},
		"UserLabel":          {source: secret("pull"), origin: labelled("team", "shop", "app.kubernetes.io/managed-by", "Helm")},
		"AppliedByFleet":     {source: secret("pull"), origin: labelled(fleet.LabelObjectSetHash, "x")},
		"OwnedByOthers":      {source: secret("pull"), origin: owned("external-secrets.io/v1", "ExternalSecret")},
		"ConfigMap":          {source: Source{KindConfigMap, "way-in"}, origin: labelled("cattle.io/creator", "norman")},
		"Kubeconfig":         {source: secret("way-in"), origin: opaque, want: `Secret "way-in" is the kubeconfig of Cluster "east"`},
		"KubeconfigForChart": {source: secret("way-in"), origin: opaque, want: `kubeconfig of Cluster "east"`, forChart: true},
		"KubeconfigLabelled": {source: secret("way-in"), origin: labelled(fleet.LabelDownstreamResource, "true"), want: "kubeconfig of Cluster", require: true},
		"RancherKubeconfig":  {source: secret("west-kubeconfig"), origin: opaque, want: "name of a kubeconfig"},
		"LocalKubeconfig":    {source: secret("local-cluster"), origin: opaque, want: "name of a kubeconfig"},
		"ImportToken":        {source: secret("import-token-east"), origin: opaque, want: "registration token"},
		"RegistryOfMachines": {source: secret("registryconfig-auth-x7"), origin: typed(corev1.SecretTypeBasicAuth), want: "Rancher's machines"},
		"RegistrationToken":  {source: secret("token"), origin: typed(fleet.SecretTypeRegistrationValues), want: `of type "fleet.cattle.io/cluster-registration-values"`},
		"TokenByOwner":       {source: secret("token"), origin: owned("fleet.cattle.io/v1alpha1", "ClusterRegistrationToken"), want: `ClusterRegistrationToken "owner"`},
		"AgentCredential":    {source: secret("c"), origin: typed(fleet.SecretTypeAgentCredential), want: "of type"},
		"ValuesOfBundle":     {source: secret("b"), origin: typed(fleet.SecretTypeBundleValues), want: "of type"},
		"ValuesForChart":     {source: secret("b"), origin: typed(fleet.SecretTypeBundleValues), want: "of type", forChart: true},
		"OCIStorage":         {source: secret("o"), origin: typed(fleet.SecretTypeOCIStorage), want: "of type"},
		"AccountToken":       {source: secret("t"), origin: typed(corev1.SecretTypeServiceAccountToken), want: "service-account-token"},
		"BootstrapToken":     {source: secret("t"), origin: typed(corev1.SecretTypeBootstrapToken), want: "bootstrap.kubernetes.io/token"},
		"HelmRecord":         {source: secret("sh.helm.release.v1.a.v1"), origin: typed("helm.sh/release.v1"), want: "helm.sh"},
		"MachinePlan":        {source: secret("plan"), origin: typed("rke.cattle.io/machine-plan"), want: "rke.cattle.io"},
		"MachineState":       {source: secret("state"), origin: typed("rke.cattle.io/machine-state"), want: "rke.cattle.io"},
		"ClusterAPI":         {source: secret("ca"), origin: typed("cluster.x-k8s.io/secret"), want: "cluster.x-k8s.io"},
		"CloudCredential":    {source: secret("cc-x"), origin: typed("provisioning.cattle.io/cloud-credential"), want: "provisioning"},
		"LabelOfMachine":     {source: secret("m"), origin: labelled("rke.cattle.io/machine-name", "m", "zone", "a"), want: `"rke.cattle.io/machine-name"`},
		"LabelOfRancher":     {source: secret("m"), origin: labelled("cattle.io/creator", "norman", "team", "a"), want: `"cattle.io/creator"`},
		"LabelOfClusterAPI":  {source: secret("m"), origin: labelled("cluster.x-k8s.io/cluster-name", "m"), want: "cluster.x-k8s.io"},
		"LabelOfFleet":       {source: secret("m"), origin: labelled(fleet.LabelManaged, "true"), want: "fleet.cattle.io/managed"},
		"OwnedByRancher":     {source: secret("m"), origin: owned("provisioning.cattle.io/v1", "Cluster"), want: `belongs to Cluster "owner"`},
		"OwnedByMachine":     {source: secret("m"), origin: owned("bootstrap.cluster.x-k8s.io/v1beta1", "RKEBootstrap"), want: "RKEBootstrap"},
		"OwnedByCluster":     {source: secret("m"), origin: owned("fleet.cattle.io/v1alpha1", "Cluster"), want: "Cluster"},
		"NoSuchDomain":       {source: secret("m"), origin: labelled("notcattle.io/x", "y")},
		"Git":                {source: secret("git"), origin: opaque, want: `credential of GitRepo "app"`},
		"Helm":               {source: secret("helm"), origin: opaque, want: "GitRepo"},
		"Paths":              {source: secret("paths"), origin: opaque, want: "GitRepo"},
		"OCI":                {source: secret("oci"), origin: opaque, want: "GitRepo"},
		"Webhook":            {source: secret("hook"), origin: opaque, want: "GitRepo"},
		"DefaultOfGit":       {source: secret("gitcredential"), origin: opaque, want: "GitRepos that name none"},
		"Charts":             {source: secret("charts"), origin: opaque, want: `charts of Bundle "op"`},
		"ChartsForChart":     {source: secret("charts"), origin: opaque, forChart: true},
		"Unlabelled":         {source: secret("pull"), origin: opaque, want: "fleet.cattle.io/downstream-resource=true", require: true},
		"UnlabelledMap":      {source: Source{KindConfigMap, "m"}, want: "requireLabel", require: true},
		"LabelFalse":         {source: secret("pull"), origin: labelled(fleet.LabelDownstreamResource, "false"), want: "requireLabel", require: true},
		"Labelled":           {source: secret("pull"), origin: labelled(fleet.LabelDownstreamResource, "true"), require: true},
		"UnlabelledForChart": {source: secret("charts"), origin: opaque, require: true, forChart: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := WithholdReason(c.source, c.origin, uses, c.require, c.forChart)
			if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got != "" && !strings.Contains(got, "put what clusters need into a Secret of its own") && !strings.Contains(got, "set it if clusters may have this object") {
				t.Errorf("%q does not say what to do", got)
			}
		})
	}
}

// TestUsesOfCluster: a Cluster may name a Secret of another namespace.
func TestUsesOfCluster(t *testing.T) {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "east"}, Spec: fleet.ClusterSpec{KubeConfigSecret: "k", KubeConfigSecretNamespace: "other"}}
	if uses := UsesOfCluster(c); len(uses) != 1 || uses[0].Namespace != "other" {
		t.Errorf("got %v", uses)
	}
	if len(UsesOfCluster(nil))+len(UsesOfCluster(&fleet.Cluster{}))+len(UsesOfRepo(nil))+len(UsesOfBundle(&fleet.Bundle{})) != 0 {
		t.Error("what names no Secret uses none")
	}
}

// TestNamed: what only a chart needs is not named by the options.
func TestNamed(t *testing.T) {
	spec := fleet.BundleSpec{HelmOpOptions: &fleet.BundleHelmOptions{SecretName: "charts"}, Targets: []fleet.BundleTarget{{BundleDeploymentOptions: named("Secret", "pull")}}}
	if NamesSource(&spec, Source{KindSecret, "charts"}) || !NamesSource(&spec, Source{KindSecret, "pull"}) {
		t.Error("charts is for the chart, pull is named by a target")
	}
}
