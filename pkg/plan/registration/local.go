package registration

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// Names of what stands behind the manager's own cluster.
const (
	// AccountBootstrap is the account, made by the chart, through which the
	// local agent is installed.
	AccountBootstrap = "fleet-controller-bootstrap"
	// SecretLocalKubeconfig holds a kubeconfig of that account.
	SecretLocalKubeconfig = "local-cluster"
	// GitRepoBootstrap is the GitRepo that the settings may ask for.
	GitRepoBootstrap = "bootstrap"
)

// LocalTokenTTL is how long the local agent has to register.
const LocalTokenTTL = 12 * time.Hour

// LocalCluster returns the Cluster of the manager's own cluster: existing with what it
// lacks, or a new one where existing is nil. fresh becomes its clientID if it has none.
// What others set is kept; where Rancher keeps the Cluster, so are the kubeconfig and the
// namespace that it gave it (D13: two writers never fight). Else, where its agent is to
// live elsewhere than it did, the LocalMove is noted.
func LocalCluster(b Bootstrap, existing *fleet.Cluster, fresh string) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: fleet.ClusterLocal}}
	if existing != nil {
		c = existing.DeepCopy()
	}
	labels := maps.Clone(b.ClusterLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["name"] = fleet.ClusterLocal
	for k, v := range labels {
		c.Labels = withEntry(c.Labels, k, v)
	}
	if c.Spec.ClientID == "" {
		c.Spec.ClientID = fresh
	}
	if c.Labels[fleet.LabelManagementCluster] != "" && c.Spec.KubeConfigSecret != "" {
		return c
	}
	c.Spec.KubeConfigSecret = SecretLocalKubeconfig
	at, move := LocalMoveOf(c).nextLocal(c.Spec.AgentNamespace, c.Status.Agent.Namespace, b.AgentNamespace)
	c.Spec.AgentNamespace = at
	return move.Annotate(c)
}

// LocalGroup returns the group that GitRepos without targets deploy to.
func LocalGroup(b Bootstrap) *fleet.ClusterGroup {
	return &fleet.ClusterGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: fleet.ClusterGroupDefault},
		Spec: fleet.ClusterGroupSpec{Selector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"name": fleet.ClusterLocal},
		}},
	}
}

// LocalRepo returns the GitRepo that the settings ask for, or nil.
func LocalRepo(b Bootstrap) *fleet.GitRepo {
	if b.Repo == "" {
		return nil
	}
	return &fleet.GitRepo{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: GitRepoBootstrap},
		Spec: fleet.GitRepoSpec{
			Repo: b.Repo, Branch: b.Branch, ClientSecretName: b.Secret, Paths: b.Paths,
		},
	}
}

// LocalToken returns the registration token that the local agent registers with.
func LocalToken(b Bootstrap) *fleet.ClusterRegistrationToken {
	return &fleet.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.Namespace, Name: naming.ImportToken(fleet.ClusterLocal),
		},
		Spec: fleet.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: LocalTokenTTL}},
	}
}

// BootstrapToken returns the Secret that the API server fills with a token of the chart's
// bootstrap account.
func BootstrapToken(s System) *corev1.Secret {
	return accountToken(metav1.ObjectMeta{
		Namespace: s.Namespace, Name: naming.AccountToken(AccountBootstrap),
		Labels: s.labels(),
	}, AccountBootstrap)
}

// Endpoint is how an API server is reached.
type Endpoint struct {
	URL string
	CA  []byte // PEM
}

// LocalKubeconfig returns the Secret with a kubeconfig for the manager's own cluster, which
// is reached at e.
func LocalKubeconfig(b Bootstrap, e Endpoint, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: SecretLocalKubeconfig},
		Data: map[string][]byte{
			"value": kubeconfig, "apiServerURL": []byte(e.URL), "apiServerCA": e.CA,
		},
	}
}

// LocalObserved lists the objects of the local agent's registration that exist.
type LocalObserved struct {
	Credential bool   // the agent's Secret fleet-agent
	Granted    bool   // a granted request for the Cluster
	Bootstrap  string // the token that the bootstrap Secret names; empty: there is no such Secret
	Token      bool   // the registration token
	Values     bool   // its Secret
}

// A LocalStep is what is done next so that the local agent can register.
type LocalStep int

// Steps.
const (
	LocalNothing        LocalStep = iota
	LocalDropCredential           // it is void; the agent has to register again
	LocalMakeToken
	LocalAwaitToken
	LocalWriteBootstrap
)

// NextLocalStep decides the next step, with its reason.
func NextLocalStep(o LocalObserved, b Bootstrap) (LocalStep, string) {
	switch {
	case o.Credential && o.Granted:
		return LocalNothing, "the agent is registered"
	case o.Credential:
		return LocalDropCredential, "the agent's credential is void: no request was granted for it"
	case o.Token && o.Bootstrap == LocalToken(b).Name:
		return LocalNothing, "the agent is registering"
	case !o.Token:
		return LocalMakeToken, "the agent needs a registration token"
	case !o.Values:
		return LocalAwaitToken, "the registration token is not ready yet"
	}
	return LocalWriteBootstrap, "the agent has nothing to register with"
}
