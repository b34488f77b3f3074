package imports

import (
	"encoding/base64"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/kubeconfig"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// Kubeconfigs that would have something run or read here are refused with a
// message that says what to do, and so are Secrets that are not meant for the
// Cluster. Nothing is asked downstream. A corrected Secret is enough.
func kubeconfigs(w *world) {
	west, since := w.down[1], time.Now()
	good := string(west.Administrator(w, "refused"))
	touched := w.TempDir() + "/touched"
	with := func(fields string) string {
		return strings.Replace(good, `"user":{"token"`, `"user":{`+fields+`,"token"`, 1)
	}
	for name, c := range map[string]struct {
		text, reason, says string
		change             func(*fleet.Cluster)
	}{
		"exec":      {text: with(`"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"touch","args":["` + touched + `"]}`), reason: kubeconfig.ReasonForbidden, says: "names a program (exec)"},
		"provider":  {text: with(`"auth-provider":{"name":"gcp"}`), reason: kubeconfig.ReasonForbidden, says: "auth-provider"},
		"file":      {text: with(`"tokenFile":"/var/run/secrets/kubernetes.io/serviceaccount/token"`), reason: kubeconfig.ReasonForbidden, says: "names a file (tokenFile)"},
		"ca-file":   {text: strings.Replace(good, `"cluster":{"server"`, `"cluster":{"certificate-authority":"/etc/passwd","server"`, 1), reason: kubeconfig.ReasonForbidden, says: "certificate-authority"},
		"garbage":   {text: "not a kubeconfig", reason: kubeconfig.ReasonUnreadable, says: "kubectl config view"},
		"elsewhere": {text: good, reason: clusterimport.ReasonSecretForbidden, says: "not allowed", change: func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "kube-system" }},
		"theirs":    {text: good, reason: clusterimport.ReasonSecretForbidden, says: "not meant for this Cluster", change: func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "cluster-theirs" }},
		"metadata":  {text: strings.Replace(good, west.Cluster.URL(), "https://169.254.169.254", 1), reason: address.ReasonRefused, says: "not dialled"},
		"plain":     {text: strings.Replace(good, "https://", "http://", 1), reason: kube.ReasonPlainHTTP, says: "agentTLSMode strict"},
		"missing":   {reason: clusterimport.ReasonSecretMissing, says: "fleet-default/bad-missing-kubeconfig"},
	} {
		name = "bad-" + name
		if c.change == nil {
			c.change = func(*fleet.Cluster) {}
		}
		if name == "bad-theirs" {
			w.hub.Namespace(w, "cluster-theirs")
			harness.Make(w, w.hub, &corev1.Secret{ObjectMeta: meta("cluster-theirs", name+"-kubeconfig"), Data: map[string][]byte{"value": []byte(c.text)}})
		} else if c.text != "" {
			w.secret(name, []byte(c.text))
		}
		w.cluster(name, c.change)
		defer func() {
			if text := w.imported(name, corev1.ConditionFalse, c.reason); !strings.Contains(text, c.says) {
				w.Errorf("%s: the message does not say %q: %s", name, c.says, text)
			}
		}()
	}
	w.Cleanup(func() {
		if _, err := os.Stat(touched); err == nil {
			w.Error("a program of the kubeconfig was run")
		}
	})
	w.imported("bad-exec", corev1.ConditionFalse, kubeconfig.ReasonForbidden)
	w.imported("bad-theirs", corev1.ConditionFalse, clusterimport.ReasonSecretForbidden)
	if got := w.asked(west, since, "refused"); len(got) > 0 {
		w.Errorf("the cluster was asked: %s", harness.Lines(got))
	}

	// The owner of a Secret says for which Cluster it is.
	w.secretFor("bad-ours", "cluster-theirs", good)
	w.cluster("bad-ours", func(c *fleet.Cluster) { c.Spec.KubeConfigSecretNamespace = "cluster-theirs" })
	w.installed("bad-ours")
	// A corrected Secret is enough.
	w.secret("mended", []byte(with(`"exec":{"command":"sh"}`)))
	w.cluster("mended")
	w.imported("mended", corev1.ConditionFalse, kubeconfig.ReasonForbidden)
	harness.Edit(w, w.hub, fleet.NamespaceDefault, "mended-kubeconfig", func(s *corev1.Secret) { s.Data["value"] = []byte(good) })
	w.installed("mended")
}

func (w *world) secretFor(cluster, namespace, kubeconfig string) {
	w.Helper()
	s := &corev1.Secret{ObjectMeta: meta(namespace, cluster+"-kubeconfig"), Data: map[string][]byte{"value": []byte(kubeconfig)}}
	s.Annotations = map[string]string{fleet.AnnotationCluster: cluster, fleet.AnnotationClusterNamespace: fleet.NamespaceDefault}
	harness.Make(w, w.hub, s)
}

// asked lists the requests of a user to a cluster, whatever their result,
// without those of the test itself.
func (w *world) asked(h *harness.Hub, since time.Time, who string) []harness.Request {
	w.Helper()
	list, err := h.Requests(since)
	w.must(err)
	var out []harness.Request
	for _, r := range list {
		if r.User == "system:serviceaccount:kube-system:"+who {
			out = append(out, r)
		}
	}
	return out
}

// The manager does not talk to a cluster whose certificate does not fit the
// kubeconfig, nor, in mode strict, to one that is to be reached without a check
// of its certificate. It reports credentials that are not enough.
func certificates(w *world) {
	east, west, since := w.down[0], w.down[1], time.Now()
	good := string(east.Administrator(w, "careful"))
	b64 := func(h *harness.Hub) string { return base64.StdEncoding.EncodeToString(h.Cluster.CA()) }
	w.secret("wrong-ca", []byte(strings.Replace(good, b64(east), b64(west), 1)))
	w.cluster("wrong-ca")
	w.secret("any-ca", []byte(strings.Replace(good, `"certificate-authority-data":"`+b64(east)+`"`, `"insecure-skip-tls-verify":true`, 1)))
	w.cluster("any-ca")
	if text := w.imported("wrong-ca", corev1.ConditionFalse, clusterimport.ReasonUntrusted); !strings.Contains(text, east.Cluster.URL()) {
		w.Errorf("the message does not say where: %s", text)
	}
	if text := w.imported("any-ca", corev1.ConditionFalse, clusterimport.ReasonUntrusted); !strings.Contains(text, "insecure-skip-tls-verify") {
		w.Errorf("the message does not say why: %s", text)
	}
	if got := w.asked(east, since, "careful"); len(got) > 0 {
		w.Errorf("a credential was shown to a server that is not to be trusted: %s", harness.Lines(got))
	}

	w.secret("revoked", harness.Kubeconfig(east.Cluster.URL(), east.Cluster.CA(), "nobodys-token"))
	w.cluster("revoked")
	if text := w.imported("revoked", corev1.ConditionFalse, clusterimport.ReasonRefused); !strings.Contains(text, "401") || strings.Contains(text, "nobodys") {
		w.Errorf("the message does not say what to do, or too much: %s", text)
	}
	w.secret("poor", harness.Kubeconfig(east.Cluster.URL(), east.Cluster.CA(), east.Account(w, "kube-system", "poor").BearerToken))
	w.cluster("poor")
	if text := w.imported("poor", corev1.ConditionFalse, clusterimport.ReasonRefused); !strings.Contains(text, "403") {
		w.Errorf("the message does not say what to do: %s", text)
	}
}
