package noloss

import (
	"fmt"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// shared are tests of bundles of one repository that have the same objects: none
// of them takes what a wanted one has.
var shared = map[string]scenario{
	"SharedLater": {
		why:    "a bundle that comes later takes nothing from one that is wanted, and gets it when that one goes",
		deploy: (*site).first,
		mishap: func(s *site) {
			s.second("two")
			s.refused("web", app)
			s.keeps("one")
		},
		ordered: func(s *site) {
			s.withdrawn()
			s.State("web", fleet.Ready)
			s.keeps("two")
			s.leave("web")
		},
	},
	"SharedByUpgrade": {
		why: "nor does a bundle whose next version has the objects",
		deploy: func(s *site) {
			s.first()
			s.Order("web", harness.Order{Files: []string{"c.yaml", harness.ConfigMap("c", "own")}, Repo: "r", Options: at(s)})
			s.State("web", fleet.Ready)
		},
		mishap: func(s *site) {
			s.second("two")
			s.refused("web", app)
			s.keeps("one")
		},
		ordered: func(s *site) {
			s.withdrawn()
			s.State("web", fleet.Ready)
			s.keeps("two")
			s.leave("web")
		},
	},
	"SharedAtOnce": {
		why: "of three that come at once one has the objects, and the others get them in turn",
		deploy: func(s *site) {
			s.Stop()
			for _, name := range trio {
				s.Order(name, harness.Order{Files: files(name), Repo: "r", Options: at(s)})
			}
			s.Start()
			s.owner()
		},
		mishap: func(s *site) { s.Restart(); s.owner() },
		ordered: func(s *site) {
			for range trio {
				s.leave(s.owner())
			}
		},
	},
	"SharedTaken": {
		why: "what was taken with takeOwnership comes back when the taker goes, although drift is not corrected",
		deploy: func(s *site) {
			s.first()
			o := at(s)
			o.Helm = &fleet.HelmOptions{TakeOwnership: true}
			s.Order("web", harness.Order{Files: files("two"), Repo: "r", Options: o})
			s.State("web", fleet.Ready)
			s.State(app, fleet.Modified)
			s.keeps("two")
		},
		mishap: func(s *site) {
			s.leave("web")
			s.State(app, fleet.Ready)
			s.keeps("one")
		},
		ordered: (*site).withdrawn,
	},
	"SharedMoved": {
		why:    "an object that moves from one wanted bundle to another is not created again",
		deploy: (*site).first,
		mishap: func(s *site) {
			s.Order("web", harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "two")}, Repo: "r", Options: at(s)})
			s.refused("web", app)
			s.Order(app, harness.Order{Files: []string{"b.yaml", harness.ConfigMap("b", "data")}, Repo: "r", Options: at(s)})
			s.State("web", fleet.Ready)
			s.State(app, fleet.Ready)
			s.keeps("two")
		},
		ordered: func(s *site) { s.withdrawn(); s.leave("web") },
	},
	"MovedByPruning": movedByPruning("objects that move from a pruned bundle to another are not created again", files("two")...),
	"MovedToOtherFile": movedByPruning("nor are they where the name of the file changes",
		"all.yaml", harness.ConfigMap("a", "two")+"---\n"+harness.ConfigMap("b", "data")),
}

// movedByPruning is a commit that moves all objects of "app" to another bundle and
// prunes "app". The agent sees both orders at once.
func movedByPruning(why string, to ...string) scenario {
	return scenario{
		why:    why,
		deploy: (*site).first,
		mishap: func(s *site) {
			s.Stop()
			s.Order("web", harness.Order{Files: to, Repo: "r", Options: at(s)})
			s.Withdraw(app, "moved")
			s.Start()
			s.Answered(app, "moved")
			s.State("web", fleet.Ready)
			s.keeps("two")
		},
		ordered: func(s *site) { s.DeleteDeployment(app); s.leave("web") },
	}
}

// trio are bundles of one repository with the same objects.
var trio = []string{"x", "y", "z"}

// first deploys "app" to a namespace that others use, too.
func (s *site) first() {
	s.Helper()
	s.Order(app, harness.Order{Files: files("one"), Repo: "r", Options: at(s)})
	s.State(app, fleet.Ready)
}

// second orders another bundle of the repository with the same objects.
func (s *site) second(value string) {
	s.Helper()
	s.Order("web", harness.Order{Files: files(value), Repo: "r", Options: at(s)})
}

// refused waits until a bundle says that another one has its objects.
func (s *site) refused(name, by string) {
	s.Helper()
	s.Says(name, fleet.ConditionDeployed, release.ReasonSharedObject,
		fmt.Sprintf("belongs to bundle %s (release %s/%s), which is wanted, too", by, s.Home("shared"), by))
}

// keeps checks what the object that all want holds.
func (s *site) keeps(value string) {
	s.Helper()
	if got := s.Data(s.Home("shared"), "a"); got != value {
		s.Errorf("the object holds %q, want %q", got, value)
	}
}

// leave withdraws a deployment and waits for the answer.
func (s *site) leave(name string) {
	s.Helper()
	s.Withdraw(name, "leave")
	s.Answered(name, "leave")
	s.DeleteDeployment(name)
}

// has reports whether the manager has a deployment.
func (s *site) has(name string) bool {
	s.Helper()
	_, err := kube.StoreOf[*fleet.BundleDeployment](s.Hub.Admin).Get(s.Context(), kube.Key{Namespace: s.Deployments, Name: name})
	if err != nil && !kube.IsGone(err) {
		s.Fatal(err)
	}
	return err == nil
}

// owner is the one of trio that has the objects; the others that are left name it.
func (s *site) owner() string {
	s.Helper()
	var owner string
	s.Until("one has the objects", func() bool {
		owner = s.Data(s.Home("shared"), "a")
		return owner != "" && s.has(owner)
	})
	s.State(owner, fleet.Ready)
	for _, name := range trio {
		if name != owner && s.has(name) {
			s.refused(name, owner)
		}
	}
	return owner
}
