package noloss

import (
	"maps"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// wayBack has one test case for each object that the reference's manager removes after it
// has taken a fleet back from ours. The Cluster still has the annotation of our manager.
// The reference's manager removes a deployment by deleting its BundleDeployment.
var wayBack = map[string]scenario{
	"BackDeleted": {
		why:    "what the reference has lost is kept, and what it deletes goes",
		deploy: (*site).byReference,
		mishap: func(s *site) { // its list is another one, and then all of it is gone
			old := s.Deployments
			s.Revoke()
			s.Deployments += "-2"
			s.Down.Namespace(s.TB, s.Deployments)
			s.Grant()
			s.Credential()
			s.Restart()
			s.orphaned(app, kept)
			s.Revoke()
			s.Deployments = old
			s.Grant()
			s.Credential()
			s.Restart()
			s.Until("there are no orphans", func() bool { return len(s.Orphans()) == 0 })
		},
		ordered: func(s *site) {
			s.works() // the agent watches: of two that are missing from its first list it would know nothing
			s.purge(app)
			s.purge(kept)
		},
	},
	"BackDeletedWhileStopped": {
		why:    "an agent that comes back knows by the finalizer that the reference has deleted, if the list is the same",
		deploy: (*site).byReference,
		mishap: func(s *site) {
			s.Stop()
			s.purge(app)
			s.purge(kept)
			s.Start()
			s.orphaned(app, kept) // there is nothing else in the list
		},
		ordered: func(s *site) {
			s.byReference()
			s.Stop()
			s.purge(app)
			s.Start()
			s.Until("the one that was deleted has gone", func() bool { return len(s.objects()) == 2 })
			s.State(kept, fleet.Ready)
			s.purge(kept)
		},
	},
	"BackDeletionSeen": {
		why:    "a deletionTimestamp is no order yet; it is one when the object is gone",
		deploy: (*site).byReference,
		mishap: func(s *site) {
			for _, name := range []string{app, kept} {
				s.DeleteDeployment(name)
				s.Until("the deletion of "+name+" is known", func() bool { r, _ := s.Record(name); return r.Last != nil && r.Last.Deleted })
			}
			s.Restart()
			s.works()
		},
		ordered: func(s *site) { s.Stop(); s.unlock(app); s.unlock(kept); s.Start() },
	},
	"BackOurs": {
		why:    "what our manager wrote last is ours, also after the Cluster has lost its mark",
		config: (*site).underReference,
		deploy: func(s *site) {
			s.Order(app, harness.Order{Files: files("one"), Change: func(bd *fleet.BundleDeployment) {
				s.labelAsReference(bd)
				bd.Finalizers, bd.Labels[fleet.LabelBucket] = nil, "a1"
			}})
			s.State(app, fleet.Ready)
		},
		mishap:  func(s *site) { s.DeleteDeployment(app); s.orphaned(app); s.Restart(); s.orphaned(app) },
		ordered: (*site).backAndWithdrawn,
	},
}

// kept is a deployment beside "app".
const kept = "keeper"

// byReference deploys both as the reference's manager does, and waits until the agent
// has kept how they are.
func (s *site) byReference() {
	s.Helper()
	for _, name := range []string{app, kept} {
		s.Order(name, harness.Order{Files: files("one"), Change: s.labelAsReference})
	}
	for name, witness := range map[string]string{app: kept, kept: app} {
		bd := s.State(name, fleet.Ready)
		s.Until("the last state of "+name+" is kept", func() bool {
			r, _ := s.Record(name)
			if r.UID != bd.UID || r.Last == nil || r.Last.WitnessUID != s.Deployment(witness).UID {
				s.Mark(name, func(a map[string]string) { a["test"] += "x" }) // another turn
				return false
			}
			return true
		})
	}
}

// labelAsReference gives a BundleDeployment what the reference's manager gives it: all of
// its labels, and a finalizer.
func (s *site) labelAsReference(bd *fleet.BundleDeployment) {
	maps.Copy(bd.Labels, map[string]string{
		fleet.LabelManaged: "true", fleet.LabelCluster: s.Name, fleet.LabelClusterNamespace: s.Workspace,
	})
	bd.Finalizers = []string{fleet.FinalizerBundleDeployment}
}

// purge deletes a deployment as the reference's manager does: it takes its finalizer off
// as soon as the object is deleted, without waiting for an agent.
func (s *site) purge(name string) {
	s.Helper()
	s.DeleteDeployment(name)
	s.unlock(name)
	s.Until(name+" is gone", func() bool {
		_, err := kube.StoreOf[*fleet.BundleDeployment](s.Hub.Admin).Get(s.Context(), kube.Key{Namespace: s.Deployments, Name: name})
		return kube.IsGone(err)
	})
}

// unlock takes the finalizer off.
func (s *site) unlock(name string) {
	s.Helper()
	harness.Edit(s.TB, s.Hub, s.Deployments, name, func(bd *fleet.BundleDeployment) { bd.Finalizers = nil })
}
