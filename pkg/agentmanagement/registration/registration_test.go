package registration

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/managertest"
	"github.com/fleetworkspace/fleet/pkg/agentmanagement/terminating"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest"
	"github.com/fleetworkspace/fleet/pkg/kube/kubetest/looptest"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/naming"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// start returns what a process runs.
func start(settings registration.Settings) func(*kube.Client) []kube.Runner {
	return managertest.Start(func(p managertest.Ports) []kube.Runner {
		return New(Config{
			System: managertest.System, Settings: settings, Terminating: terminating.New(p.Client, time.Now), Now: time.Now,
		}, p.Client, p.Caches, p.Events, p.Log).Runnables()
	})
}

// given makes a workspace with a token and a Cluster that the loop for Clusters has
// processed.
func given(w *looptest.World) { givenIn(w, "ws", "site") }

// givenIn does the same with other names.
func givenIn(w *looptest.World, workspace, cluster string) {
	w.Server.MakeNamespace(workspace)
	looptest.Make(w, &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: "token"}})
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: workspace, Name: cluster}, Spec: fleet.ClusterSpec{ClientID: "id"}}
	namespace := "cluster-" + cluster
	looptest.Make(w, registration.NewNamespace(c, namespace, managertest.System))
	looptest.Make(w, registration.MarkCluster(c, namespace, managertest.Installation.Mark()))
	looptest.Change(w, workspace, cluster, func(c *fleet.Cluster) { c.Status.Namespace = namespace })
}

// request asks for the Cluster of a clientID, with a token.
func request(w *looptest.World, name, clientID, token string) {
	looptest.Make(w, &fleet.ClusterRegistration{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: name, Labels: map[string]string{fleet.LabelRegistrationToken: token}},
		Spec:       fleet.ClusterRegistrationSpec{ClientID: clientID, ClientRandom: "random-" + name},
	})
}

func read(w *looptest.World, name string) *fleet.ClusterRegistration {
	return looptest.Read[*fleet.ClusterRegistration](w, "ws", name)
}

// granted are the names of everything that a request may be granted. What holds the token
// of an account is deleted with that by a controller of the cluster.
func granted(w *looptest.World) []string {
	in := managertest.System.RegistrationNamespace()
	return slices.Concat(
		looptest.Names[*corev1.ServiceAccount](w, in),
		slices.DeleteFunc(looptest.Names[*corev1.Secret](w, in), func(name string) bool { return strings.HasSuffix(name, "-token") }),
		looptest.Names[*rbacv1.RoleBinding](w, in), looptest.Names[*rbacv1.RoleBinding](w, "ws"),
		looptest.Names[*rbacv1.RoleBinding](w, "cluster-site"), looptest.Names[*rbacv1.ClusterRoleBinding](w, ""),
	)
}

// A request is granted one account with its rights, and the account's token is handed
// over.
func TestRequestGranted(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(registration.Settings{}), Given: given, Rests: 30 * time.Minute,
		When: func(w *looptest.World) { request(w, "one", "id", "token") },
		Then: func(w *looptest.World) {
			r := read(w, "one")
			if !r.Status.Granted || r.Status.ClusterName != "site" {
				w.Fatalf("want it granted for site, got %+v", r.Status)
			}
			in, account := managertest.System.RegistrationNamespace(), registration.Account(r)
			if got := looptest.Names[*corev1.ServiceAccount](w, in); !slices.Equal(got, []string{account}) {
				w.Errorf("want account %s, got %v", account, got)
			}
			s := looptest.Read[*corev1.Secret](w, in, naming.RegistrationSecret("id", "random-one"))
			if s == nil || len(s.Data["token"]) == 0 || string(s.Data["clusterName"]) != "site" {
				w.Errorf("want the token of site handed over, got %v", s)
			}
			for _, namespace := range []string{"ws", "cluster-site"} {
				if got := looptest.Names[*rbacv1.RoleBinding](w, namespace); !slices.Equal(got, []string{"one"}) {
					w.Errorf("want the account bound in %s, got %v", namespace, got)
				}
			}
		},
	})
}

// What was handed over is deleted when its time is over; the rights stay.
func TestRequestHandoverEnds(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(registration.Settings{}), Given: given, Settles: registration.CredentialLifetime + time.Minute,
		When: func(w *looptest.World) { request(w, "one", "id", "token") },
		Then: func(w *looptest.World) {
			in := managertest.System.RegistrationNamespace()
			if s := looptest.Read[*corev1.Secret](w, in, naming.RegistrationSecret("id", "random-one")); s != nil {
				w.Error("the credential can still be fetched")
			}
			if got := looptest.Names[*corev1.ServiceAccount](w, in); len(got) != 1 {
				w.Errorf("want the account to stay, got %v", got)
			}
		},
	})
}

// A request without a Cluster gets a new one.
func TestRequestMakesCluster(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(registration.Settings{}), Given: given,
		When: func(w *looptest.World) { request(w, "one", "new", "token") },
		Then: func(w *looptest.World) {
			if got := looptest.Names[*fleet.Cluster](w, "ws"); len(got) != 2 {
				w.Errorf("want one new Cluster, got %v", got)
			}
			if read(w, "one").Status.Granted {
				w.Error("it was granted before its Cluster had a namespace")
			}
		},
	})
}

