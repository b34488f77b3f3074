package naming

import (
	"path"
	"strconv"
	"strings"
)

// BundleName returns the name of the bundle made from a path of a repository. options is
// the file of its options if that is not fleet.yaml, else empty.
func BundleName(repo, dir, options string) string {
	options = strings.TrimSuffix(options, path.Ext(options))
	return ReleaseName(path.Join(repo, dir, options))
}

// ClusterNamespace returns the namespace for the deployments of a new Cluster. That of an
// existing one is in its status.
func ClusterNamespace(namespace, name string) string {
	return SafeConcat("cluster", namespace, name, KeyHash(namespace+"::"+name))
}

// RegisteredCluster returns the name of a Cluster that an agent registered.
func RegisteredCluster(clientID string) string {
	return SafeConcat("cluster", KeyHash(clientID))
}

// RegistrationSecret returns the Secret with the credentials for one request.
func RegistrationSecret(clientID, clientRandom string) string {
	return ("c-" + sha256Hex(clientID+clientRandom))[:labelLimit]
}

// ImportToken returns the token made to install the agent of a Cluster.
func ImportToken(cluster string) string { return SafeConcat("import-token-" + cluster) }

// TokenAccount returns the ServiceAccount of a ClusterRegistrationToken.
func TokenAccount(token, uid string) string { return SafeConcat(token, uid) }

// TokenRole returns the Role of a token's ServiceAccount.
func TokenRole(account string) string { return SafeConcat(account, "role") }

// TokenRoleBinding returns the RoleBinding of a token's ServiceAccount.
func TokenRoleBinding(account string) string { return SafeConcat(account, "to", "role") }

// AccountToken returns the Secret with the token of a ServiceAccount.
func AccountToken(account string) string { return account + "-token" }

// RequestAccount returns the ServiceAccount of an agent, made for its request.
func RequestAccount(registration, uid string) string { return SafeConcat(registration, uid) }

// ContentBinding returns the ClusterRoleBinding that lets an agent read contents.
func ContentBinding(registration string) string { return SafeConcat(registration, "content") }

// CredentialRole returns the Role that lets one request, or the ServiceAccount of an
// import, read the Secret made for it.
func CredentialRole(name string) string { return SafeConcat(name, "creds") }

// AgentBundle returns the bundle of a Cluster's agent.
func AgentBundle(cluster string) string { return SafeConcat("fleet-agent", cluster) }

// CABundleSecret holds the certificates that a GitRepo names.
func CABundleSecret(gitRepo string) string { return gitRepo + "-cabundle" }

// RancherCABundleSecret holds the certificates that Rancher gives a GitRepo.
func RancherCABundleSecret(gitRepo string) string { return gitRepo + "-rancher-cabundle" }

// ImageScan returns the scan at the given place in the fleet.yaml of a bundle.
func ImageScan(bundle string, index int) string {
	return SafeConcat("imagescan", bundle, strconv.Itoa(index))
}

// ChartDir returns where a downloaded chart stands in a bundle.
func ChartDir(chart, repo, version string) string {
	return ".chart/" + sha256Hex(chart+":"+repo+":"+version)
}

// ChartVersion returns the version of the chart that is made of a bundle without one: of
// its commit if that is known, else of its content.
func ChartVersion(commit, contentID string) string {
	if commit != "" {
		return "v0.0.0+git-" + commit[:min(len(commit), 12)]
	}
	return "v0.0.0+" + contentID
}
