package noloss

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"

	"encoding/pem"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/integrationtests/harness"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// absences are tests in which a deployment is not there any more, for reasons
// that are none.
var absences = map[string]scenario{
	"DeletedByHand": {
		why:     "a deleted BundleDeployment is no order, even for an agent that watches",
		mishap:  func(s *site) { s.DeleteDeployment(app); s.orphaned(app); s.Restart(); s.orphaned(app) },
		ordered: (*site).backAndWithdrawn,
	},
	"DeletedWhileStopped": {
		why:     "an agent that comes back and finds nothing knows nothing",
		mishap:  func(s *site) { s.Stop(); s.DeleteDeployment(app); s.Start(); s.orphaned(app) },
		ordered: (*site).backAndWithdrawn,
	},
	"EmptyList": {
		why: "a list may be empty because it is another list",
		mishap: func(s *site) {
			s.Revoke()
			s.Deployments += "-2"
			s.Down.Namespace(s.TB, s.Deployments)
			s.Grant()
			s.Credential()
			s.Restart()
			s.orphaned(app)
		},
		ordered: (*site).backAndWithdrawn,
	},
	"Forbidden": {
		why:     "who may not list knows nothing",
		mishap:  func(s *site) { s.Revoke(); s.away(); s.Restart(); s.away() },
		ordered: func(s *site) { s.Grant(); s.withdrawn() },
	},
	"Unauthorized": {
		why: "a credential that is older than a backup is refused",
		mishap: func(s *site) {
			s.CredentialFor(s.Hub.Kubeconfig("nobody's"))
			s.Restart()
			s.Until("refused", func() bool { return s.Contact()["refused"] == "true" })
		},
		ordered: func(s *site) { s.Credential(); s.Restart(); s.withdrawn() },
	},
	"NotFound": {
		why:     "something on the way answers 404 to everything, as for a manager that was wiped",
		mishap:  func(s *site) { s.behind(notFound); s.away() },
		ordered: func(s *site) { s.Credential(); s.Restart(); s.withdrawn() },
	},
	"EmptyAnswers": {
		why: "something on the way, or another manager at that address, answers every list with an empty one",
		mishap: func(s *site) {
			url := s.behind(empty)
			s.Until("the agent takes it for a manager", func() bool { return s.Contact()["url"] == url && s.Contact()["reached"] == "true" })
		},
		ordered: func(s *site) { s.Credential(); s.Restart(); s.withdrawn() },
	},
	"NamespaceGone": {
		why: "a user deletes the cluster's namespace",
		mishap: func(s *site) {
			s.dropNamespace()
			s.away()
		},
		ordered: func(s *site) { s.makeNamespace(); s.Restart(); s.backAndWithdrawn() },
	},
	"NamespaceRecreated": {
		why: "the namespace and its deployments are created again, with other UIDs",
		mishap: func(s *site) {
			s.Stop()
			s.dropNamespace()
			s.makeNamespace()
			s.Order(app, harness.Order{Files: files("one")})
			s.Start()
			s.adopted()
		},
		ordered: (*site).withdrawn,
	},
	"Terminating": {
		why: "a deletionTimestamp is no order, nor is that the reference's finalizer goes",
		deploy: func(s *site) {
			s.Order(app, harness.Order{Files: files("one"), Change: func(bd *fleet.BundleDeployment) {
				bd.Finalizers = []string{fleet.FinalizerBundleDeployment}
			}})
			s.State(app, fleet.Ready)
		},
		mishap: func(s *site) {
			s.DeleteDeployment(app)
			s.Restart()
			s.works()
			harness.Edit(s.TB, s.Hub, s.Deployments, app, func(bd *fleet.BundleDeployment) { bd.Finalizers = nil })
			s.orphaned(app)
		},
		ordered: (*site).backAndWithdrawn,
	},
	"ClusterDeleted": {
		why: "who deletes a Cluster has said nothing about what runs there",
		mishap: func(s *site) {
			s.Must(kube.StoreOf[*fleet.Cluster](s.Hub.Admin).Delete(s.Context(), kube.Key{Namespace: s.Workspace, Name: s.Name}, kube.Precondition{}))
			s.away()
		},
		ordered: (*site).withdrawn,
	},
	"StoreLost": {
		why:     "without its records the agent finds its releases, and still removes none",
		mishap:  func(s *site) { s.Stop(); s.Forget(); s.DeleteDeployment(app); s.Start(); s.orphaned(app) },
		ordered: (*site).backAndWithdrawn,
	},
	"NothingWanted": {
		why: "a deployment that names no version is one that nothing was released to",
		mishap: func(s *site) {
			s.Order(app, harness.Order{Files: files("one"), Change: func(bd *fleet.BundleDeployment) { bd.Spec.DeploymentID = "" }})
			s.works()
		},
		ordered: (*site).withdrawn,
	},
	"ContentGone": {
		why: "a new version whose content was collected is waited for; the old one stays",
		mishap: func(s *site) {
			s.Order(app, harness.Order{Files: files("one"), Change: func(bd *fleet.BundleDeployment) {
				bd.Spec.DeploymentID = "s-" + strings.Repeat("0", 61) + ":" + strings.Repeat("0", 64)
			}})
			s.Says(app, fleet.ConditionDeployed, "ContentMissing", "")
		},
		ordered: (*site).withdrawn,
	},
	"ReRegistered":       reRegistered("the cluster joins again under another name", harness.SiteManager),
	"OtherEpoch":         reRegistered("the manager was copied: it has another epoch", fmt.Sprintf("m1/2/%d", fleet.ProtocolVersion)),
	"OtherManager":       reRegistered("the manager was installed again: it has another id", fmt.Sprintf("m2/1/%d", fleet.ProtocolVersion)),
	"OtherReference":     reRegistered("the new manager is the reference's", ""),
	"ReferenceListed":    referenceListed,
	"ReferenceForgotten": markLost,
}

