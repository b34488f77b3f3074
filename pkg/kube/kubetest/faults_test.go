package kubetest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
)

// Each fault is what the client makes of it, and ends after its number of times.
func TestFaults(t *testing.T) {
	named := kubetest.Match{Verb: "get", Resource: "configmaps", Name: "made"}
	for name, c := range map[string]struct {
		fault func(*kubetest.Server)
		is    func(error) bool
	}{
		"Conflict": {func(s *kubetest.Server) { s.Conflict(1, named) }, kube.IsConflict},
		"Broken":   {func(s *kubetest.Server) { s.Broken(1, named) }, apierrors.IsInternalError},
		"Forbid":   {func(s *kubetest.Server) { s.Forbid(1, named) }, kube.IsForbidden},
		"Deny":     {func(s *kubetest.Server) { s.Deny(1, named) }, kube.IsDenied},
		"Refuse":   {func(s *kubetest.Server) { s.Refuse(1, named) }, kube.IsUnauthorized},
		"Expired":  {func(s *kubetest.Server) { s.Expired(1, named) }, apierrors.IsResourceExpired},
		"Busy":     {func(s *kubetest.Server) { s.Busy(11, named, time.Second) }, kube.IsBusy},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, client *kube.Client) {
				maps := kube.StoreOf[*corev1.ConfigMap](client)
				made := must[*corev1.ConfigMap](t)(maps.Create(ctx, configMap("made", nil)))
				c.fault(s)
				if _, err := maps.Get(ctx, kube.KeyOf(made)); !c.is(err) {
					t.Errorf("got %v", err)
				}
				must[*corev1.ConfigMap](t)(maps.Get(ctx, kube.KeyOf(made)))
			})
		})
	}
}

// A busy server is asked again after the time that it names, by client-go.
func TestBusyServerIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, c *kube.Client) {
		busy := s.Busy(3, kubetest.Match{Resource: "configmaps"}, 20*time.Second)
		before := time.Now()
		must[*corev1.ConfigMap](t)(kube.StoreOf[*corev1.ConfigMap](c).Create(ctx, configMap("made", nil)))
		if took := time.Since(before); busy.Met() != 3 || took < time.Minute {
			t.Errorf("want three answers of 429 and a minute, got %d and %s", busy.Met(), took)
		}
	})
}

// A connection that is cut after the write leaves the object; the caller cannot know.
func TestCutAfter(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, c *kube.Client) {
		maps := kube.StoreOf[*corev1.ConfigMap](c)
		s.CutAfter(1, kubetest.Match{Verb: "create"})
		if _, err := maps.Create(ctx, configMap("made", nil)); !kube.IsAway(err) {
			t.Errorf("want a connection that is cut, got %v", err)
		}
		must[*corev1.ConfigMap](t)(maps.Get(ctx, kube.Key{Namespace: "default", Name: "made"}))
		if got := fmt.Sprint(s.Writes()); !strings.Contains(got, "create configmaps default/made: 0") {
			t.Errorf("want the write among the requests, got %s", got)
		}
	})
}

// A right that is refused is refused until it is given.
func TestForbidUntilLifted(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, c *kube.Client) {
		right := s.Forbid(kubetest.Always, kubetest.Match{Verb: "watch", Resource: "configmaps"})
		must[*corev1.ConfigMap](t)(kube.StoreOf[*corev1.ConfigMap](c).Create(ctx, configMap("made", nil)))
		cached := kube.NewCache[*corev1.ConfigMap](c, kube.Watch{}, nil)
		go func() { _ = kube.Run(ctx, nil, cached) }()
		time.Sleep(time.Hour)
		if right.Met() == 0 {
			t.Error("no watch was refused")
		}
		right.Lift()
		must[*corev1.ConfigMap](t)(kube.StoreOf[*corev1.ConfigMap](c).Create(ctx, configMap("late", nil)))
		time.Sleep(10 * time.Minute)
		if got := names(cached); len(got) != 2 {
			t.Errorf("want both, got %v", got)
		}
	})
}

// recorder is a test that hears what the server says of it.
type recorder struct {
	testing.TB
	heard []string
}

func (r *recorder) Error(args ...any) { r.heard = append(r.heard, fmt.Sprint(args...)) }
func (r *recorder) Errorf(format string, args ...any) {
	r.heard = append(r.heard, fmt.Sprintf(format, args...))
}

