package deploy

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/fleetworkspace/fleet/pkg/kube"
)

// shown is a cluster with a few objects, by kind.
type shown map[string]string

func (s shown) Get(_ context.Context, kind schema.GroupVersionKind, key kube.Key) (*unstructured.Unstructured, error) {
	text, ok := s[kind.Kind]
	if !ok || key.Namespace != "before" || key.Name != "fleet-agent" {
		return nil, kube.ErrGone
	}
	o := &unstructured.Unstructured{}
	return o, json.Unmarshal([]byte(text), &o.Object)
}

func (shown) ScopeOf(context.Context, schema.GroupVersionKind) (bool, error) { return true, nil }

func (shown) WatchMeta(context.Context, schema.GroupVersionKind, string, func(old, changed *metav1.PartialObjectMetadata)) (func(), error) {
	return func() {}, nil
}

func TestAgentLives(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lease := func(holder string, ago time.Duration) string {
		return fmt.Sprintf(`{"spec":{"holderIdentity":%q,"leaseDurationSeconds":30,"renewTime":%q}}`, holder, now.Add(-ago).Format(metav1.RFC3339Micro))
	}
	for name, c := range map[string]struct {
		why  string
		in   shown
		want bool
	}{
		"Nothing":     {why: "nobody is there", in: shown{}},
		"Deployment":  {why: "one replica is the default", in: shown{"Deployment": `{"spec":{}}`}, want: true},
		"Scaled":      {why: "it was sent away and is gone", in: shown{"Deployment": `{"spec":{"replicas":0},"status":{}}`}},
		"Ending":      {why: "its pod is still there", in: shown{"Deployment": `{"spec":{"replicas":0},"status":{"replicas":1}}`}, want: true},
		"StatefulSet": {why: "the reference had these", in: shown{"StatefulSet": `{"spec":{"replicas":1}}`}, want: true},
		"Lease":       {why: "it may run as something else", in: shown{"Lease": lease("x", 29*time.Second)}, want: true},
		"LeaseOld":    {why: "nobody renews it", in: shown{"Lease": lease("x", 31*time.Second)}},
		"LeaseGiven":  {why: "it was given back", in: shown{"Lease": lease("", time.Second)}},
		"LeaseBlank":  {why: "nobody ever held it", in: shown{"Lease": `{"spec":{}}`}},
	} {
		got, err := agentLives(t.Context(), c.in, "before", now)
		if err != nil || got != c.want {
			t.Errorf("%s: %s: got %v, %v", name, c.why, got, err)
		}
	}
}
