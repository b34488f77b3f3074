package monitor

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/heartbeat"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/reading"
)

const (
	space     = "shops"
	oldCommit = "aaaaaaa000000000000000000000000000000000"
	newCommit = "bbbbbbb000000000000000000000000000000000"
)

var now = time.Date(2026, 8, 24, 14, 10, 44, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

// meta is an object that was last written a day ago.
func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: "uid-of-this", Generation: 1, CreationTimestamp: ago(24 * time.Hour), Labels: map[string]string{}, Annotations: map[string]string{},
	}
}

func ready(status corev1.ConditionStatus, message string, since time.Duration) fleet.Condition {
	return fleet.Condition{Type: fleet.ConditionReady, Status: status, Message: message, LastTransitionTime: ago(since).Format(time.RFC3339)}
}

// everything is a reach that covers all namespaces.
func everything() map[string]Reach {
	out := map[string]Reach{}
	for _, r := range []string{GitRepos, Bundles, Deployments, Contents, Clusters, Groups, Secrets} {
		out[r] = Reach{All: true}
	}
	return out
}

func newRepoObject(name string) *fleet.GitRepo {
	r := &fleet.GitRepo{ObjectMeta: meta(space, name)}
	r.Status.ObservedGeneration, r.Status.GitJobStatus = 1, "Current"
	r.Status.Commit, r.Status.PollingCommit, r.Status.LastPollingTime = newCommit, newCommit, ago(20*time.Hour)
	r.Status.Conditions = []fleet.Condition{
		ready(corev1.ConditionTrue, "", time.Hour),
		{Type: fleet.ConditionGitPolling, Status: corev1.ConditionTrue, ObservedGeneration: 1},
	}
	return r
}

// newBundleObject is a Bundle that a GitRepo has; without one it was made by a user.
func newBundleObject(name, repo string) *fleet.Bundle {
	b := &fleet.Bundle{ObjectMeta: meta(space, name)}
	if repo != "" {
		b.Labels[fleet.LabelRepoName], b.Labels[fleet.LabelCommit] = repo, oldCommit
	}
	b.Spec.Targets = []fleet.BundleTarget{{}}
	b.Status.ObservedGeneration, b.Status.Summary.DesiredReady = 1, 1
	b.Status.Conditions = []fleet.Condition{ready(corev1.ConditionTrue, "", time.Hour)}
	return b
}

func newClusterObject(name string) ClusterObject {
	c := &fleet.Cluster{ObjectMeta: meta(space, name)}
	c.Status.Namespace = "cluster-" + name
	c.Status.Conditions = []fleet.Condition{ready(corev1.ConditionTrue, "", time.Hour)}
	return ClusterObject{Cluster: c, LastSeen: now.Add(-10 * time.Second), Protocol: fleet.ProtocolVersion}
}

func newDeploymentObject(bundle, cluster, content string) *fleet.BundleDeployment {
	bd := &fleet.BundleDeployment{ObjectMeta: meta("cluster-"+cluster, bundle)}
	bd.Labels = map[string]string{
		fleet.LabelBundleName: bundle, fleet.LabelBundleNamespace: space, fleet.LabelCluster: cluster, fleet.LabelClusterNamespace: space,
	}
	bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID, bd.Status.AppliedDeploymentID = content+":1", content+":1", content+":1"
	bd.Status.Conditions = []fleet.Condition{ready(corev1.ConditionTrue, "", time.Hour)}
	return bd
}

func newSecretObject(namespace, name string, secretType corev1.SecretType, data map[string][]byte) SecretObject {
	return SecretOf(&corev1.Secret{ObjectMeta: meta(namespace, name), Type: secretType, Data: data})
}

// small is a fleet of one GitRepo with one Bundle on one cluster, with values in Secrets.
func small() *Input {
	repo, b, c := newRepoObject("web"), newBundleObject("web-app", "web"), newClusterObject("c1")
	bd := newDeploymentObject("web-app", "c1", "s-web")
	values := map[string][]byte{"values.yaml": []byte(`{"password":"CANARY"}`)}
	b.Spec.ValuesHash = options.BundleValuesHash(values)
	own := map[string][]byte{fleet.KeyValues: []byte(`{"password":"CANARY"}`)}
	bd.Spec.ValuesHash = options.DeploymentValuesHash(own[fleet.KeyValues], nil)
	group := &fleet.ClusterGroup{ObjectMeta: meta(space, "all")}
	group.Spec.Selector, group.Status.ClusterCount = &metav1.LabelSelector{}, 1
	in := &Input{
		Now: now, Reach: everything(), GitRepos: []*fleet.GitRepo{repo}, Bundles: []BundleObject{{b, BundleBytes(b)}},
		Deployments: []*fleet.BundleDeployment{bd}, Clusters: []ClusterObject{c}, Groups: []*fleet.ClusterGroup{group},
		Contents: []ContentObject{{ObjectMeta: meta("", "s-web"), Bytes: 100}},
		Secrets: []SecretObject{
			newSecretObject(space, "web-app", fleet.SecretTypeBundleValues, values),
			newSecretObject("cluster-c1", "web-app", fleet.SecretTypeBundleDeployment, own),
		},
		Versions: []string{"10", "10", "12"},
	}
	in.readAll()
	return in
}

