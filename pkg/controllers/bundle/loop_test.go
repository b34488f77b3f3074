package bundle

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// web is the Bundle of these tests, and onC1 its deployment on cluster c1.
var (
	web  = kube.Key{Namespace: "ws", Name: "web"}
	onC1 = kube.Key{Namespace: "cluster-c1", Name: "web"}
)

// beside runs f beside the loops of all controllers, on an API server that holds what given
// makes. f may call a controller itself.
func beside(t *testing.T, given func(*looptest.World), f func(w *looptest.World, e *eventHandlers)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.New(t)
		w := &looptest.World{T: t, Server: s, User: s.Connect("user")}
		given(w)
		log := logrus.New()
		log.SetOutput(io.Discard)
		all := New(Config{Namespace: "system", ManagerID: "me", CheckinInterval: time.Minute}, s.Connect("process"), logrus.NewEntry(log))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- kube.Run(ctx, nil, all.Runnables()...) }()
		pass(time.Second)
		f(w, all.handlers)
		cancel()
		w.Must(<-done)
	})
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// givenCluster makes the kind of Bundles, and a workspace with a Cluster whose agent has not reported yet.
func givenCluster(w *looptest.World) {
	for _, name := range []string{web.Namespace, "system", onC1.Namespace} {
		w.Server.MakeNamespace(name)
	}
	looptest.Make(w, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "bundles.fleet.cattle.io"}})
	looptest.Make(w, &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ws", Name: "c1", Annotations: map[string]string{registration.AnnotationDeploymentNamespace: onC1.Namespace},
	}})
	looptest.Change(w, "ws", "c1", func(c *fleet.Cluster) { c.Status.Namespace = onC1.Namespace })
}

// makeWeb makes a Bundle with these options for that Cluster.
func makeWeb(w *looptest.World, change func(*fleet.Bundle)) {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: web.Namespace, Name: web.Name}}
	b.Spec.Targets = []fleet.BundleTarget{{ClusterName: "c1"}}
	b.Spec.Resources = []fleet.BundleResource{{Name: "cm.yaml", Content: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"}}
	if change != nil {
		change(b)
	}
	looptest.Make(w, b)
}

// withValues gives a Bundle Helm values, which its deployment keeps in a Secret.
func withValues(b *fleet.Bundle) {
	b.Spec.Helm = &fleet.HelmOptions{}
	b.Spec.Targets[0].Helm = &fleet.HelmOptions{Values: &fleet.GenericMap{Data: map[string]any{"password": "x"}}}
}

func deployed(w *looptest.World) *fleet.BundleDeployment {
	return looptest.Read[*fleet.BundleDeployment](w, onC1.Namespace, onC1.Name)
}

// messages are those of the conditions of the Bundle.
func messages(w *looptest.World) string {
	var all []string
	for _, c := range looptest.Read[*fleet.Bundle](w, web.Namespace, web.Name).Status.Conditions {
		all = append(all, c.Message)
	}
	return strings.Join(all, "\n")
}

// A Bundle is deployed: the content comes first, and the finalizer, without which its
// deletion would be missed.
func TestBundleDeployed(t *testing.T) {
	beside(t, givenCluster, func(w *looptest.World, e *eventHandlers) {
		makeWeb(w, withValues)
		pass(time.Minute)
		if b := looptest.Read[*fleet.Bundle](w, web.Namespace, web.Name); !slices.Contains(b.Finalizers, fleet.FinalizerBundle) {
			w.Errorf("want the finalizer, got %v", b.Finalizers)
		}
		at := func(verb, resource string) int {
			return slices.IndexFunc(w.Server.Writes(), func(r kubetest.Request) bool {
				return r.Verb == verb && r.Resource == resource && r.Subresource == "" && strings.HasPrefix(r.UserAgent, "process")
			})
		}
		order := []int{at("patch", "bundles"), at("create", "contents"), at("create", "secrets"), at("create", "bundledeployments")}
		if !slices.IsSorted(order) || order[0] < 0 {
			w.Errorf("want finalizer, content, values and deployment in this order, got %v of %v", order, w.Server.Writes())
		}
	})
}

// What stands where a deployment is to be written, and is not Fleet's or of another
// Bundle, stays as it is, and the status says so.
func TestForeignObjectsStay(t *testing.T) {
	labels := func(namespace, name string) map[string]string {
		return map[string]string{fleet.LabelBundleNamespace: namespace, fleet.LabelBundleName: name, "mine": "true"}
	}
	cases := map[string]struct {
		labels map[string]string // of a BundleDeployment
		secret bool              // a Secret instead
		text   string
	}{
		"NoLabels":       {labels: map[string]string{"mine": "true"}, text: "was not made by Fleet"},
		"HalfLabelled":   {labels: labels("", "web"), text: "was not made by Fleet"},
		"OtherName":      {labels: labels("ws", "other"), text: "was not made by Fleet"},
		"OtherWorkspace": {labels: labels("other", "web"), text: `Bundle "web" of namespace other is deployed to this cluster under the same name`},
		"Secret":         {secret: true, text: "is of type \"Opaque\" and not Fleet's"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: onC1.Namespace, Name: onC1.Name, Labels: c.labels}
			version := ""
			given := func(w *looptest.World) {
				givenCluster(w)
				if c.secret {
					version = looptest.Make(w, &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque}).ResourceVersion
				} else {
					version = looptest.Make(w, &fleet.BundleDeployment{ObjectMeta: meta}).ResourceVersion
				}
			}
			beside(t, given, func(w *looptest.World, _ *eventHandlers) {
				makeWeb(w, withValues)
				pass(time.Minute)
				now := ""
				if c.secret {
					now = looptest.Read[*corev1.Secret](w, onC1.Namespace, onC1.Name).ResourceVersion
					if deployed(w) != nil {
						w.Error("want no deployment without its values")
					}
				} else {
					now = deployed(w).ResourceVersion
				}
				if now != version {
					w.Errorf("want the object untouched, got version %s after %s", now, version)
				}
				if got := messages(w); !strings.Contains(got, c.text) {
					w.Errorf("want %q, got %s", c.text, got)
				}
			})
		})
	}
}

