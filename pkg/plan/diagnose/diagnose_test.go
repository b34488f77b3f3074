package diagnose

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/crash"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

var now = time.Date(2026, 8, 24, 14, 0, 0, 0, time.UTC)

func at(before time.Duration) *time.Time { t := now.Add(-before); return &t }

// well is an installation in which nothing is wrong.
func well() Observed {
	s := Observed{
		Now: now, Namespace: "sys", Server: ServerSeen{URL: "https://m", Version: "v1.36.3", Took: 12 * time.Millisecond},
		Manager: &view.Manager{Version: "v0.1.0", Implementation: "fleet", Leader: "pod-1", Since: at(19 * 24 * time.Hour), LastSign: at(time.Second)},
		Address: AddressSeen{Known: true, URL: "https://agents"},
		Tokens:  []*fleet.ClusterRegistrationToken{token("a", 7*24*time.Hour, time.Hour)},
		Agents:  []AgentSeen{agent("c1", "v0.1.0", 2, time.Second), agent("c2", "v0.1.0", 2, 0)},
	}
	for _, k := range fleet.Kinds() {
		s.CRDs = append(s.CRDs, CRD{Name: k.Name(), Revision: fleet.CRDRevision})
	}
	return s
}

func token(name string, ttl, age time.Duration) *fleet.ClusterRegistrationToken {
	t := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "w", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	if ttl > 0 {
		t.Spec.TTL = &metav1.Duration{Duration: ttl}
	}
	return t
}

// agent is one whose clock is off.
func agent(name, version string, protocol int, off time.Duration) AgentSeen {
	seen := now.Add(-20 * time.Second)
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "w", Name: name}, Spec: fleet.ClusterSpec{ClientID: "id-" + name}}
	c.Status.Agent = fleet.AgentStatus{LastSeen: metav1.NewTime(seen.Add(off)), Version: version}
	return AgentSeen{Cluster: c, Heartbeat: seen, Protocol: protocol}
}

func cond(of string) func(*fleet.Cluster) {
	return func(c *fleet.Cluster) {
		c.Status.Conditions = append(c.Status.Conditions, fleet.Condition{Type: of, Status: corev1.ConditionTrue})
	}
}

// ends says when the credential of an agent ends, from now on.
func ends(s *Observed, agent int, in time.Duration) {
	s.Agents[agent].Cluster.Status.Agent.CredentialExpires = &metav1.Time{Time: now.Add(in)}
}

// about says what is the matter with the credential of an agent.
func about(s *Observed, agent int, reason string) {
	c := s.Agents[agent].Cluster
	c.Status.Conditions = append(c.Status.Conditions, fleet.Condition{Type: fleet.ConditionCredential, Status: corev1.ConditionFalse, Reason: reason})
}

// bundlesSeen is one Bundle, whose options are those of a target.
func bundlesSeen(o fleet.BundleDeploymentOptions) BundlesSeen {
	b := &fleet.Bundle{ObjectMeta: metav1.ObjectMeta{Namespace: "w", Name: "app"}}
	b.Spec.Targets = []fleet.BundleTarget{{BundleDeploymentOptions: o}}
	return BundlesSeen{Bundles: []BundleSeen{{Bundle: b}}}
}

// ownSeen is a Bundle whose own options these are.
func ownSeen(o fleet.BundleDeploymentOptions) BundlesSeen {
	out := bundlesSeen(fleet.BundleDeploymentOptions{})
	out.Bundles[0].Bundle.Spec.BundleDeploymentOptions = o
	return out
}

