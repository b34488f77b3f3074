package registration

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/credential"
)

func TestIdentify(t *testing.T) {
	kept := Installation{ID: "abc", Epoch: 3, ClusterUID: "u1"}
	cases := map[string]struct {
		why     string
		data    map[string]string
		uid     string
		want    Installation
		changed bool
	}{
		"FirstStart": {why: "an id is made once", uid: "u1", want: Installation{ID: "fresh", Epoch: 1, ClusterUID: "u1"}, changed: true},
		"Restart":    {why: "nothing is written at a start", data: kept.ConfigMap("x").Data, uid: "u1", want: kept},
		"Restored": {
			why:  "in another cluster it is a copy: agents must see that",
			data: kept.ConfigMap("x").Data, uid: "u2", want: Installation{ID: "abc", Epoch: 4, ClusterUID: "u2"}, changed: true,
		},
		"BrokenEpoch": {
			why:  "a number that people broke is mended",
			data: map[string]string{"id": "abc", "epoch": "x", "clusterUID": "u1"}, uid: "u1",
			want: Installation{ID: "abc", Epoch: 1, ClusterUID: "u1"}, changed: true,
		},
		"BrokenID": {
			why:  "an id that cannot stand in a label is none",
			data: map[string]string{"id": "a/b", "epoch": "7", "clusterUID": "u1"}, uid: "u1",
			want: Installation{ID: "fresh", Epoch: 1, ClusterUID: "u1"}, changed: true,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, reason := Identify(c.data, c.uid, "fresh")
			if diff := cmp.Diff(c.want, got); diff != "" || (reason != "") != c.changed {
				t.Errorf("%s (%q)\n-want +got\n%s", c.why, reason, diff)
			}
			if again, reason := Identify(got.ConfigMap("x").Data, c.uid, "other"); reason != "" || again != got {
				t.Errorf("what is written is not stable: %v %q", again, reason)
			}
		})
	}
}

func TestParseMark(t *testing.T) {
	for in, want := range map[string]Mark{
		"abc/1/1": {ID: "abc", Epoch: 1, Protocol: 1},
		"abc/2":   {ID: "abc", Epoch: 2},
		"a1/0/12": {ID: "a1", Protocol: 12},
	} {
		if got, err := ParseMark(in); err != nil || got != want {
			t.Errorf("%q: want %v, got %v, %v", in, want, got, err)
		}
	}
	for _, in := range []string{"", "abc", "abc/", "/1/1", "abc/1/1/1", "abc/x/1", "abc/-1/1", "abc/01/1", "ABC/1/1", "abc/1/ 1"} {
		if got, err := ParseMark(in); err == nil {
			t.Errorf("%q: want an error, got %v", in, got)
		}
	}
}

func FuzzParseMark(f *testing.F) {
	for _, s := range []string{"abc/1/1", "abc/2", "", "//", "a/99999999999999999999/1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMark(s)
		if err != nil {
			return
		}
		again, err := ParseMark(m.String())
		if err != nil || again != m {
			t.Errorf("%q gives %v, which is not read back: %v %v", s, m, again, err)
		}
	})
}