// What a request was granted is taken back when it is deleted.
func TestRequestDeleted(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(registration.Settings{}), Given: given,
		Spare: func(_ string, m kubetest.Match) bool { return m.Verb != "delete" }, // TestRequestGranted has the others
		When: func(w *looptest.World) {
			request(w, "one", "id", "token")
			w.Pass(10 * time.Second)
			looptest.Remove[*fleet.ClusterRegistration](w, "ws", "one")
		},
		Then: func(w *looptest.World) {
			if got := granted(w); len(got) > 0 {
				w.Errorf("want everything taken back, got %v", got)
			}
		},
	})
}

// A request with a token that is not there, and one that names none, are not answered.
func TestRequestRefused(t *testing.T) {
	for _, token := range []string{"", "another"} {
		t.Run("Token "+token, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(registration.Settings{}), Given: given,
				When: func(w *looptest.World) { request(w, "one", "id", token) },
				Then: func(w *looptest.World) {
					if got := granted(w); len(got) > 0 || read(w, "one").Status.Granted {
						w.Errorf("want nothing granted, got %v", got)
					}
				},
			})
		})
	}
}

// Where a person has to accept another agent, the agent before keeps its rights, and the
// other one gets none until it is accepted.
func TestRequestWaitsForAPerson(t *testing.T) {
	for name, accepted := range map[string]bool{"Waits": false, "Accepted": true} {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(registration.Settings{Reclaim: registration.ReclaimApprove}), Given: given, Rests: 30 * time.Minute,
				When: func(w *looptest.World) {
					request(w, "one", "id", "token")
					w.Pass(time.Minute)
					request(w, "two", "id", "token")
					if accepted {
						looptest.Change(w, "ws", "site", func(c *fleet.Cluster) { c.Annotations[fleet.AnnotationAcceptRegistration] = "two" })
					}
				},
				Then: func(w *looptest.World) {
					if !read(w, "one").Status.Granted || read(w, "two").Status.Granted != accepted {
						w.Errorf("want the second granted: %v; got %+v, %+v", accepted, read(w, "one").Status, read(w, "two").Status)
					}
				},
			})
		})
	}
}

// A person may accept an older request while a newer one waits as well.
func TestOlderRequestAccepted(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(registration.Settings{Reclaim: registration.ReclaimApprove}), Given: given, Rests: 30 * time.Minute,
		When: func(w *looptest.World) {
			for _, name := range []string{"one", "two", "three"} {
				request(w, name, "id", "token")
				w.Pass(time.Minute)
			}
			looptest.Change(w, "ws", "site", func(c *fleet.Cluster) { c.Annotations[fleet.AnnotationAcceptRegistration] = "two" })
		},
		Then: func(w *looptest.World) {
			if !read(w, "two").Status.Granted {
				w.Errorf("want the accepted request granted, got %+v", read(w, "two").Status)
			}
			if r := read(w, "three"); r != nil && r.Status.Granted {
				w.Errorf("want the other one not granted, got %+v", r.Status)
			}
		},
	})
}

// A finalizer on a request, which an agent may set, does not keep what it was granted.
func TestRequestHeldByFinalizer(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(registration.Settings{}), Given: given,
		When: func(w *looptest.World) {
			request(w, "one", "id", "token")
			w.Pass(10 * time.Second)
			looptest.Change(w, "ws", "one", func(r *fleet.ClusterRegistration) { r.Finalizers = []string{"agent.example/keep"} })
			looptest.Remove[*fleet.ClusterRegistration](w, "ws", "one")
		},
		Then: func(w *looptest.World) {
			if got := granted(w); len(got) > 0 || read(w, "one") == nil {
				w.Errorf("want everything taken back while the request is there, got %v", got)
			}
		},
	})
}

// A request that was made again under its name since the loop decided is not deleted.
func TestRequestMadeAgainStays(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(registration.Settings{}), Given: given,
		When: func(w *looptest.World) {
			request(w, "one", "id", "token")
			w.Pass(10 * time.Second)
			release := w.Server.HoldWatches(fleet.GroupVersion.WithResource("clusterregistrations"))
			defer release()
			looptest.Remove[*fleet.ClusterRegistration](w, "ws", "one")
			request(w, "one", "another", "token")
			looptest.Change(w, "ws", "site", func(c *fleet.Cluster) { c.Finalizers = []string{"example/keep"} })
			looptest.Remove[*fleet.Cluster](w, "ws", "site")
			w.Pass(10 * time.Second)
		},
		Then: func(w *looptest.World) {
			if r := read(w, "one"); r == nil || r.Spec.ClientID != "another" {
				w.Errorf("want the request that was made again, got %+v", r)
			}
		},
	})
}

