package noloss

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	"github.com/fleetworkspace/fleet/pkg/agent"
	"github.com/fleetworkspace/fleet/pkg/agent/store"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// orders are tests in which something was ordered, but not this, not any more or
// not by this manager.
var orders = map[string]scenario{
	"TakenBack": {
		why: "an order that is taken back before the agent sees it never was",
		mishap: func(s *site) {
			s.Stop()
			s.Withdraw(app, "o1")
			s.Revive(app)
			s.Start()
			s.works()
			s.adopted()
		},
		ordered: (*site).withdrawn,
	},
	"RevivedInTheMiddle": {
		why: "a removal was interrupted when it had begun, and its order was taken back: what is there stays",
		mishap: func(s *site) {
			s.Stop()
			s.Must(harness.RewriteRelease(s.Context(), s.Down.Client, release.ID{Namespace: s.Home(app), Name: app}, 1, "uninstalling"))
			s.Start()
			s.Until("the release is in order", func() bool { // :2, or a later one where the upgrade was killed as well
				now := s.Deployment(app).Status.Release
				return strings.HasPrefix(now, s.Home(app)+"/app:") && !strings.HasSuffix(now, ":1")
			})
			s.State(app, fleet.Ready)
		},
		ordered: (*site).withdrawn,
	},
	"RecreatedWhileWithdrawn": {
		why: "a deployment that is made again under the same name is another one",
		mishap: func(s *site) {
			s.Stop()
			s.Withdraw(app, "o1")
			s.DeleteDeployment(app)
			s.Order(app, harness.Order{Files: files("one")})
			s.Start()
			s.works()
			s.adopted()
		},
		ordered: (*site).withdrawn,
	},
	"Heir": {
		why: "the release of a renamed bundle goes over to the new one",
		deploy: func(s *site) {
			s.Order(app, harness.Order{Files: files("one"), Repo: "r", Options: fixed(s)})
			s.State(app, fleet.Ready)
		},
		mishap: func(s *site) {
			s.Order("web", harness.Order{Files: files("one"), Repo: "r", Options: fixed(s)})
			s.State("web", fleet.WaitApplied)
			s.withdrawn()
			s.State("web", fleet.Ready)
		},
		ordered: func(s *site) { s.Withdraw("web", "end"); s.Answered("web", "end") },
	},
	"Renamed": {
		why: "a renamed bundle takes over what both have",
		deploy: func(s *site) {
			s.Order(app, harness.Order{Files: files("one"), Repo: "r", Options: at(s)})
			s.State(app, fleet.Ready)
		},
		mishap: func(s *site) {
			s.Order("web", harness.Order{Files: files("two"), Repo: "r", Options: at(s)})
			s.Says("web", fleet.ConditionDeployed, release.ReasonSharedObject, "belongs to bundle app")
			s.withdrawn()
			s.State("web", fleet.Ready)
		},
		ordered: func(s *site) { s.Withdraw("web", "end"); s.Answered("web", "end") },
	},
	"RenamedAtOnce": {
		why: "both orders come while the agent is stopped: the new one goes first",
		deploy: func(s *site) {
			s.Order(app, harness.Order{Files: files("one"), Repo: "r", Options: at(s)})
			s.State(app, fleet.Ready)
		},
		mishap: func(s *site) {
			s.Stop()
			s.Order("web", harness.Order{Files: files("two"), Repo: "r", Options: at(s)})
			s.Withdraw(app, "o1")
			s.Start()
			s.Answered(app, "o1")
			s.State("web", fleet.Ready)
		},
		ordered: func(s *site) { s.Withdraw("web", "end"); s.Answered("web", "end") },
	},
	"LongName": {
		why: "names above Helm's 53 characters are cut, always to the same",
		deploy: func(s *site) {
			s.Order(longName, harness.Order{Files: files("one"), Options: at(s)})
			s.State(longName, fleet.Ready)
		},
		mishap: func(s *site) {
			s.Restart()
			s.works()
			if bd := s.State(longName, fleet.Ready); !strings.HasSuffix(bd.Status.Release, ":1") {
				s.Errorf("deployed again: %q", bd.Status.Release)
			}
		},
		ordered: func(s *site) { s.Withdraw(longName, "end"); s.Answered(longName, "end") },
	},
	"KeepResources": {
		why: "objects stay where the deployment says so",
		deploy: func(s *site) {
			s.Order(app, harness.Order{Files: files("one"), Options: fleet.BundleDeploymentOptions{KeepResources: true}})
			s.State(app, fleet.Ready)
		},
		mishap:  (*site).withdrawn,
		ordered: func(s *site) { s.Revive(app); s.app(); s.Withdraw(app, "again"); s.Answered(app, "again") },
	},
	"OldOrder": {
		why: "an order that was taken back comes again from a backup: it is held",
		deploy: func(s *site) {
			s.app()
			s.Withdraw(app, "o1")
			s.Answered(app, "o1")
			s.Revive(app)
			s.State(app, fleet.Ready)
			s.Until("the order is known to be revoked", func() bool { r, _ := s.Record(app); return r.Revoked == "o1" })
		},
		mishap: func(s *site) {
			s.Withdraw(app, "o1")
			s.Says(app, fleet.ConditionDeployed, release.ReasonManagerBehind, "orders a removal")
			s.Restart()
			s.works()
		},
		ordered: (*site).withdrawn,
	},
	"OlderGeneration": {
		why: "an order on an object that is older than what was accepted is held, whatever the clock says",
		mishap: func(s *site) {
			s.older(func(r *store.Record) { since := time.Unix(0, 0); r.HeldSince = &since })
			s.Withdraw(app, "o1")
			s.Start()
			s.Says(app, fleet.ConditionDeployed, release.ReasonManagerBehind, "orders a removal")
		},
		ordered: func(s *site) {
			s.older(func(r *store.Record) {
				since := time.Now().Add(time.Hour) // a clock that was put back
				r.HeldSince, r.HeldFor = &since, release.BehindLimit-2*time.Second
			})
			s.Start()
			s.Answered(app, "o1")
		},
	},
	"OlderVersion": {
		why: "a version from the past is held as well, and applied if the manager insists",
		deploy: func(s *site) {
			s.Order(app, harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "zero")}})
			s.app()
		},
		mishap: func(s *site) {
			s.older(nil)
			s.Order(app, harness.Order{Files: []string{"a.yaml", harness.ConfigMap("a", "zero")}})
			s.Start()
			s.Says(app, fleet.ConditionDeployed, release.ReasonManagerBehind, "older state")
		},
		ordered: func(s *site) {
			s.older(func(r *store.Record) { r.HeldFor = release.BehindLimit - 2*time.Second })
			s.Start()
			s.State(app, fleet.Ready)
			if s.Data(s.Home(app), "b") != "" || s.Data(s.Home(app), "a") != "zero" {
				s.Error("the older version is not what runs")
			}
			s.withdrawn()
		},
	},
	"UninstallFails": {
		why:    "a removal that fails is said and tried again; nothing is let go of",
		deploy: (*site).limited,
		mishap: func(s *site) {
			s.Withdraw(app, "o1")
			s.Says(app, fleet.ConditionDeployed, release.ReasonForbidden, "uninstall: ")
			s.State(app, fleet.ErrApplied)
			s.Restart()
			s.works()
			s.State(app, fleet.ErrApplied)
		},
		ordered: func(s *site) {
			s.mayDelete()
			s.Mark(app, func(a map[string]string) { a["test"] = "look again" })
			s.Answered(app, "o1")
		},
	},
	"Abandoned": {
		why:    "a person gives a removal up: the release is forgotten, its objects stay",
		deploy: (*site).limited,
		mishap: func(s *site) {
			s.Withdraw(app, "o1")
			s.State(app, fleet.ErrApplied)
			s.Mark(app, func(a map[string]string) { a[fleet.AnnotationAbandon] = "true" })
			s.Answered(app, "o1")
		},
		ordered: func(s *site) {
			s.DeleteDeployment(app)
			s.app()
			s.withdrawn()
		},
	},
	"EmptyManifest": {
		why:    "a file that says nothing any more is a mistake, not an order",
		mishap: func(s *site) { s.empty("a.yaml", "# nothing\n") },
		ordered: func(s *site) {
			s.Order(app, harness.Order{Files: []string{"a.yaml", "# nothing\n"}, Options: fleet.BundleDeploymentOptions{AllowEmpty: true}})
			s.State(app, fleet.Ready)
		},
	},
	"EmptyDirectory": {
		why:     "so is a directory in which nothing is left but a text",
		mishap:  func(s *site) { s.empty("README.md", "nothing") },
		ordered: (*site).withdrawn,
	},
	"EmptyContent": {
		why:     "and a content without any file",
		mishap:  func(s *site) { s.empty() },
		ordered: (*site).withdrawn,
	},
	"EmptyChart": {
		why: "a chart that renders nothing although no option has changed",
		deploy: func(s *site) {
			s.Order(app, harness.Order{Files: chart(`{{ if .Values.enabled }}`), Values: map[string]any{"enabled": true}})
			s.State(app, fleet.Ready)
		},
		mishap: func(s *site) {
			s.Order(app, harness.Order{Files: chart(`{{ if .Values.enabld }}`), Values: map[string]any{"enabled": true}})
			s.Says(app, fleet.ConditionDeployed, release.ReasonEmptyResult, "")
		},
		ordered: func(s *site) {
			s.Order(app, harness.Order{Files: chart(`{{ if .Values.enabled }}`), Values: map[string]any{"enabled": false}})
			s.State(app, fleet.Ready)
		},
	},
	"OrphanOfAnother": {
		why:    "orphans are collected where asked, but not those of another manager, unless a person says so",
		config: collecting,
		mishap: func(s *site) {
			s.setMark("m3/1/2")
			s.Until("the agent knows its new manager", func() bool { return s.Contact()["manager"] == "m3/1/2" })
			s.DeleteDeployment(app)
			s.orphaned(app)
			s.Until("the time is over", s.passed(3*grace))
		},
		ordered: func(s *site) { s.confirm("m3/1") },
	},
	"OrphanCollected": {
		why:    "and what this manager has given up is collected once the time is over",
		config: collecting,
		mishap: func(s *site) { s.Stop() },
		ordered: func(s *site) {
			s.DeleteDeployment(app)
			s.Restart()
		},
	},
}

