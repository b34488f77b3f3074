package deployment

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// ReasonWithheld is the reason of Bundles that name a Secret which stays on the
// management cluster.
const ReasonWithheld = "DownstreamResourceRefused"

// An Origin is a Secret or ConfigMap that a Bundle names, without its data.
type Origin struct {
	Type   corev1.SecretType // empty for a ConfigMap
	Labels map[string]string
	Owners []metav1.OwnerReference
}

// OriginOf returns the origin of an object; t is the type of a Secret.
func OriginOf(o metav1.Object, t corev1.SecretType) Origin {
	return Origin{Type: t, Labels: o.GetLabels(), Owners: o.GetOwnerReferences()}
}

// A SecretUse is what a Secret is for on the management cluster.
type SecretUse struct {
	Namespace, Name string // of the Secret
	For             string // in words
	Charts          bool   // it is for charts that agents pull
}

// UsesOfCluster returns the Secrets that a Cluster names.
func UsesOfCluster(c *fleet.Cluster) []SecretUse {
	if c == nil || c.Spec.KubeConfigSecret == "" {
		return nil
	}
	namespace := c.Spec.KubeConfigSecretNamespace
	if namespace == "" {
		namespace = c.Namespace
	}
	return []SecretUse{{namespace, c.Spec.KubeConfigSecret, fmt.Sprintf("the kubeconfig of Cluster %q", c.Name), false}}
}

// UsesOfRepo returns the Secrets that a GitRepo names.
func UsesOfRepo(r *fleet.GitRepo) []SecretUse {
	if r == nil {
		return nil
	}
	var out []SecretUse
	for _, name := range []string{
		r.Spec.ClientSecretName, r.Spec.HelmSecretName, r.Spec.HelmSecretNameForPaths, r.Spec.OCIRegistrySecret, r.Spec.WebhookSecret,
	} {
		if name != "" {
			out = append(out, SecretUse{r.Namespace, name, fmt.Sprintf("a credential of GitRepo %q", r.Name), false})
		}
	}
	return out
}

// UsesOfBundle returns the Secrets with which charts of a Bundle are pulled.
func UsesOfBundle(b *fleet.Bundle) []SecretUse {
	if b == nil || b.Spec.HelmOpOptions == nil || b.Spec.HelmOpOptions.SecretName == "" {
		return nil
	}
	return []SecretUse{{b.Namespace, b.Spec.HelmOpOptions.SecretName, fmt.Sprintf("the credential for charts of Bundle %q", b.Name), true}}
}

// SecretUses returns what Secrets of a namespace are for. Clusters may be of all
// namespaces, GitRepos and Bundles are those of this one.
func SecretUses(namespace string, clusters []*fleet.Cluster, repos []*fleet.GitRepo, bundles []*fleet.Bundle) []SecretUse {
	var out []SecretUse
	for _, c := range clusters {
		out = append(out, UsesOfCluster(c)...)
	}
	for _, r := range repos {
		out = append(out, UsesOfRepo(r)...)
	}
	for _, b := range bundles {
		out = append(out, UsesOfBundle(b)...)
	}
	return slices.DeleteFunc(out, func(use SecretUse) bool { return use.Namespace != namespace })
}

// WithholdReason says why a source of a namespace stays on the management cluster;
// empty if it may go along. uses are those of its namespace. With labelled
// only what bears LabelDownstreamResource goes along. forChart is true for a
// credential that only goes along for a chart that agents pull.
func WithholdReason(s Source, o Origin, uses []SecretUse, labelled, forChart bool) string {
	if labelled && !forChart && o.Labels[fleet.LabelDownstreamResource] != "true" {
		return fmt.Sprintf("%s lacks the label %s=true, without which nothing can be taken along here (chart value "+
			"downstreamResources.requireLabel): set it if clusters may have this object", s, fleet.LabelDownstreamResource)
	}
	if s.Kind != KindSecret {
		return ""
	}
	why := ofType(o.Type)
	for _, reason := range []func() string{
		func() string { return ofUse(s.Name, uses, forChart) },
		func() string { return ofName(s.Name, forChart) },
		func() string { return ofOwner(o.Owners) },
		func() string { return ofLabel(o.Labels) },
	} {
		if why == "" {
			why = reason()
		}
	}
	if why == "" {
		return ""
	}
	return fmt.Sprintf("%s %s: it stays on the management cluster and cannot be taken along; "+
		"put what clusters need into a Secret of its own", s, why)
}

func ofType(t corev1.SecretType) string {
	domain, _, _ := strings.Cut(string(t), "/")
	switch {
	case t == corev1.SecretTypeServiceAccountToken:
	case t == corev1.SecretTypeBootstrapToken:
	case domain == "helm.sh":
	case reserved(domain):
	default:
		return ""
	}
	return fmt.Sprintf("is of type %q", t)
}

func ofUse(name string, uses []SecretUse, forChart bool) string {
	for _, use := range uses {
		if use.Name == name && (!forChart || !use.Charts) {
			return "is " + use.For
		}
	}
	return ""
}

// ofName knows Secrets by the names that Fleet and Rancher give them.
func ofName(name string, forChart bool) string {
	switch {
	case strings.HasSuffix(name, "-kubeconfig"), name == "local-cluster":
		return "has the name of a kubeconfig of Rancher or Fleet"
	case strings.HasPrefix(name, "import-token-"):
		return "has the name of a registration token"
	case strings.HasPrefix(name, "registryconfig-auth-"):
		return "has the name of a registry credential of Rancher's machines"
	case !forChart && (name == fleet.SecretGitCredential || name == fleet.SecretOCIStorage):
		return "is a credential of GitRepos that name none"
	}
	return ""
}

func ofOwner(owners []metav1.OwnerReference) string {
	for _, owner := range owners {
		if group, _, _ := strings.Cut(owner.APIVersion, "/"); reserved(group) {
			return fmt.Sprintf("belongs to %s %q", owner.Kind, owner.Name)
		}
	}
	return ""
}

// plain are labels of reserved domains that say nothing of what a Secret is for.
var plain = map[string]bool{fleet.LabelDownstreamResource: true, fleet.LabelObjectSetHash: true}

func ofLabel(labels map[string]string) string {
	first := ""
	for key := range labels {
		if domain, _, ok := strings.Cut(key, "/"); ok && reserved(domain) && !plain[key] && (first == "" || key < first) {
			first = key
		}
	}
	if first == "" {
		return ""
	}
	return fmt.Sprintf("has the label %q of Rancher or Fleet", first)
}

// reserved reports whether a domain is one of Rancher, Fleet or Cluster API.
func reserved(domain string) bool {
	for _, of := range []string{"cattle.io", "cluster.x-k8s.io"} {
		if domain == of || strings.HasSuffix(domain, "."+of) {
			return true
		}
	}
	return false
}

// NamesSource reports whether the options of a Bundle or of its targets name a source
// in downstreamResources.
func NamesSource(spec *fleet.BundleSpec, one Source) bool {
	without := *spec
	without.HelmOpOptions = nil
	all, err := Sources(&without)
	if err != nil {
		return true // it is not deployed
	}
	return slices.Contains(all, one)
}
