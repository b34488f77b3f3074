package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// shops is a chain of stores in the middle of a rollout: 812 clusters, of which
// 23 are away, 15 not ready and 8 failing; 50 bundles, of which pos-ui moves
// through three rings; 37 repositories, of which one cannot be read.
func shops(t *testing.T) *fake {
	t.Helper()
	w := storeWorld{at: time.Date(2026, 8, 24, 14, 10, 44, 0, time.UTC)}
	w.manager()
	for i := range shopStores {
		w.store(i)
	}
	w.bundles()
	w.repositories()
	var objects []*unstructured.Unstructured
	for _, o := range w.objects {
		raw, plain := o.(map[string]any)
		if !plain {
			var err error
			if raw, err = runtime.DefaultUnstructuredConverter.ToUnstructured(o); err != nil {
				t.Fatal(err)
			}
		}
		objects = append(objects, &unstructured.Unstructured{Object: normal(t, raw)})
	}
	giveIDs(t, objects)
	f := &fake{t: t, clock: &clock{at: w.at}, start: w.at, held: map[string]*unstructured.Unstructured{}, left: map[string]*fleet.Reading{}, refuse: map[string]bool{}}
	f.take(step{objects: objects})
	return f
}

// shopStores is how many clusters the chain has.
const shopStores = 812

type storeWorld struct {
	at      time.Time
	objects []any
	failing []fleet.NonReadyResource // of node-tuning
	unready []fleet.NonReadyResource // of pos-ui
	waiting []fleet.NonReadyResource // of pos-ui
}

func (w *storeWorld) ago(d time.Duration) string { return w.at.Add(-d).Format(time.RFC3339) }

func (w *storeWorld) add(o any) { w.objects = append(w.objects, o) }

func (w *storeWorld) condition(kind, status, reason, message string, since time.Duration) fleet.Condition {
	return fleet.Condition{Type: kind, Status: corev1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: w.ago(since)}
}

func (w *storeWorld) manager() {
	w.add(map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{"name": client.ControllerLease, "namespace": "cattle-fleet-system"},
		"spec": map[string]any{
			"holderIdentity": "fleet-controller-7d9f", "leaseDurationSeconds": int64(30),
			"acquireTime": w.at.Add(-19 * 24 * time.Hour).Format(metav1.RFC3339Micro), "renewTime": w.at.Format(metav1.RFC3339Micro),
		},
	})
	w.add(&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "cattle-fleet-system", Name: fleet.ConfigMapController, Annotations: map[string]string{fleet.AnnotationVersion: "v0.3.1"},
		},
	})
}

const (
	shopNew  = "4204204cc2f04b2d9e3a6a2f7f1a0e5d3c4b2a19"
	shopUI   = "deployment.apps pos/ui [progressing] 0/1 available"
	shopDaem = "templates/tuning.yaml:9:21: sysctl is missing"
)

func kindOfFleet(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: kind}
}

func storeName(i int) string {
	if i == 0 {
		return "ship-09"
	}
	return fmt.Sprintf("store-%04d", i)
}

// store is one cluster with its deployment of pos-ui. The first 200 are in ring
// 1, the next 300 in ring 2.
func (w *storeWorld) store(i int) {
	name, ring := storeName(i), "3"
	switch {
	case i < 200:
		ring = "1"
	case i < 500:
		ring = "2"
	}
	c := &fleet.Cluster{TypeMeta: kindOfFleet("Cluster"), ObjectMeta: metav1.ObjectMeta{
		Namespace: "stores", Name: name, CreationTimestamp: metav1.NewTime(w.at.AddDate(-2, 0, 0)),
		Labels:      map[string]string{"region": []string{"eu", "us", "sea"}[i%3], "ring": ring},
		Annotations: map[string]string{"fleet.cattle.io/deployment-namespace": "cluster-" + name},
	}}
	c.Status.Namespace = "cluster-" + name
	c.Status.Agent = fleet.AgentStatus{Version: "v0.3.1", Kubernetes: "v1.33.1", LastSeen: metav1.NewTime(w.at.Add(-time.Duration(5+i%50) * time.Second))}
	ready := w.condition(fleet.ConditionReady, "True", "", "", time.Hour)
	bundles := "50/50"
	away := time.Duration(0)
	switch {
	case i == 0:
		away = 19 * 24 * time.Hour
	case i == 344:
		away = 3 * 24 * time.Hour
	case i == 512:
		away = 24 * time.Hour
	case i >= 700 && i < 720:
		away = time.Duration(i-699) * time.Hour
	}
	failing, unready := i >= 500 && i < 508, i >= 100 && i < 115
	switch {
	case away > 0:
		c.Status.Display.State = fleet.Offline
		c.Status.Agent.LastSeen = metav1.NewTime(w.at.Add(-away))
		ready = w.condition(fleet.ConditionReady, "True", "", "", away)
		c.Status.Conditions = append(c.Status.Conditions, w.condition(fleet.ConditionConnected, "False", fleet.ReasonOffline, "the agent missed 3 check-ins", away))
	case failing:
		c.Status.Display.State, bundles = string(fleet.ErrApplied), "49/50"
		ready = w.condition(fleet.ConditionReady, "False", "ErrApplied", "ErrApplied(1) [Bundle node-tuning: "+shopDaem+"]", 4*time.Minute)
		w.failing = append(w.failing, fleet.NonReadyResource{Name: "stores/" + name, State: fleet.ErrApplied, Message: shopDaem})
	case unready:
		c.Status.Display.State, bundles = string(fleet.NotReady), "49/50"
		ready = w.condition(fleet.ConditionReady, "False", "NotReady", "NotReady(1) [Bundle pos-ui]", 9*time.Minute)
	}
	c.Status.Display.ReadyBundles = bundles
	c.Status.Conditions = append(c.Status.Conditions, ready)
	w.add(c)
	w.deployment(name, ring, unready)
}

