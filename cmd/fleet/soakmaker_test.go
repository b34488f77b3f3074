package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	planreading "github.com/fleetworkspace/fleet/pkg/plan/reading"
)

// A maker plays manager, engine and agent of one repository with some bundles on two
// clusters: it writes what they write, in their order, and dies between two writes
// now and then.
type maker struct {
	s       *slow
	older   bool // it does not say what a reading has written
	repo    *fleet.GitRepo
	works   sync.WaitGroup
	mu      sync.Mutex // of all writes; guards what follows
	bundles map[string]*fleet.Bundle
	ready   map[string]bool // "<bundle> <cluster> <commit>" that were Ready once
}

// A push is one commit and what it changes.
type push struct {
	commit           string
	changes, removes []string
}

func sha(i int) string { return fmt.Sprintf("%08x%032x", i*7919+4096, 0) }

func newMaker(older bool) *maker {
	m := &maker{s: newSlow(), older: older, bundles: map[string]*fleet.Bundle{}, ready: map[string]bool{}}
	m.repo = &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: "app", Generation: 1}}
	for _, name := range []string{"c1", "c2"} {
		c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: name}}
		c.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionReady, Status: corev1.ConditionTrue}}
		m.s.write(c, false)
	}
	first := push{commit: sha(0)}
	for i := range 4 {
		first.changes = append(first.changes, fmt.Sprintf("app-%d", i))
	}
	m.read(first, false)
	return m
}

// pause is the time between two writes.
func pause() { time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond) }

// read writes what a commit yields; a mortal manager may die before any write, and
// begins again.
func (m *maker) read(p push, mortal bool) {
	dies := func() bool {
		pause()
		return mortal && rand.IntN(12) == 0
	}
	for !m.attempt(p, dies) {
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
	}
}

// attempt is one reading; it reports whether it came to its end.
func (m *maker) attempt(p push, dies func() bool) bool {
	for _, name := range p.changes {
		if b := m.at(name); b != nil && b.Labels[fleet.LabelCommit] == p.commit {
			continue
		}
		if dies() {
			return false
		}
		m.change(name, p.commit)
	}
	for _, name := range p.removes {
		if b := m.at(name); b == nil || b.Annotations != nil {
			continue
		}
		if dies() {
			return false
		}
		m.mark(name, p.commit)
	}
	if len(p.removes) > 0 && m.repo.Annotations[fleet.AnnotationPrune] != p.commit {
		if dies() {
			return false
		}
		m.repo.Annotations = map[string]string{fleet.AnnotationPrune: p.commit}
		m.s.write(m.repo.DeepCopy(), false)
	}
	if dies() {
		return false
	}
	m.report(p)
	for _, name := range p.removes {
		if b := m.at(name); b != nil {
			m.works.Go(func() { m.uninstall(b) })
		}
	}
	return true
}

// at is a bundle as it was written last.
func (m *maker) at(name string) *fleet.Bundle {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bundles[name]
}

// mark asks for a bundle to be removed.
func (m *maker) mark(name, mark string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.bundles[name].DeepCopy()
	b.Annotations = map[string]string{fleet.AnnotationPrune: mark}
	m.bundles[name] = b
	m.s.write(b.DeepCopy(), false)
}

// change writes a bundle; engine and agents follow.
func (m *maker) change(name, commit string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.bundles[name]
	if b == nil {
		b = &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "shops", Name: name}}
	}
	b = b.DeepCopy()
	b.Generation++
	b.Labels = map[string]string{fleet.LabelRepoName: "app", fleet.LabelCommit: commit}
	m.bundles[name] = b
	m.s.write(b.DeepCopy(), false)
	m.works.Go(func() { m.rollOut(b) })
}

// same is a bundle as it is now, and whether it is still as it was worked on.
func (m *maker) same(b *fleet.Bundle) (now *fleet.Bundle, ok bool) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	u := m.s.held["Bundle "+b.Namespace+"/"+b.Name]
	if u == nil {
		return nil, false
	}
	now, err := client.Convert[fleet.Bundle](u)
	return now, err == nil && now.Generation == b.Generation && now.DeletionTimestamp == nil
}