// Content is stored under the id of what a Bundle holds now: a Bundle that has changed
// since it was looked at is looked at again first.
func TestContentOfChangedBundle(t *testing.T) {
	beside(t, givenCluster, func(w *looptest.World, e *eventHandlers) {
		makeWeb(w, nil)
		pass(time.Minute)
		before := looptest.Names[*fleet.Content](w, "")
		s := scene(t, 1, nil) // of content s-1, which is not that of the Bundle
		s.key = web
		err := e.bundles.ensureContent(w.Context(), s, &decision{})
		if !reconcile.IsRequeue(err) {
			w.Errorf("want it looked at again, got %v", err)
		}
		if got := looptest.Names[*fleet.Content](w, ""); !slices.Equal(got, before) {
			w.Errorf("want no other content, got %v after %v", got, before)
		}
	})
}

// A deployment is deleted as it was when that was decided, and not if it has changed.
func TestEraseChangedDeployment(t *testing.T) {
	beside(t, givenCluster, func(w *looptest.World, e *eventHandlers) {
		makeWeb(w, withValues)
		pass(time.Minute)
		judged := deployed(w)
		looptest.Change(w, onC1.Namespace, onC1.Name, func(bd *fleet.BundleDeployment) {
			bd.Annotations = map[string]string{"changed": "since"}
		})
		if err := e.withdrawals.deleteDeployment(w.Context(), judged); !kube.IsConflict(err) {
			w.Errorf("want a conflict, got %v", err)
		}
		if deployed(w) == nil {
			w.Error("the deployment is deleted")
		}
	})
}

// The values of a deployment go with it, and stay for the one that was made again under
// its name.
func TestEraseValues(t *testing.T) {
	beside(t, givenCluster, func(w *looptest.World, e *eventHandlers) {
		makeWeb(w, withValues)
		pass(time.Minute)
		deleted := func() bool { // it may be there again at once
			return slices.ContainsFunc(w.Server.Writes(), func(r kubetest.Request) bool { return r.Verb == "delete" && r.Resource == "secrets" })
		}
		w.Must(e.withdrawals.deleteValues(w.Context(), onC1, "former"))
		if deleted() {
			w.Fatal("the values of a deployment that is there are deleted")
		}
		w.Must(e.withdrawals.deleteValues(w.Context(), onC1, deployed(w).UID))
		if !deleted() {
			w.Error("the values of a deployment that is gone are kept")
		}
	})
}

// orderOf is the order of a deployment to leave; empty where there is none, or no deployment.
func orderOf(bd *fleet.BundleDeployment) string {
	if bd == nil {
		return ""
	}
	return withdrawal.Read(bd).Order
}

// A deployment that was ordered to leave stays until its agent has answered this order.
func TestOrderedDeploymentWaits(t *testing.T) {
	beside(t, givenCluster, func(w *looptest.World, _ *eventHandlers) {
		makeWeb(w, nil)
		pass(time.Minute)
		looptest.Change(w, onC1.Namespace, onC1.Name, func(bd *fleet.BundleDeployment) { bd.Status.AppliedDeploymentID = bd.Spec.DeploymentID })
		pass(time.Minute)
		looptest.Remove[*fleet.Bundle](w, web.Namespace, web.Name)
		pass(time.Minute)
		order := orderOf(deployed(w))
		for _, answer := range []string{"of an earlier order", order} {
			if deployed(w) == nil || order == "" {
				w.Fatalf("want a deployment with an order, before its answer; got %+v", deployed(w))
			}
			looptest.Change(w, onC1.Namespace, onC1.Name, func(bd *fleet.BundleDeployment) {
				bd.Status.AppliedDeploymentID = ""
				bd.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionWithdrawn, Status: corev1.ConditionTrue, Message: answer}}
			})
			pass(time.Minute)
		}
		if deployed(w) != nil || looptest.Read[*fleet.Bundle](w, web.Namespace, web.Name) != nil {
			w.Error("want the deployment and its Bundle gone")
		}
	})
}

// A deleted Bundle waits for each deployment that was not ordered to leave.
func TestRemnantWithoutOrder(t *testing.T) {
	deleted := metav1.NewTime(start)
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "web", DeletionTimestamp: &deleted}}
	for name, c := range map[string]struct {
		change  func(*fleet.BundleDeployment)
		ordered bool
	}{
		"Deployed": {func(*fleet.BundleDeployment) {}, false},
		"Ordered": {func(bd *fleet.BundleDeployment) {
			bd.Annotations = map[string]string{fleet.AnnotationWithdrawn: "order"}
		}, true},
		"Deleted": {func(bd *fleet.BundleDeployment) { bd.DeletionTimestamp = &deleted }, true},
	} {
		t.Run(name, func(t *testing.T) {
			now := start
			e, _ := controllersAt(t, &now)
			e.withAgent(fleet.ProtocolVersion)
			bd := deploymentOf("a:b")
			c.change(bd)
			e.table.SetDeployment(bd)
			if got, _ := e.withdrawals.remainingDeployments(web, b, deletion{}); len(got) != 1 || got[0].Ordered != c.ordered {
				t.Errorf("want ordered: %v, got %+v", c.ordered, got)
			}
		})
	}
}