// deployment is that of pos-ui: of the new version in ring 1, of the old one
// elsewhere.
func (w *storeWorld) deployment(name, ring string, unready bool) {
	bd := &fleet.BundleDeployment{TypeMeta: kindOfFleet("BundleDeployment"), ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster-" + name, Name: "pos-ui", Generation: 3,
		Labels: map[string]string{
			fleet.LabelBundleName: "pos-ui", fleet.LabelBundleNamespace: "stores", fleet.LabelRepoName: "shops",
			fleet.LabelCluster: name, fleet.LabelClusterNamespace: "stores", fleet.LabelCommit: shopNew,
		},
	}}
	id, ready := "s-old:o", fleet.NonReadyResource{Name: "stores/" + name, State: fleet.OutOfSync,
		Message: `waits for partition "ring-1"`}
	if ring == "1" {
		id = "@"
	}
	bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = id, id
	bd.Status.AppliedDeploymentID, bd.Status.Release = id, "pos/pos-ui:12"
	bd.Status.Ready, bd.Status.NonModified = true, true
	bd.Status.Conditions = []fleet.Condition{w.condition(fleet.ConditionReady, "True", "", "", time.Hour)}
	switch {
	case unready:
		bd.Status.Ready = false
		bd.Status.NonReadyStatus = []fleet.NonReadyStatus{{
			APIVersion: "apps/v1", Kind: "Deployment", Namespace: "pos", Name: "ui", Summary: fleet.Summary{Transitioning: true, Message: []string{"0/1 available"}},
		}}
		bd.Status.Conditions = []fleet.Condition{w.condition(fleet.ConditionReady, "False", "NotReady", shopUI, 9*time.Minute)}
		w.unready = append(w.unready, fleet.NonReadyResource{Name: "stores/" + name, State: fleet.NotReady, NonReadyStatus: bd.Status.NonReadyStatus})
	case ring != "1":
		w.waiting = append(w.waiting, ready)
	}
	w.add(bd)
}

