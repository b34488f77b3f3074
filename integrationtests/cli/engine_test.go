package cli_test

import (
	"bytes"
	"context"
	"io"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/address"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
)

// What fleet target shows is what the controller writes afterwards: objects,
// values and content.
func targetIsTrue(s *fixture) {
	s.web()
	s.put("web/fleet.yaml", "defaultNamespace: web\nhelm:\n  values: {site: '${ .ClusterName }'}\ncorrectDrift: {enabled: true}\n"+
		"dependsOn: [{name: other}]\ntargetCustomizations:\n- name: prod\n  clusterSelector: {matchLabels: {env: prod}}\n- name: rest\n  clusterSelector: {}\n")
	for name, env := range map[string]string{"c1": "dev", "c2": "prod"} {
		s.namespace(naming.ClusterNamespace(s.ns, name))
		s.addCluster(name, env)
	}
	s.ok("apply", "-o", "web.yaml", "-n", s.ns, "--commit", "c1", "-l", "team=a", "shop", "web")
	shown := s.ok("target", "-b", "web.yaml")
	s.ok("apply", "-n", s.ns, "--commit", "c1", "-l", "team=a", "shop", "web")
	defer s.controller()()
	objects := map[string]int{}
	for decode := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(shown)), 4096); ; {
		doc := struct {
			Kind string `json:"kind"`
			fleet.BundleDeployment
			Data      map[string][]byte `json:"data"`
			Content   []byte            `json:"content"`
			SHA256Sum string            `json:"sha256sum"`
		}{}
		if err := decode.Decode(&doc); err == io.EOF { //nolint:errorlint // the decoder returns it as it is
			break
		} else if err != nil {
			s.t.Fatal(err)
		}
		objects[doc.Kind]++
		key := kube.KeyOf(&doc.BundleDeployment)
		switch doc.Kind {
		case "Content":
			live := wait[*fleet.Content](s, key)
			if live.SHA256Sum != doc.SHA256Sum || !bytes.Equal(live.Content, doc.Content) {
				s.t.Errorf("another content is written")
			}
		case "Secret":
			if diff := cmp.Diff(doc.Data, wait[*corev1.Secret](s, key).Data); diff != "" {
				s.t.Errorf("other values are written:\n%s", diff)
			}
		case "BundleDeployment":
			live := wait[*fleet.BundleDeployment](s, key)
			if diff := cmp.Diff([]any{doc.Labels, doc.Annotations, doc.Spec}, []any{live.Labels, live.Annotations, live.Spec}); diff != "" {
				s.t.Errorf("%s: another deployment is written: -shown +written\n%s", key, diff)
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"Content": 1, "Secret": 2, "BundleDeployment": 2}, objects); diff != "" {
		s.t.Error(diff)
	}
}

// wait returns an object when it is there.
func wait[P kube.Object](s *fixture, key kube.Key) P {
	s.t.Helper()
	var out P
	s.until(key.String()+" is written", func() bool {
		var err error
		out, err = kube.StoreOf[P](s.admin).Get(s.t.Context(), key)
		if err != nil && !kube.IsGone(err) {
			s.t.Fatal(err)
		}
		return err == nil
	})
	return out
}

// controller runs the controller until what it returns is called.
func (s *fixture) controller() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	cfg := controllers.Default()
	cfg.Addresses = address.WithLoopback()
	cfg.LeaderElect, cfg.ManagerID = false, "test"
	log := logrus.New()
	log.SetOutput(io.Discard)
	client, err := kube.Connect(kube.Config{REST: s.cluster.REST(), UserAgent: "fleet-controller/test", FieldManager: fleet.FieldManagerController})
	s.must(err)
	done := make(chan error, 1)
	go func() { done <- controllers.Run(ctx, cfg, client, logrus.NewEntry(log)) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("the controller ended: %v", err)
		}
	}
}