// reRegistered is a cluster that joins again, under another name, another namespace
// and a manager of that mark: what is wanted there is adopted, and what is not
// there is an orphan.
func reRegistered(why, mark string) scenario {
	return scenario{
		why: why,
		deploy: func(s *site) {
			s.app()
			s.Order("other", harness.Order{Files: files("one")})
			s.State("other", fleet.Ready)
		},
		mishap: func(s *site) {
			s.Stop()
			s.Name += "-again"
			s.Workspace, s.Deployments = "ws-"+s.Name, "cluster-"+s.Name
			s.Join(mark)
			s.Order(app, harness.Order{Files: files("one")})
			s.Start()
			s.adopted()
			s.orphaned("other")
		},
		ordered: func(s *site) {
			s.withdrawn()
			s.Order("other", harness.Order{Files: files("one")})
			s.State("other", fleet.Ready)
			s.Withdraw("other", "too")
			s.Answered("other", "too")
		},
	}
}

// referenceListed is absence under a manager that gives no orders: still none. A
// deletion that the agent watches is one.
var referenceListed = scenario{
	why:    "also under the reference's manager absence is no order",
	config: (*site).underReference,
	mishap: func(s *site) {
		s.Stop()
		s.DeleteDeployment(app)
		s.Start()
		s.orphaned(app)
	},
	ordered: func(s *site) {
		s.Order(app, harness.Order{Files: files("one")})
		s.adopted()
		s.DeleteDeployment(app)
	},
}

// markLost is a manager of ours whose mark another client has removed from the
// Cluster: the agent does not take it for one of the reference's.
var markLost = scenario{
	why: "a Cluster without mark may have lost it",
	mishap: func(s *site) {
		s.setMark("")
		s.Until("the agent has asked", s.checkedIn())
		s.DeleteDeployment(app)
		s.orphaned(app)
		s.Restart()
		s.orphaned(app)
	},
	ordered: (*site).backAndWithdrawn,
}

// underReference makes the manager one that gives no orders.
func (s *site) underReference() { s.setMark("") }

// setMark changes the manager's mark on the Cluster; "" removes it.
func (s *site) setMark(mark string) {
	s.Helper()
	harness.Edit(s.TB, s.Hub, s.Workspace, s.Name, func(c *fleet.Cluster) {
		delete(c.Annotations, fleet.AnnotationManager)
		if _, err := registration.ParseMark(mark); err == nil {
			c.Annotations[fleet.AnnotationManager] = mark
		}
	})
}

// checkedIn is true once the agent has checked in twice from now on.
func (s *site) checkedIn() func() bool {
	s.Helper()
	version := func() string {
		c, err := kube.StoreOf[*fleet.Cluster](s.Hub.Admin).Get(s.Context(), kube.Key{Namespace: s.Workspace, Name: s.Name})
		s.Must(err)
		return c.Status.Agent.LastSeen.String()
	}
	last, seen := version(), 0
	return func() bool {
		if now := version(); now != last {
			last, seen = now, seen+1
		}
		return seen >= 2
	}
}

// dropNamespace deletes the cluster's namespace and waits until it is gone.
func (s *site) dropNamespace() {
	s.Helper()
	namespaces := kube.StoreOf[*corev1.Namespace](s.Hub.Admin)
	s.Must(namespaces.Delete(s.Context(), kube.Key{Name: s.Deployments}, kube.Precondition{}))
	s.Until("the namespace is gone", func() bool {
		_, err := namespaces.Get(s.Context(), kube.Key{Name: s.Deployments})
		return kube.IsGone(err)
	})
}

// makeNamespace makes it again, with a new credential.
func (s *site) makeNamespace() {
	s.Helper()
	s.Hub.Namespace(s.TB, s.Deployments)
	s.Grant()
	s.Credential()
}

// behind puts a server between the agent and its manager that answers itself, and
// restarts the agent. It returns the URL of that server.
func (s *site) behind(answer http.HandlerFunc) string {
	s.Helper()
	var asked atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/bundledeployments") {
			asked.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	s.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s.CredentialFor(harness.Kubeconfig(server.URL, ca, "t"))
	s.Restart()
	s.Until("deployments were asked for", func() bool { return asked.Load() > 0 })
	return server.URL
}

// notFound answers that nothing exists.
func notFound(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"the server could not find the requested resource"}`)
}

// empty answers each list with an empty one, and takes every sign of life.
func empty(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodPatch:
		fmt.Fprintf(w, `{"kind":"Cluster","apiVersion":%q,"metadata":{"name":"c","namespace":"n","resourceVersion":"1"}}`, fleet.GroupVersion.String())
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") == "":
		fmt.Fprintf(w, `{"kind":"BundleDeploymentList","apiVersion":%q,"metadata":{"resourceVersion":"1"},"items":[]}`, fleet.GroupVersion.String())
	default:
		notFound(w, r)
	}
}