// A second agent with the words of another one gets nothing while the credential of that one
// can be fetched.
func TestSameWordsInAnotherWorkspace(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(registration.Settings{}), Rests: 5 * time.Minute,
		Given: func(w *looptest.World) {
			given(w)
			givenIn(w, "other", "twin")
		},
		When: func(w *looptest.World) {
			request(w, "one", "id", "token")
			w.Pass(10 * time.Second)
			looptest.Make(w, &fleet.ClusterRegistration{
				ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "two", Labels: map[string]string{fleet.LabelRegistrationToken: "token"}},
				Spec:       fleet.ClusterRegistrationSpec{ClientID: "id", ClientRandom: "random-one"},
			})
		},
		Then: func(w *looptest.World) {
			if r := looptest.Read[*fleet.ClusterRegistration](w, "other", "two"); r.Status.Granted {
				w.Errorf("want the second one refused, got %+v", r.Status)
			}
			s := looptest.Read[*corev1.Secret](w, managertest.System.RegistrationNamespace(), naming.RegistrationSecret("id", "random-one"))
			if s == nil || string(s.Data["clusterName"]) != "site" {
				w.Errorf("want the credential of the first one, got %v", s)
			}
		},
	})
}

// A failure of a credential that is over is not shown any more.
func TestCredentialConditionGoes(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(registration.Settings{}), Rests: 30 * time.Minute,
		Given: func(w *looptest.World) {
			given(w)
			looptest.Change(w, "ws", "site", func(c *fleet.Cluster) {
				c.Status.Conditions = []fleet.Condition{{Type: fleet.ConditionCredential, Status: corev1.ConditionFalse, Reason: "Expired"}}
			})
		},
		When: func(w *looptest.World) { request(w, "one", "id", "token") },
		Then: func(w *looptest.World) {
			c := looptest.Read[*fleet.Cluster](w, "ws", "site")
			if got := condition.Find(c.Status.Conditions, fleet.ConditionCredential); got != nil {
				w.Errorf("want it gone, got %+v", got)
			}
		},
	})
}

// A token brings in no more Clusters than it may whose agents have not reported.
func TestRequestTooManyPending(t *testing.T) {
	looptest.Undisturbed(t, looptest.Loop{
		Start: start(registration.Settings{MaxPending: 1}), Given: given,
		When: func(w *looptest.World) {
			request(w, "one", "first", "token")
			w.Pass(time.Minute)
			request(w, "two", "second", "token")
		},
		Then: func(w *looptest.World) {
			if got := looptest.Names[*fleet.Cluster](w, "ws"); len(got) != 2 {
				w.Errorf("want one Cluster besides the one that was there, got %v", got)
			}
		},
	})
}

// The credential of an agent stays while its workspace is being deleted and a person has
// not decided about its Bundles; afterwards it goes.
func TestCredentialStaysWithTerminatingWorkspace(t *testing.T) {
	for name, decided := range map[string]bool{"Undecided": false, "Decided": true} {
		t.Run(name, func(t *testing.T) {
			looptest.Undisturbed(t, looptest.Loop{
				Start: start(registration.Settings{}), Given: given,
				When: func(w *looptest.World) {
					looptest.Make(w, &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "b", Finalizers: []string{fleet.FinalizerBundle}}})
					request(w, "one", "id", "token")
					w.Pass(time.Minute)
					looptest.Remove[*corev1.Namespace](w, "", "ws")
					w.Pass(time.Minute)
					if decided {
						looptest.Change(w, "ws", "b", func(b *fleet.Bundle) { b.Finalizers = nil })
					}
				},
				Then: func(w *looptest.World) {
					accounts := looptest.Names[*corev1.ServiceAccount](w, managertest.System.RegistrationNamespace())
					if (len(accounts) == 0) != decided {
						w.Errorf("decided: %v; accounts %v", decided, accounts)
					}
				},
			})
		})
	}
}

// An agent whose credential is to be rotated is offered another account. The one before
// goes once the agent says that it uses the other one.
func TestCredentialRotated(t *testing.T) {
	looptest.Run(t, looptest.Loop{
		Start: start(registration.Settings{}), Given: given, Rests: 30 * time.Minute,
		When: func(w *looptest.World) {
			request(w, "one", "id", "token")
			w.Pass(10 * time.Second)
			looptest.Change(w, "ws", "site", func(c *fleet.Cluster) { c.Annotations[fleet.AnnotationRotate] = "now" })
		},
		Then: func(w *looptest.World) {
			c := looptest.Read[*fleet.Cluster](w, "ws", "site")
			offer, err := credential.ParseOffer(c.Annotations[fleet.AnnotationCredential])
			if err != nil || offer.Account == "" {
				w.Fatalf("want an offer, got %q, %v", c.Annotations[fleet.AnnotationCredential], err)
			}
			in := managertest.System.RegistrationNamespace()
			accounts := looptest.Names[*corev1.ServiceAccount](w, in)
			if first := registration.Account(read(w, "one")); !slices.Contains(accounts, first) || !slices.Contains(accounts, offer.Account) || offer.Account == first {
				w.Errorf("want the account before, and the one of offer %+v, got %v", offer, accounts)
			}
		},
	})
}