func (w *storeWorld) bundles() {
	for i := range 48 {
		b := w.bundle(fmt.Sprintf("app-%02d", i))
		b.Status.Summary = fleet.BundleSummary{Ready: shopStores, DesiredReady: shopStores}
		b.Status.Display.ReadyClusters = "812/812"
		b.Status.Conditions = []fleet.Condition{w.condition(fleet.ConditionReady, "True", "", "", 24*time.Hour)}
	}
	tuning := w.bundle("node-tuning")
	tuning.Status.Summary = fleet.BundleSummary{Ready: shopStores - 8, ErrApplied: 8, DesiredReady: shopStores, NonReadyResources: w.failing}
	tuning.Status.Display = fleet.BundleDisplay{ReadyClusters: "804/812", State: "ErrApplied"}
	tuning.Status.Conditions = []fleet.Condition{w.condition(fleet.ConditionReady, "False", "ErrApplied", "ErrApplied(8) [Cluster stores/store-0500: "+shopDaem+"]", 4*time.Minute)}

	pos := w.bundle("pos-ui")
	pos.Labels[fleet.LabelCommit] = shopNew
	pos.Spec.Resources = []fleet.BundleResource{
		{Name: "Chart.yaml", Content: "name: pos-ui\nversion: 4.2.0\n"}, {Name: "templates/ui.yaml", Content: "kind: Deployment"},
	}
	limit := intstr.FromInt32(10)
	pos.Spec.RolloutStrategy = &fleet.RolloutStrategy{}
	for _, ring := range []string{"1", "2", "3"} {
		pos.Spec.RolloutStrategy.Partitions = append(pos.Spec.RolloutStrategy.Partitions, fleet.Partition{
			Name: "ring-" + ring, MaxUnavailable: &limit, ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"ring": ring}},
		})
	}
	sum := fleet.BundleSummary{Ready: 185, NotReady: 15, OutOfSync: 612, DesiredReady: shopStores}
	sum.NonReadyResources = append(sum.NonReadyResources, w.unready[:9]...)
	sum.NonReadyResources = append(sum.NonReadyResources, w.waiting[0])
	pos.Status.Summary = sum
	pos.Status.MaxUnavailable, pos.Status.Unavailable, pos.Status.UnavailablePartitions = shopStores, 15, 1
	pos.Status.PartitionStatus = []fleet.PartitionStatus{
		{Name: "ring-1", Count: 200, MaxUnavailable: 10, Unavailable: 15, Summary: fleet.BundleSummary{Ready: 185, NotReady: 15, DesiredReady: 200, NonReadyResources: w.unready[:10]}},
		{Name: "ring-2", Count: 300, MaxUnavailable: 10, Summary: fleet.BundleSummary{OutOfSync: 300, DesiredReady: 300, NonReadyResources: w.waiting[:10]}},
		{Name: "ring-3", Count: 312, MaxUnavailable: 10, Summary: fleet.BundleSummary{OutOfSync: 312, DesiredReady: 312, NonReadyResources: w.waiting[300:310]}},
	}
	pos.Status.Display = fleet.BundleDisplay{ReadyClusters: "185/812", State: "OutOfSync"}
	pos.Status.Conditions = []fleet.Condition{
		w.condition(fleet.ConditionReady, "False", "OutOfSync", "NotReady(15) [Cluster stores/store-0100]", 9*time.Minute),
		w.condition(fleet.ConditionWaiting, "True", fleet.ReasonDeferred, `partition "ring-2" and 1 more wait for partition "ring-1": 15 not there yet, 10 allowed: stores/store-0100, stores/store-0101, stores/store-0102 and 12 more; 4 clusters are deferred: they are offline, silent or outside of their change windows`, 9*time.Minute),
	}
}

func (w *storeWorld) bundle(name string) *fleet.Bundle {
	b := &fleet.Bundle{TypeMeta: kindOfFleet("Bundle"), ObjectMeta: metav1.ObjectMeta{
		Namespace: "stores", Name: name, Generation: 1,
		Labels: map[string]string{fleet.LabelRepoName: "shops", fleet.LabelCommit: strings.Repeat("3f9c2e1", 5) + "3f9c2"},
	}}
	b.Spec.Targets = []fleet.BundleTarget{{Name: "stores", ClusterSelector: &metav1.LabelSelector{}}}
	b.Status.ObservedGeneration = 1
	w.add(b)
	return b
}

func (w *storeWorld) repositories() {
	for i := range 37 {
		name := fmt.Sprintf("repo-%02d", i)
		if i == 0 {
			name = "shops"
		}
		r := &fleet.GitRepo{TypeMeta: kindOfFleet("GitRepo"), ObjectMeta: metav1.ObjectMeta{Namespace: "stores", Name: name, Generation: 1}}
		r.Spec.Repo, r.Spec.Branch = "https://git.example/"+name, "main"
		r.Status.ObservedGeneration, r.Status.Commit, r.Status.PollingCommit = 1, shopNew, shopNew
		r.Status.LastPollingTime = metav1.NewTime(w.at.Add(-12 * time.Minute))
		r.Status.GitJobStatus = "Current"
		r.Status.Conditions = []fleet.Condition{
			w.condition(fleet.ConditionGitPolling, "True", "", "", time.Hour), w.condition(fleet.ConditionReady, "True", "", "", time.Hour),
		}
		if i == 36 {
			r.Status.Conditions[0] = w.condition(fleet.ConditionGitPolling, "False", "AuthenticationRefused", "authentication refused by git.example", 2*time.Hour)
			r.Status.Conditions[1] = w.condition(fleet.ConditionReady, "False", "AuthenticationRefused", "authentication refused by git.example", 2*time.Hour)
		}
		w.add(r)
	}
}

// TestManyClusters plays testdata/shops.txt in the world of shops. Run with
// -update after a change, and read the diff.
func TestManyClusters(t *testing.T) {
	playWith(t, filepath.Join("testdata", "shops.txt"), shops(t))
}