// rollOut deploys a bundle: deployments first, then the bundle's status, then what the
// agents say.
func (m *maker) rollOut(b *fleet.Bundle) {
	pause()
	deployments := []*fleet.BundleDeployment{}
	for _, cluster := range []string{"c1", "c2"} {
		bd := &fleet.BundleDeployment{ObjectMeta: metav1.ObjectMeta{
			Namespace: "cluster-" + cluster, Name: b.Name, Generation: b.Generation,
			Labels: map[string]string{
				fleet.LabelRepoName: "app", fleet.LabelCommit: b.Labels[fleet.LabelCommit],
				fleet.LabelBundleName: b.Name, fleet.LabelBundleNamespace: "shops",
				fleet.LabelCluster: cluster, fleet.LabelClusterNamespace: "shops",
			},
		}}
		id := fmt.Sprintf("s-%s:%d", b.Name, b.Generation)
		bd.Spec.DeploymentID, bd.Spec.StagedDeploymentID = id, id
		bd.Status.AppliedDeploymentID = fmt.Sprintf("s-%s:%d", b.Name, b.Generation-1)
		bd.Status.Ready, bd.Status.NonModified = true, true
		deployments = append(deployments, bd)
	}
	say := func(f func(now *fleet.Bundle)) bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		now, ok := m.same(b)
		if ok {
			f(now)
		}
		return ok
	}
	for _, bd := range deployments {
		if !say(func(*fleet.Bundle) { m.s.write(bd, false) }) {
			return
		}
		pause()
	}
	_ = say(func(now *fleet.Bundle) {
		now.Status.ObservedGeneration = now.Generation
		now.Status.Summary = fleet.BundleSummary{DesiredReady: 2, Ready: 2}
		now.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionReady, Status: corev1.ConditionTrue}}
		m.s.write(now, false)
		m.keepStatus(now)
	})
	for _, bd := range deployments {
		pause()
		bd = bd.DeepCopy()
		bd.Status.AppliedDeploymentID = bd.Spec.DeploymentID
		ok := say(func(*fleet.Bundle) {
			m.ready[strings.Join([]string{b.Name, bd.Labels[fleet.LabelCluster], b.Labels[fleet.LabelCommit]}, " ")] = true
			m.s.write(bd, false)
		})
		if !ok {
			return
		}
	}
}

// keepStatus is what the reader sees of a bundle when it writes it again.
func (m *maker) keepStatus(now *fleet.Bundle) {
	if b := m.bundles[now.Name]; b != nil && b.Generation == now.Generation {
		b = b.DeepCopy()
		b.Status = now.Status
		m.bundles[now.Name] = b
	}
}

// uninstall removes a bundle from both clusters, and then the bundle.
func (m *maker) uninstall(b *fleet.Bundle) {
	m.mu.Lock()
	delete(m.bundles, b.Name)
	m.mu.Unlock()
	gone := b.DeepCopy()
	gone.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for _, step := range []func(){
		func() { m.s.write(gone, false) },
		func() { m.leave(b.Name, "c1") }, func() { m.leave(b.Name, "c2") },
		func() { m.s.write(gone, true) },
	} {
		pause()
		m.mu.Lock()
		step()
		m.mu.Unlock()
	}
}

func (m *maker) leave(bundle, cluster string) {
	m.s.mu.Lock()
	u := m.s.held["BundleDeployment cluster-"+cluster+"/"+bundle]
	m.s.mu.Unlock()
	if u == nil {
		return
	}
	if bd, err := client.Convert[fleet.BundleDeployment](u); err == nil {
		m.s.write(bd, true)
	}
}

// report writes the status of the repository, last.
func (m *maker) report(p push) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repo = m.repo.DeepCopy()
	st := &m.repo.Status
	st.Commit, st.PollingCommit, st.ObservedGeneration, st.GitJobStatus = p.commit, p.commit, m.repo.Generation, "Current"
	st.Conditions = []fleet.Condition{{Type: fleet.ConditionGitPolling, Status: corev1.ConditionTrue, ObservedGeneration: m.repo.Generation}}
	if !m.older {
		var own []*fleet.Bundle
		for _, b := range m.bundles {
			own = append(own, b)
		}
		st.Reading = planreading.Next(st.Reading, fleet.Reading{Commit: p.commit, Generation: m.repo.Generation, Complete: true},
			planreading.Commits(m.repo, own), p.removes)
	}
	m.s.write(m.repo.DeepCopy(), false)
}