func TestParseSettings(t *testing.T) {
	defaults := Settings{
		AgentImagePullPolicy: "IfNotPresent", AgentTLSMode: TLSSystemStore,
		Bootstrap: Bootstrap{Namespace: fleet.NamespaceLocal, AgentNamespace: fleet.NamespaceLocalAgent, Branch: "master"},
		Reclaim:   ReclaimAllow, MaxPending: DefaultMaxPending,

		Credential: credential.Lifetimes{Grace: credential.DefaultGrace},
	}
	change := func(f func(*Settings)) Settings { s := defaults; f(&s); return s }
	cases := map[string]struct {
		why      string
		in       string
		want     Settings
		warnings int
	}{
		"Empty": {why: "a missing key is all defaults", want: defaults},
		"Reference": {
			why: "a map of another version is read, unknown keys and all",
			in: `{"agentImage":"rancher/fleet-agent:v0.16.0","apiServerCA":"UEVN","agentCheckinInterval":"15m0s","manageAgent":false,
			      "bootstrap":{"namespace":"fleet-local","agentNamespace":"","paths":" a, b ,","branch":"main","repo":"https://x"},
			      "imagePullSecrets":[{"name":"pull"}],"agentWorkers":{"drift":"50"},"systemDefaultRegistry":"reg/"}`,
			want: change(func(s *Settings) {
				s.AgentImage, s.APIServerCA, s.AgentCheckinInterval = "rancher/fleet-agent:v0.16.0", []byte("PEM"), 15*time.Minute
				s.ImagePullSecrets, s.SystemDefaultRegistry = []string{"pull"}, "reg"
				s.Bootstrap.Paths, s.Bootstrap.Branch, s.Bootstrap.Repo = []string{"a", "b"}, "main", "https://x"
				s.AgentsUnmanaged = true
			}),
		},
		"NoBootstrap": {why: "a dash turns it off", in: `bootstrap: {namespace: "-"}`, want: change(func(s *Settings) { s.Bootstrap.Namespace = "" })},
		"EmptyNamespace": {
			why: "and so does an empty name", in: `bootstrap: {namespace: ""}`,
			want: change(func(s *Settings) { s.Bootstrap.Namespace = "" }),
		},
		"Nonsense": {
			why: "one bad value must not stop the manager",
			in:  "agentTLSMode: maybe\nagentCheckinInterval: soon", want: defaults, warnings: 2,
		},
		"Reclaim": {
			why: "a user who wants to approve is asked", in: "registration: {reclaim: approve}",
			want: change(func(s *Settings) { s.Reclaim = ReclaimApprove }),
		},
		"ReclaimNonsense": {
			why: "and is not passed over for a slip of the pen", in: "registration: {reclaim: approved}",
			want: change(func(s *Settings) { s.Reclaim = ReclaimApprove }), warnings: 1,
		},
		"TooOften": {why: "an interval of nothing would melt the API server", in: "agentCheckinInterval: 1ms", want: defaults, warnings: 1},
		"Credentials": {
			why: "tokens of agents end", in: "credentialTTL: 24h\ncredentialGrace: 240h",
			want: change(func(s *Settings) {
				s.Credential = credential.Lifetimes{TTL: 24 * time.Hour, Grace: 240 * time.Hour}
			}),
		},
		"CredentialNonsense": {why: "no token lasts for a second", in: "credentialTTL: 1s", want: defaults, warnings: 1},
		"Auto":               {why: "the manager chooses, which is the default", in: "agentCheckinInterval: auto", want: defaults},
		"Zero":               {why: "0 is the default", in: `agentCheckinInterval: "0"`, want: defaults},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, warnings, err := ParseSettings(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Bootstrap.Paths) == 0 {
				got.Bootstrap.Paths = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(warnings) != c.warnings {
				t.Errorf("%s %v\n-want +got\n%s", c.why, warnings, diff)
			}
		})
	}
	if _, _, err := ParseSettings("a: [b"); err == nil {
		t.Error("a text that is no YAML must be an error")
	}
}

func FuzzParseSettings(f *testing.F) {
	f.Add("bootstrap: {paths: 'a,,b'}")
	f.Add(`{"agentCheckinInterval":"1h"}`)
	f.Fuzz(func(t *testing.T, in string) {
		s, _, err := ParseSettings(in)
		if err == nil && s.AgentCheckinInterval != 0 && s.AgentCheckinInterval < time.Second {
			t.Errorf("check-in every %s", s.AgentCheckinInterval)
		}
	})
}

