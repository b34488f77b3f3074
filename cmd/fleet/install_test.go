package main

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// address is where the fake server is said to be.
func (f *fake) address() string { return cmp.Or(f.url, "https://127.0.0.1:31001") }

// answer is what the fake server says of its version.
func (f *fake) answer() diagnose.ServerSeen {
	return diagnose.ServerSeen{URL: f.address(), Version: "v1.36.3", Took: 12 * time.Millisecond, Failed: f.failed}
}

// manage does at once what a manager does with a new token. Its namespace
// "silent" has no manager.
func (f *fake) manage(o *unstructured.Unstructured) {
	if o.GetNamespace() == "silent" {
		return
	}
	o.SetUID(types.UID("uid-" + o.GetName()))
	t, err := client.Convert[fleet.ClusterRegistrationToken](o)
	if err != nil {
		f.t.Fatal(err)
	}
	secret, err := registration.TokenSecret(t, registration.System{Namespace: fleet.NamespaceSystem}, registration.Settings{
		AgentTLSMode: registration.TLSSystemStore,
	}, "t0ken")
	if err != nil {
		f.t.Fatal(err)
	}
	raw, err := json.Marshal(secret)
	if err != nil {
		f.t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &u.Object); err != nil {
		f.t.Fatal(err)
	}
	u.SetKind("Secret")
	u.SetAPIVersion("v1")
	f.held[objectKey(u)] = u
	if err := unstructured.SetNestedField(o.Object, t.Name, "status", "secretName"); err != nil {
		f.t.Fatal(err)
	}
}

// printed are the objects in what a transcript of one command says, by "Kind namespace/name".
func printed(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	_, text, _ = strings.Cut(text, "\n") // the command
	docs, err := sources.DocumentsOf(text)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]any{}
	for i, doc := range docs {
		u := &unstructured.Unstructured{Object: doc}
		if u.GetKind() == "Namespace" && i > 0 && docs[i-1]["kind"] != "Namespace" {
			t.Errorf("namespace %s comes after what may live in it", u.GetName())
		}
		out[u.GetKind()+" "+u.GetNamespace()+"/"+u.GetName()] = doc
	}
	return out
}

// The manager's file is complete, needs no connection, and has the images that
// were asked for.
func TestInstallController(t *testing.T) {
	digest := strings.Repeat("0123", 16)
	text := play(t, "$ fleet install controller --controller-image registry.example:5000/fleet:v9 --agent-image example/agent@sha256:"+digest+" --system-namespace gitops\n")
	objects := printed(t, text)
	for _, key := range []string{"Namespace /gitops", "Deployment gitops/fleet-controller", "Deployment gitops/gitjob", "ConfigMap gitops/fleet-controller", "ServiceAccount gitops/fleet-controller"} {
		if objects[key] == nil {
			t.Errorf("no %s in the file", key)
		}
	}
	for _, kind := range fleet.Kinds() {
		if objects["CustomResourceDefinition /"+kind.Name()] == nil {
			t.Errorf("no kind %s in the file", kind.Name())
		}
	}
	image, _, _ := unstructured.NestedSlice(objects["Deployment gitops/fleet-controller"], "spec", "template", "spec", "containers")
	if len(image) == 0 || image[0].(map[string]any)["image"] != "registry.example:5000/fleet:v9" {
		t.Errorf("another image: %v", image)
	}
	config, _, _ := unstructured.NestedString(objects["ConfigMap gitops/fleet-controller"], "data", "config")
	if !strings.Contains(config, `"example/agent@sha256:`+digest+`"`) {
		t.Errorf("the agent's image is not in the configuration: %s", config)
	}

	kinds := printed(t, play(t, "$ fleet install controller --crds-only\n"))
	if len(kinds) != len(fleet.Kinds()) {
		t.Errorf("want the %d kinds alone, got %d objects", len(fleet.Kinds()), len(kinds))
	}
}

// An image that no runtime can pull is an error that names the flag, also where the image
// is not printed.
func TestInstallControllerRefusesImages(t *testing.T) {
	for _, flag := range []string{"--controller-image", "--agent-image"} {
		for _, more := range [][]string{nil, {"--crds-only"}} {
			out, _, err := run(t, "examples.yaml", append([]string{"install", "controller", flag, "foo:bar:baz"}, more...)...)
			want := flag + `: image "foo:bar:baz": want [HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST]`
			if err == nil || err.Error() != want || cli.ExitCode(err, false) != 1 || out != "" {
				t.Errorf("want %s, got %v and %q", want, err, out[:min(len(out), 100)])
			}
		}
	}
}

// kindsOf are Fleet's kinds as an API server has them.
func kindsOf() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, kind := range fleet.Kinds() {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
		u.SetName(kind.Name())
		u.SetAnnotations(map[string]string{fleet.AnnotationCRDRevision: strconv.Itoa(fleet.CRDRevision)})
		out = append(out, u)
	}
	return out
}

// agentFile are the objects of an agent's file, in the fleet of gate.yaml.
func agentFile(t *testing.T, args string) map[string]map[string]any {
	t.Helper()
	st := stage{fake: newFake(t, "testdata/fleets/gate.yaml")}
	text := "$ fleet " + args + "\n"
	for line := range strings.Lines(st.run(t, words(args))) {
		if !strings.HasPrefix(line, "! ") {
			text += line
		}
	}
	return printed(t, text)
}

// The file of an agent is complete: namespace, token, agent.
func TestInstallAgent(t *testing.T) {
	const flags = " -n fleet-default --no-ca --server-url https://fleet.example.com:6443"
	files := map[string]map[string]map[string]any{
		"agent-": agentFile(t, "install agent-token"+flags),
		"join-":  agentFile(t, "cluster join c3 -l env=prod"+flags),
	}
	for token, file := range files {
		for _, key := range []string{
			"Namespace /cattle-fleet-system", "ServiceAccount cattle-fleet-system/fleet-agent", "Deployment cattle-fleet-system/fleet-agent",
			"Secret cattle-fleet-system/fleet-agent-bootstrap", "ClusterRoleBinding /cattle-fleet-system-fleet-agent-role-binding",
		} {
			if file[key] == nil {
				t.Errorf("%s: no %s", token, key)
			}
		}
		secret, err := client.Convert[corev1.Secret](&unstructured.Unstructured{Object: file["Secret cattle-fleet-system/fleet-agent-bootstrap"]})
		if err != nil {
			t.Fatal(err)
		}
		b := registration.ReadBootstrapping(secret.Data)
		if b.APIServerURL != "https://fleet.example.com:6443" || b.Token != "t0ken" || !strings.HasPrefix(b.TokenName, token) || b.ClusterNamespace != "fleet-default" {
			t.Errorf("%s: not what an agent joins with: %s %s %s", token, b.APIServerURL, b.TokenName, b.ClusterNamespace)
		}
		containers, _, _ := unstructured.NestedSlice(file["Deployment cattle-fleet-system/fleet-agent"], "spec", "template", "spec", "containers")
		if len(containers) == 0 || containers[0].(map[string]any)["image"] != "fleetworkspace/fleet-agent:v0.1.0" {
			t.Errorf("%s: not the image that the manager is configured with: %v", token, containers)
		}
		config, _, _ := unstructured.NestedString(file["ConfigMap cattle-fleet-system/fleet-agent"], "data", "config")
		if strings.Contains(config, "clientID") != (token == "join-") || strings.Contains(config, "labels") {
			t.Errorf("%s: an agent that is to become one Cluster has its clientID, and no labels of its own: %s", token, config)
		}
	}
}