func TestExamine(t *testing.T) {
	for name, c := range map[string]struct {
		why  string
		with func(*Observed)
		want string // findings of one check, or of all that are not ok
		of   string
	}{
		"Well": {why: "nothing is wrong", with: func(*Observed) {}, want: ""},
		"Crashes": {
			why: "it leads, and dies again and again", of: Manager, with: func(s *Observed) {
				s.Manager.Crashes = []crash.Loop{{Process: "gitjob", Count: 3, Since: now.Add(-10 * time.Minute), Last: now.Add(-time.Minute)}}
			},
			want: "FAIL manager fleet v0.1.0, leader pod-1 for 19d; gitjob has died 3 times in 10m, the last time 1m ago",
		},
		"ReservedAddresses": {
			why: "they are not dialled after the upgrade", of: Sources, with: func(s *Observed) {
				s.Program, s.Sources = "v0.2.0", []SourceSeen{
					{"w/name", "localhost"}, {"w/loop", "127.0.0.1"}, {"w/link", "169.254.1.1"}, {"w/private", "10.0.0.1"}, {"w/public", "git.example.com"},
				}
			},
			want: "warn sources a manager of version v0.2.0 does not dial the addresses of 3 GitRepos: w/link (169.254.1.1), w/loop (127.0.0.1), w/name (localhost)",
		},
		"ReservedAddressesNow": {
			why: "this manager reports it by itself", of: Sources,
			with: func(s *Observed) { s.Program, s.Sources = "v0.1.0", []SourceSeen{{"w/loop", "127.0.0.1"}} },
		},
		"WellServer":  {why: "what is ok says what it is", of: Server, with: func(*Observed) {}, want: "ok server https://m, Kubernetes v1.36.3, 12 ms"},
		"WellManager": {why: "who leads, since when", of: Manager, with: func(*Observed) {}, want: "ok manager fleet v0.1.0, leader pod-1 for 19d; no other manager"},
		"WellCRDs":    {why: "all of them", of: CRDs, with: func(*Observed) {}, want: "ok crds 14, newest"},
		"WellClocks":  {why: "the largest difference, and where", of: Clocks, with: func(*Observed) {}, want: "ok clocks largest difference 1 s (w/c1)"},
		"WellAgents":  {why: "by version", of: Agents, with: func(*Observed) {}, want: "ok agents 2 v0.1.0"},
		"Unreachable": {
			why: "without a connection nothing else is known", with: func(s *Observed) { s.Server.Failed = &ConnectionStep{"name", `"m" is not known`} },
			want: `FAIL server https://m: name: "m" is not known`,
		},
		"Lasting": {why: "what ends with a revocation only", of: Credentials, with: func(*Observed) {}, want: "ok credentials 2, each good until it is revoked"},
		"Renewed": {
			why: "whose ends next", of: Credentials, with: func(s *Observed) { ends(s, 0, 3*time.Hour); ends(s, 1, time.Hour) },
			want: "ok credentials the next one ends in 1h (w/c2), and is renewed before",
		},
		"Ended": {
			why: "an agent that is there should have renewed it", with: func(s *Observed) { ends(s, 0, -time.Hour) },
			want: "warn credentials that of w/c1 has ended 1h ago",
		},
		"GraceOver": {
			why: "only a person brings it back", with: func(s *Observed) { about(s, 0, credential.ReasonGraceOver); ends(s, 0, -40*24*time.Hour) },
			want: "FAIL credentials 1 ended too long ago for the agent to come back by itself: w/c1",
		},
		"EndedAway": {
			why: "it comes back by itself", with: func(s *Observed) { about(s, 1, credential.ReasonExpired); ends(s, 1, -time.Hour) },
			want: "warn credentials 1 ended while the agent was away: w/c2",
		},
		"Untaken": {
			why: "the former ones are good", with: func(s *Observed) { about(s, 0, credential.ReasonPending); about(s, 1, credential.ReasonPending) },
			want: "warn credentials 2 agents have not taken the one that lies ready: w/c1, w/c2",
		},
		"Foreign": {
			why: "this manager does not revoke it", with: func(s *Observed) { about(s, 0, credential.ReasonForeign) },
			want: "warn credentials 1 are of another Fleet's accounts: w/c1",
		},
		"NoManager": {
			why: "the first thing to do is to install one", with: func(s *Observed) { s.Manager = &view.Manager{} },
			want: "FAIL manager none in namespace sys",
		},
		"ManagerGone": {
			why: "it has led, and does not", with: func(s *Observed) { s.Manager.Leader, s.Manager.LastSign = "", at(4*time.Minute) },
			want: "FAIL manager fleet v0.1.0 does not run, last sign of life 4m ago",
		},
		"NeverLed": {
			why: "its pods do not come up", with: func(s *Observed) { s.Manager = &view.Manager{Version: "v0.1.0", Implementation: "fleet"} },
			want: "FAIL manager fleet v0.1.0 has never led",
		},
		"TwoManagers": {
			why: "both may be meant, but one should know", with: func(s *Observed) { s.Others = []string{"a", "b"} },
			want: "warn manager fleet v0.1.0, leader pod-1 for 19d; further managers in a, b",
		},
		"Reference": {
			why: "the command line also looks at the reference's installations", of: Manager,
			with: func(s *Observed) { s.Manager.Implementation, s.Manager.Version = "", "" }, want: "ok manager rancher/fleet, leader pod-1 for 19d; no other manager",
		},
		"NoCRDs": {
			why: "nothing works without them", with: func(s *Observed) { s.CRDs = nil },
			want: "FAIL crds missing: bundles, bundledeployments, bundlenamespacemappings, clusters, clustergroups and 9 more",
		},
		"OldCRD": {
			why: "fields of this version are pruned", with: func(s *Observed) { s.CRDs[0].Revision = 0 },
			want: "warn crds 14, of which 1 are older than this program: bundles",
		},
		"CRDBefore": {
			why:  "the manager was upgraded and its kinds were not",
			with: func(s *Observed) { s.CRDs[0].Revision, s.CRDs[1].Revision = fleet.CRDRevision-1, fleet.CRDRevision-1 },
			want: "warn crds 14, of which 2 are older than this program: bundles, bundledeployments",
		},
		"NewCRD": {
			why: "the program is behind", with: func(s *Observed) { s.CRDs[3].Revision = fleet.CRDRevision + 1 }, want: "warn crds 14, newer than this program",
		},
		"Address": {
			why: "agents may be able to reach it, who asks here is not", with: func(s *Observed) {
				s.Address.Failed = &ConnectionStep{"TLS", "certificate signed by unknown authority"}
			},
			want: "warn address agents are sent to https://agents, and from here: TLS: certificate signed by unknown authority",
		},
		"Endless": {
			why: "the oldest first",
			with: func(s *Observed) {
				s.Tokens = append(s.Tokens, token("lab", 0, 88*24*time.Hour), token("import-all", 0, 300*24*time.Hour))
			},
			want: "warn tokens 2 never expire: w/import-all (300d), w/lab (88d)",
		},
		"OwnedToken": {
			why: "a token that the manager made for one Cluster ends with it",
			with: func(s *Observed) {
				s.Tokens[0].Spec.TTL, s.Tokens[0].OwnerReferences = nil, []metav1.OwnerReference{{Kind: "Cluster"}}
			},
		},
		"Versions": {
			why: "the most first, and what an old agent cannot do",
			with: func(s *Observed) {
				s.Agents = append(s.Agents, agent("c3", "v0.0.9", 1, 0), agent("c4", "", 0, 0))
			},
			want: "warn agents 2 v0.1.0, 1 of the reference or unknown (these do not confirm removals), 1 v0.0.9",
		},
		"AllOlder": {
			why: "one version everywhere, but not the manager's", with: func(s *Observed) { s.Manager.Version = "v0.2.0" }, want: "warn agents 2 v0.1.0",
		},
		"NeverJoined": {
			why: "a Cluster that was made and has no agent",
			with: func(s *Observed) {
				a := agent("c9", "", 0, 0)
				a.Cluster.Status.Agent, a.Cluster.CreationTimestamp = fleet.AgentStatus{}, metav1.NewTime(now.Add(-time.Hour))
				s.Agents = append(s.Agents, a)
			},
			want: "warn agents 2 v0.1.0; 1 never checked in: w/c9",
		},
		"Clock": {
			why: "schedules of that site run at another time", with: func(s *Observed) { s.Agents = append(s.Agents, agent("c3", "v0.1.0", 2, -2*time.Hour)) },
			want: "warn clocks w/c3 differs by 2h from the API server",
		},
		"Cloned": {
			why: "two agents take turns", with: func(s *Observed) { cond(fleet.ConditionDuplicateIdentity)(s.Agents[0].Cluster) },
			want: "FAIL identity two agents check in as w/c1 (cloned image?)",
		},
		"SameClientID": {
			why: "one of them never gets an agent", with: func(s *Observed) { s.Agents[1].Cluster.Spec.ClientID = "id-c1" },
			want: "FAIL identity w/c1 and w/c2 share one clientID (cloned image?)",
		},
		"WaitingForAccept": {
			why: "a person has to decide", with: func(s *Observed) { cond(fleet.ConditionRegistrationWaiting)(s.Agents[0].Cluster) },
			want: "warn identity another agent asks for w/c1 and waits to be accepted",
		},
		"FewRights": {
			why: "what may not be seen is not called fine", with: func(s *Observed) { s.Unread = map[string]string{Tokens: "forbidden"} }, want: "warn tokens not looked at: forbidden",
		},
		"Kubeconfig": {
			why: "this version refuses what an earlier one took along",
			with: func(s *Observed) {
				s.Agents[0].Cluster.Spec.KubeConfigSecret = "way-in"
				s.Bundles = bundlesSeen(fleet.BundleDeploymentOptions{DownstreamResources: []fleet.DownstreamResource{{Kind: "Secret", Name: "way-in"}, {Kind: "Secret", Name: "pull"}}})
			},
			want: `warn resources 1 times a bundle names in downstreamResources what is refused: w/app (Secret "way-in")`,
		},
		"Unlabelled": {
			why: "what cannot be read is not judged by its label",
			with: func(s *Observed) {
				s.Bundles = bundlesSeen(fleet.BundleDeploymentOptions{DownstreamResources: []fleet.DownstreamResource{{Kind: "ConfigMap", Name: "a"}, {Kind: "ConfigMap", Name: "unread"}}})
				s.Bundles.RequireLabel = true
				s.Bundles.Bundles[0].Origins = map[deployment.Source]deployment.Origin{{Kind: deployment.KindConfigMap, Name: "a"}: {}}
			},
			want: `warn resources 1 times a bundle names in downstreamResources what is refused: w/app (ConfigMap "a")`,
		},
		"RefusedFunctions": {
			why: "this version refuses functions that an earlier one had",
			with: func(s *Observed) {
				s.Bundles = bundlesSeen(fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{
					TemplateValues: map[string]string{"a": `${ $ca := genCA "ca" 1 }`}, Values: &fleet.GenericMap{Data: map[string]any{"x": "${ htpasswd `a` `b` }", "y": "genSignedCert"}},
				}})
			},
			want: "warn templates 1 bundles call refused functions in values: w/app (genCA, htpasswd)",
		},
		"ReadsElsewhere": {
			why: "this version refuses what a limited bundle reads with the agent's rights",
			with: func(s *Observed) {
				s.Bundles = ownSeen(fleet.BundleDeploymentOptions{AllowedTargetNamespaceSelector: &metav1.LabelSelector{}, DefaultNamespace: "shop", Helm: valuesFrom("vault")})
			},
			want: "warn reads 1 bundles that are limited to a namespace take values (helm.valuesFrom) from another one: w/app",
		},
		"ReadsForRepo": {
			why: "the GitRepo has limited it",
			with: func(s *Observed) {
				s.Bundles = bundlesSeen(fleet.BundleDeploymentOptions{TargetNamespace: "shop", Helm: valuesFrom("vault")})
				s.Bundles.Bundles[0].Bundle.Labels = map[string]string{fleet.LabelRepoName: "r"}
				s.Bundles.Repos = []*fleet.GitRepo{{ObjectMeta: metav1.ObjectMeta{Namespace: "w", Name: "r"}, Spec: fleet.GitRepoSpec{TargetNamespace: "shop"}}}
			},
			want: "warn reads 1 bundles that are limited to a namespace take values (helm.valuesFrom) from another one: w/app",
		},
		"ReadsOwn": {
			why: "its own namespace is not another one",
			with: func(s *Observed) {
				s.Bundles = ownSeen(fleet.BundleDeploymentOptions{AllowedTargetNamespaceSelector: &metav1.LabelSelector{}, DefaultNamespace: "shop", Helm: valuesFrom("shop")})
			},
		},
		"ReadsCopy": {
			why: "values of what goes along come from the copy",
			with: func(s *Observed) {
				s.Bundles = ownSeen(fleet.BundleDeploymentOptions{
					AllowedTargetNamespaceSelector: &metav1.LabelSelector{}, DefaultNamespace: "shop", Helm: valuesFrom("vault"),
					DownstreamResources: []fleet.DownstreamResource{{Kind: "secret", Name: "values"}},
				})
			},
		},
		"ReadsFree": {
			why: "its own author has limited it, and can take that out",
			with: func(s *Observed) {
				s.Bundles = bundlesSeen(fleet.BundleDeploymentOptions{TargetNamespace: "shop", Helm: valuesFrom("vault")})
			},
		},
		"ReadsAsAccount": {
			why: "the account's rights decide",
			with: func(s *Observed) {
				s.Bundles = ownSeen(fleet.BundleDeploymentOptions{
					AllowedTargetNamespaceSelector: &metav1.LabelSelector{}, DefaultNamespace: "shop", ServiceAccount: "team", Helm: valuesFrom("vault"),
				})
			},
		},
		"NotRendered": {
			why: "what is no template calls nothing",
			with: func(s *Observed) {
				s.Bundles = bundlesSeen(fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{DisablePreProcess: true, TemplateValues: map[string]string{"a": "${ genCA }"}}})
			},
		},
		"NoClusters": {why: "an empty fleet is no fault", of: Agents, with: func(s *Observed) { s.Agents = nil }, want: "ok agents no clusters yet"},
	} {
		t.Run(name, func(t *testing.T) {
			s := well()
			c.with(&s)
			var lines []string
			findings := Check(s)
			for _, f := range findings {
				if c.of == f.Check || c.of == "" && f.Verdict != OK {
					lines = append(lines, fmt.Sprintf("%s %s %s", f.Verdict, f.Check, f.Message))
				}
			}
			if diff := cmp.Diff(c.want, strings.Join(lines, "\n")); diff != "" {
				t.Errorf("%s\n%s", c.why, diff)
			}
			if worst := WorstVerdict(findings); c.of == "" && !strings.HasPrefix(c.want+"ok", string(worst)) && c.want != "" {
				t.Errorf("worst of %v is %s", findings, worst)
			}
		})
	}
}

// valuesFrom are options that take values from a Secret of a namespace.
func valuesFrom(namespace string) *fleet.HelmOptions {
	return &fleet.HelmOptions{ValuesFrom: []fleet.ValuesFrom{{
		SecretKeyRef: &fleet.SecretKeySelector{LocalObjectReference: fleet.LocalObjectReference{Name: "values"}, Namespace: namespace},
	}}}
}