// longName is longer than the name of a release may be.
const longName = "a-bundle-whose-name-is-longer-than-fifty-three-characters"

// at puts deployments of different names into one namespace.
func at(s *site) fleet.BundleDeploymentOptions {
	return fleet.BundleDeploymentOptions{DefaultNamespace: s.Home("shared")}
}

// fixed is at with the name of the release.
func fixed(s *site) fleet.BundleDeploymentOptions {
	o := at(s)
	o.Helm = &fleet.HelmOptions{ReleaseName: "fixed"}
	return o
}

// chart has two ConfigMaps behind a condition.
func chart(condition string) []string {
	text := condition + "\n" + harness.ConfigMap("a", "one") + "---\n" + harness.ConfigMap("b", "two") + "{{ end }}\n"
	return []string{"Chart.yaml", "apiVersion: v2\nname: c\nversion: 1.0.0\n", "templates/c.yaml", text}
}

// older stops the agent and makes what it has accepted newer than what the manager
// has: the same as if the manager had become older.
func (s *site) older(also func(*store.Record)) {
	s.Helper()
	s.Until("the record is complete", func() bool { r, ok := s.Record(app); return ok && r.Chunks == 0 })
	s.Stop()
	s.ChangeRecord(app, func(r *store.Record) {
		r.Generation = 99
		if also != nil {
			also(r)
		}
	})
}