// What the server cannot do fails the test, and so does a fault that nothing met.
func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		ask  func(context.Context, *kubetest.Server, *kube.Client, dynamic.Interface) error
		says string
	}{
		"UnknownPatch": {func(ctx context.Context, _ *kubetest.Server, c *kube.Client, _ dynamic.Interface) error {
			_, err := kube.StoreOf[*corev1.ConfigMap](c).PatchRaw(ctx, kube.Key{Namespace: "kube-system", Name: "made"}, "application/unknown-patch+json", []byte(`{}`))
			return err
		}, "does not know patches of type"},
		"FieldSelector": {func(ctx context.Context, _ *kubetest.Server, c *kube.Client, _ dynamic.Interface) error {
			return kube.StoreOf[*corev1.Pod](c).Each(ctx, kube.Watch{Fields: "spec.nodeName=x"}, 1, nil)
		}, `does not select pods by "spec.nodeName"`},
		"BuiltInKind": {func(ctx context.Context, _ *kubetest.Server, _ *kube.Client, d dynamic.Interface) error {
			_, err := d.Resource(schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}).List(ctx, metav1.ListOptions{})
			return err
		}, "does not serve endpoints"},
		"Collection": {func(ctx context.Context, _ *kubetest.Server, _ *kube.Client, d dynamic.Interface) error {
			return d.Resource(configMaps).Namespace("default").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, "does not serve deletecollection"},
		"FaultUnmet": {func(_ context.Context, s *kubetest.Server, _ *kube.Client, _ dynamic.Interface) error {
			s.Conflict(2, kubetest.Match{Verb: "update"})
			s.Close()
			return context.Canceled
		}, "2 more requests"},
		"NoSuchKind": {func(ctx context.Context, _ *kubetest.Server, _ *kube.Client, d dynamic.Interface) error {
			_, err := d.Resource(schema.GroupVersionResource{Group: "nobody.example", Version: "v1", Resource: "things"}).List(ctx, metav1.ListOptions{})
			return err
		}, ""},
		"Closed": {func(ctx context.Context, s *kubetest.Server, c *kube.Client, _ dynamic.Interface) error {
			s.Close()
			_, err := kube.StoreOf[*corev1.ConfigMap](c).Get(ctx, kube.Key{Namespace: "default", Name: "made"})
			return err
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				heard := &recorder{TB: t}
				s := kubetest.New(heard)
				client := s.Connect("test")
				d, err := dynamic.NewForConfig(s.REST())
				if err != nil {
					t.Fatal(err)
				}
				must[*corev1.ConfigMap](t)(kube.StoreOf[*corev1.ConfigMap](client).Create(t.Context(), &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "made"},
				}))
				if err := c.ask(t.Context(), s, client, d); err == nil {
					t.Error("it was answered")
				}
				got := strings.Join(heard.heard, "\n")
				if !strings.Contains(got, c.says) || c.says == "" && got != "" {
					t.Errorf("want the test to hear %q, got %q", c.says, got)
				}
			})
		})
	}
}

// Tokens of accounts are filled in when the test says so.
func TestFillAccountTokens(t *testing.T) {
	bubble(t, func(t *testing.T, ctx context.Context, s *kubetest.Server, c *kube.Client) {
		secrets := kube.StoreOf[*corev1.Secret](c)
		key := kube.Key{Namespace: "default", Name: "token"}
		ask := func() {
			must[*corev1.Secret](t)(secrets.Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "account"}},
				Type:       corev1.SecretTypeServiceAccountToken,
			}))
		}
		ask()
		s.FillAccountTokens()
		if _, err := secrets.Get(ctx, key); !kube.IsGone(err) {
			t.Errorf("a token of no account stays: %v", err)
		}
		must[*corev1.ServiceAccount](t)(kube.StoreOf[*corev1.ServiceAccount](c).Create(ctx, &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "account"},
		}))
		ask()
		if got := must[*corev1.Secret](t)(secrets.Get(ctx, key)); len(got.Data) > 0 {
			t.Error("a token was made before the test said so")
		}
		s.FillAccountTokens()
		if got := must[*corev1.Secret](t)(secrets.Get(ctx, key)); len(got.Data["token"]) == 0 {
			t.Error("no token was made")
		}
	})
}