func TestNextLocalStep(t *testing.T) {
	b := Bootstrap{Namespace: fleet.NamespaceLocal}
	name := LocalToken(b).Name
	for label, c := range map[string]struct {
		why  string
		o    LocalObserved
		want LocalStep
	}{
		"Registered":       {why: "at rest nothing is done, whatever became of the token", o: LocalObserved{Credential: true, Granted: true}, want: LocalNothing},
		"Void":             {why: "an agent whose request is gone must register again", o: LocalObserved{Credential: true}, want: LocalDropCredential},
		"FirstStart":       {why: "a token is made first", want: LocalMakeToken},
		"TokenNew":         {why: "its values come later", o: LocalObserved{Token: true}, want: LocalAwaitToken},
		"TokenReady":       {why: "the agent's values are complete", o: LocalObserved{Token: true, Values: true}, want: LocalWriteBootstrap},
		"Registering":      {why: "the agent has what it needs", o: LocalObserved{Token: true, Values: true, Bootstrap: name}, want: LocalNothing},
		"TokenExpired":     {why: "an agent that was too slow gets another", o: LocalObserved{Bootstrap: name}, want: LocalMakeToken},
		"ForeignBootstrap": {why: "a bootstrap Secret of another token is replaced", o: LocalObserved{Token: true, Values: true, Bootstrap: "x"}, want: LocalWriteBootstrap},
	} {
		t.Run(label, func(t *testing.T) {
			if got, reason := NextLocalStep(c.o, b); got != c.want || reason == "" {
				t.Errorf("%s: want %d, got %d (%s)", c.why, c.want, got, reason)
			}
		})
	}
}

func TestLocalCluster(t *testing.T) {
	b := Bootstrap{Namespace: fleet.NamespaceLocal, AgentNamespace: "agents", ClusterLabels: map[string]string{"env": "mgmt"}}
	made := LocalCluster(b, nil, "word")
	if made.Name != "local" || made.Spec.ClientID != "word" || made.Labels["name"] != "local" || made.Labels["env"] != "mgmt" {
		t.Errorf("got %+v", made)
	}
	people := made.DeepCopy()
	people.Labels["team"], people.Spec.Paused = "a", true
	if diff := cmp.Diff(people, LocalCluster(b, people, "other")); diff != "" {
		t.Errorf("what people set is kept, and the clientID too\n%s", diff)
	}
	ranchers := made.DeepCopy()
	ranchers.Labels[fleet.LabelManagementCluster] = "local"
	ranchers.Spec.KubeConfigSecret, ranchers.Spec.AgentNamespace = "local-kubeconfig", "elsewhere"
	if diff := cmp.Diff(ranchers, LocalCluster(b, ranchers, "other")); diff != "" {
		t.Errorf("what Rancher keeps is Rancher's\n%s", diff)
	}
	ranchers.Spec.KubeConfigSecret = ""
	if got := LocalCluster(b, ranchers, "other").Spec.KubeConfigSecret; got != SecretLocalKubeconfig {
		t.Errorf("a cluster without a kubeconfig is reached through %q", got)
	}
	if len(b.ClusterLabels) != 1 {
		t.Error("the settings were changed")
	}
}

func TestObjectHash(t *testing.T) {
	o, err := Agent{Namespace: "n", Image: "one"}.Objects()
	if err != nil {
		t.Fatal(err)
	}
	one, _ := ObjectHash(o.Deployment)
	o.Deployment.Spec.Template.Spec.Containers[0].Image = "other"
	two, _ := ObjectHash(o.Deployment)
	if one == two || one == "" {
		t.Error("a changed object must have another hash")
	}
}

// The GitRepo of the settings is in their namespace, and is there only if they name a
// repository.
func TestLocalRepo(t *testing.T) {
	b := Bootstrap{Namespace: fleet.NamespaceLocal, Branch: "main", Secret: "git", Paths: []string{"a", "b"}}
	if got := LocalRepo(b); got != nil {
		t.Errorf("no repository, but %+v", got)
	}
	b.Repo = "https://git.example.com/r"
	want := fleet.GitRepoSpec{Repo: b.Repo, Branch: "main", ClientSecretName: "git", Paths: []string{"a", "b"}}
	got := LocalRepo(b)
	if got.Namespace != fleet.NamespaceLocal || got.Name != "bootstrap" {
		t.Errorf("it is %s/%s", got.Namespace, got.Name)
	}
	if diff := cmp.Diff(want, got.Spec); diff != "" {
		t.Error(diff)
	}
}