// readAll lets each GitRepo say that its Bundles are those of its last reading.
func (in *Input) readAll() {
	for _, r := range in.GitRepos {
		var own []*fleet.Bundle
		for _, b := range in.Bundles {
			if b.Labels[fleet.LabelRepoName] == r.Name {
				own = append(own, b.Bundle)
			}
		}
		r.Status.Reading = reading.Next(nil, fleet.Reading{Commit: r.Status.Commit, Generation: 1, Complete: true}, reading.Commits(r, own), nil)
	}
}

// healthy is a fleet of so many clusters, with GitRepos, HelmOps, Bundles of a user and of agents, and
// clusters that are away by plan. Commits are older than those of their GitRepos, for they are those
// that last changed the Bundles.
func healthy(clusters int) *Input {
	in := &Input{Now: now, Reach: everything(), Versions: []string{"7", "8", "9"}}
	add := func(b *fleet.Bundle) {
		b.Finalizers = []string{fleet.FinalizerBundle, "wrangler.cattle.io/bundle"}
		in.Bundles = append(in.Bundles, BundleObject{b, BundleBytes(b)})
	}
	for i := range 5 {
		repo := newRepoObject(fmt.Sprintf("repo-%d", i))
		repo.Finalizers = []string{fleet.FinalizerGitRepo, "controller.cattle.io/other"}
		in.GitRepos = append(in.GitRepos, repo)
		add(newBundleObject(fmt.Sprintf("repo-%d-app", i), repo.Name))
	}
	helmOp := newBundleObject("helmop-db", "")
	helmOp.Labels[fleet.LabelHelmOpName] = "db"
	helmOp.Spec.HelmOpOptions = &fleet.BundleHelmOptions{}
	add(helmOp)
	add(newBundleObject("by-hand", ""))
	idle := newBundleObject("by-hand-without-targets", "")
	idle.Spec.Targets = nil
	add(idle)
	for i := range clusters {
		c := newClusterObject(fmt.Sprintf("c%03d", i))
		switch i % 25 {
		case 1: // comes once a week
			c.Spec.CheckIn = &fleet.ClusterCheckIn{Mode: heartbeat.ModePoll}
			next := ago(-4 * 24 * time.Hour)
			c.LastSeen = now.Add(-3 * 24 * time.Hour)
			c.Status.Agent.LastSeen, c.Status.Agent.NextCheckIn = metav1.NewTime(c.LastSeen), &next
			c.Status.Display.State = string(fleet.WaitApplied)
			c.Status.Conditions = []fleet.Condition{ready(corev1.ConditionFalse, "WaitApplied(1)", 2*24*time.Hour)}
		case 2: // a rollout has not reached it
			c.Status.Display.State = string(fleet.OutOfSync)
			c.Status.Conditions = []fleet.Condition{ready(corev1.ConditionFalse, "OutOfSync(1)", time.Hour)}
		}
		in.Clusters = append(in.Clusters, c)
		agent := newBundleObject("fleet-agent-"+c.Name, "")
		add(agent)
		for _, b := range append(in.Bundles[:7:7], BundleObject{Bundle: agent}) {
			bd := newDeploymentObject(b.Name, c.Name, "s-"+b.Name)
			if b.Name == "helmop-db" {
				bd.Spec.DeploymentID, bd.Spec.HelmChartOptions = "chart:1", &fleet.BundleHelmOptions{}
				bd.Status.AppliedDeploymentID = "chart:1"
			}
			if i%25 == 1 { // written after its last visit
				bd.Spec.DeploymentID = "s-" + b.Name + ":2"
				bd.ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(ago(24 * time.Hour))}}
			}
			in.Deployments = append(in.Deployments, bd)
		}
		in.Contents = append(in.Contents, ContentObject{ObjectMeta: meta("", "s-fleet-agent-"+c.Name)})
	}
	for _, b := range in.Bundles[:7] {
		if b.Name == "helmop-db" {
			continue // the agents download its chart
		}
		in.Contents = append(in.Contents, ContentObject{ObjectMeta: meta("", "s-"+b.Name)})
	}
	in.readAll()
	return in
}
