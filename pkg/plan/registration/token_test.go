package registration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

func TestJudgeToken(t *testing.T) {
	token := func(ttl *time.Duration) *fleet.ClusterRegistrationToken {
		t := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(0)}}
		if ttl != nil {
			t.Spec.TTL = &metav1.Duration{Duration: *ttl}
		}
		return t
	}
	zero, hour := time.Duration(0), time.Hour
	expires := func(d time.Duration) *metav1.Time { x := at(d); return &x }
	cases := map[string]struct {
		why      string
		ttl      *time.Duration
		now      time.Duration
		required bool
		want     TokenVerdict
	}{
		"Endless":         {why: "no ttl, no end", want: TokenVerdict{}},
		"ZeroIsEndless":   {why: "0 never expires, but its time is reported", ttl: &zero, now: hour, want: TokenVerdict{Expires: expires(0)}},
		"Running":         {why: "it is looked at again when it ends", ttl: &hour, now: 20 * time.Minute, want: TokenVerdict{Expires: expires(hour), Left: 40 * time.Minute}},
		"Over":            {why: "it ends to the second", ttl: &hour, now: hour, want: TokenVerdict{Expires: expires(hour), Delete: "the token has expired"}},
		"Required":        {why: "an administrator may refuse endless tokens", required: true, want: TokenVerdict{Delete: "the token has no ttl, and the manager requires one"}},
		"RequiredZero":    {why: "0 is endless too", ttl: &zero, required: true, want: TokenVerdict{Expires: expires(0), Delete: "the token has no ttl, and the manager requires one"}},
		"RequiredAndSet":  {why: "it has one", ttl: &hour, required: true, want: TokenVerdict{Expires: expires(hour), Left: hour}},
		"OverAndRequired": {why: "one reason is enough", ttl: &hour, now: 2 * hour, required: true, want: TokenVerdict{Expires: expires(hour), Delete: "the token has expired"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, DecideToken(token(c.ttl), noon.Add(c.now), c.required)); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
		})
	}
}

func TestTokenSecret(t *testing.T) {
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet-default", Name: "import", UID: "u"}}
	settings := Settings{APIServerURL: "https://m", APIServerCA: []byte("PEM\n")}
	cases := map[string]struct {
		why      string
		system   System
		checkin  time.Duration
		extra    string
		registry string
	}{
		"Default": {
			why: "exactly the reference's keys", system: manager,
			registry: "cattle-fleet-clusters-system",
		},
		"OtherNamespace": {
			why:    "the agent's chart must be given a system namespace that is not the usual one",
			system: System{Namespace: "my-fleet", ManagerID: "a"},
			extra:  "internal:\n  systemNamespace: my-fleet\n", registry: "my-fleet-clusters-system",
		},
		"CheckinInterval": {
			why:    "agents learn of it with each check-in; one that was given it as its own would keep it for ever",
			system: manager, checkin: 5 * time.Minute,
			registry: "cattle-fleet-clusters-system",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			settings.AgentCheckinInterval = c.checkin
			got, err := TokenSecret(token, c.system, settings, "bearer")
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter("apiServerCA: |\n  PEM\napiServerURL: https://m\nclusterNamespace: fleet-default\n"+
				"systemRegistrationNamespace: "+c.registry+"\ntoken: bearer\ntokenName: import\n"+c.extra, "\n")
			have := strings.SplitAfter(string(got.Data["values"]), "\n")
			slices.Sort(lines)
			slices.Sort(have)
			if diff := cmp.Diff(lines, have); diff != "" {
				t.Errorf("%s\n-want +got\n%s", c.why, diff)
			}
			b, err := ReadTokenSecret(got)
			if err != nil || b.Token != "bearer" || b.TokenName != "import" || string(b.APIServerCA) != "PEM\n" ||
				b.RegistrationNamespace != c.registry {
				t.Errorf("what was written is not read back: %+v, %v", b, err)
			}
			if diff := cmp.Diff(b, ReadBootstrapping(b.Data())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A registration token may create requests in its namespace, and nothing else.
func TestGrantTokenRights(t *testing.T) {
	token := &fleet.ClusterRegistrationToken{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "t", UID: "u"}}
	grant := GrantToken(token, System{Namespace: "cattle-fleet-system"})
	want := []rbacv1.PolicyRule{
		{APIGroups: []string{fleet.Group}, Resources: []string{"clusterregistrations"}, Verbs: []string{"create"}},
		{APIGroups: []string{fleet.Group}, Resources: []string{"clusterregistrationtokens"}, ResourceNames: []string{"t"}, Verbs: []string{"use"}},
	}
	if diff := cmp.Diff(want, grant.Role.Rules); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if grant.Role.Namespace != "team" || grant.RoleBinding.Namespace != "team" || grant.RoleBinding.RoleRef.Name != grant.Role.Name {
		t.Errorf("the role stands in %q, its binding in %q for %q", grant.Role.Namespace, grant.RoleBinding.Namespace, grant.RoleBinding.RoleRef.Name)
	}
}
