package rancher

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// labelCluster is the Cluster API's label of what belongs to a cluster.
const labelCluster = "cluster.x-k8s.io/cluster-name"

// principal is whom the technical user of a provisioning Cluster stands for.
func principal(namespace, name string) string {
	return fmt.Sprintf("system://provisioning/%s/%s", namespace, name)
}

// technicalUser is the name of that user, and of its Token.
func technicalUser(namespace, name string) string {
	sum := sha256.Sum256([]byte(principal(namespace, name)))
	return "u-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])[:10])
}

// kubeconfig sees to the kubeconfig Secret of a provisioning Cluster and returns its
// name. One that is not as it should be is deleted and made again.
func (s *session) kubeconfig(p *object, cluster string) (string, error) {
	name := p.GetName() + "-kubeconfig"
	secrets := s.client.CoreV1().Secrets(p.GetNamespace())
	found, err := secrets.Get(s.ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		found = nil
	case err != nil:
		return "", err
	case s.valid(found, p, cluster):
		return name, nil
	default:
		if err := secrets.Delete(s.ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return "", err
		}
	}
	token, err := s.token(p, found)
	if err != nil {
		return "", err
	}
	config, err := clientcmd.Write(*s.kubeconfigOf(cluster, token))
	if err != nil {
		return "", err
	}
	_, err = secrets.Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{labelCluster: p.GetName()},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: ProvClusters.GroupVersion().String(), Kind: "Cluster", Name: p.GetName(), UID: p.GetUID()}},
		},
		Data: map[string][]byte{"value": config, "token": []byte(token)},
	}, metav1.CreateOptions{})
	return name, err
}

// kubeconfigOf is the kubeconfig of a cluster behind the proxy.
func (s *session) kubeconfigOf(cluster, token string) *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters["cluster"] = &clientcmdapi.Cluster{
		Server:                   s.setting("internal-server-url") + "/k8s/clusters/" + cluster,
		CertificateAuthorityData: []byte(strings.TrimSpace(s.setting("internal-cacerts"))),
	}
	c.AuthInfos["user"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["default"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "user"}
	c.CurrentContext = "default"
	return c
}

// valid reports whether a kubeconfig Secret is as it should be.
func (s *session) valid(secret *corev1.Secret, p *object, cluster string) bool {
	if secret.Labels[labelCluster] != p.GetName() || len(secret.OwnerReferences) == 0 || len(secret.Data["token"]) == 0 {
		return false
	}
	have, err := clientcmd.Load(secret.Data["value"])
	if err != nil || have.Clusters["cluster"] == nil || have.AuthInfos["user"] == nil {
		return false
	}
	want := s.kubeconfigOf(cluster, string(secret.Data["token"]))
	return have.Clusters["cluster"].Server == want.Clusters["cluster"].Server &&
		bytes.Equal(have.Clusters["cluster"].CertificateAuthorityData, want.Clusters["cluster"].CertificateAuthorityData) &&
		have.AuthInfos["user"].Token == want.AuthInfos["user"].Token && s.knows(want.AuthInfos["user"].Token)
}

// token is that of the technical user: the one that stood in the Secret before,
// while it counts, else a new one.
func (s *session) token(p *object, before *corev1.Secret) (string, error) {
	if before != nil && s.knows(string(before.Data["token"])) {
		return string(before.Data["token"]), nil
	}
	name := technicalUser(p.GetNamespace(), p.GetName())
	user := blank(Users, "", name)
	set(user, []any{principal(p.GetNamespace(), p.GetName())}, "principalIds")
	if err := s.make(Users, user); err != nil {
		return "", err
	}
	if err := s.delete(Tokens, "", name); err != nil {
		return "", err
	}
	token := blank(Tokens, "", name)
	value := rand.String(54)
	set(token, name, "userId")
	set(token, value, "token")
	return name + ":" + value, s.make(Tokens, token)
}

// knows reports whether a token "<name>:<value>" counts.
func (r *Rancher) knows(token string) bool {
	name, value, ok := strings.Cut(token, ":")
	if !ok {
		return false
	}
	found := r.find(Tokens, "", name)
	return found != nil && text(found, "token") == value
}