// empty orders "app" to be made of files that yield nothing.
func (s *site) empty(files ...string) {
	s.Helper()
	s.Order(app, harness.Order{Files: files})
	s.Says(app, fleet.ConditionDeployed, release.ReasonEmptyResult, "")
}

// limited deploys "app" under an account that may delete nothing.
func (s *site) limited() {
	s.Helper()
	s.account("get", "list", "watch", "create", "update", "patch")
	s.Order(app, harness.Order{Files: files("one"), Options: fleet.BundleDeploymentOptions{ServiceAccount: "limited"}})
	s.State(app, fleet.Ready)
}

// mayDelete gives that account the rest of its rights.
func (s *site) mayDelete() { s.account("*") }

func (s *site) account(verbs ...string) {
	s.Helper()
	ctx, name := s.Context(), s.Prefix+"limited"
	_, err := kube.StoreOf[*corev1.ServiceAccount](s.Down.Admin).Apply(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: "limited"}})
	s.Must(err)
	_, err = kube.StoreOf[*rbacv1.ClusterRole](s.Down.Admin).Apply(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: verbs}},
	})
	s.Must(err)
	_, err = kube.StoreOf[*rbacv1.ClusterRoleBinding](s.Down.Admin).Apply(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: s.Namespace, Name: "limited"}},
	})
	s.Must(err)
}

// grace is after which time orphans are collected in tests.
const grace = 2 * time.Second

// collecting asks for orphans to be collected.
func collecting(s *site) {
	s.Config.OrphanPolicy, s.Config.OrphanGracePeriod = agent.OrphansCollected, grace
}

// passed is true once a time is over.
func (s *site) passed(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().After(end) }
}

// confirm says that what the manager of this mark lacks is not wanted.
func (s *site) confirm(mark string) {
	s.Helper()
	harness.Edit(s.TB, s.Down, s.Namespace, "fleet-agent-contact", func(cm *corev1.ConfigMap) {
		cm.Annotations = map[string]string{"fleet.cattle.io/collect-orphans": mark}
	})
}
