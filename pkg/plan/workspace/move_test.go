package workspace

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
)

// moving is a Fleet Cluster of the management Cluster c-12345.
func moving(namespace string, change func(*fleet.Cluster)) *fleet.Cluster {
	c := &fleet.Cluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "c-12345", Labels: map[string]string{fleet.LabelManagementCluster: "c-12345"}, Annotations: map[string]string{},
	}}
	if change != nil {
		change(c)
	}
	return c
}

func owner(to string, change func(*management.Cluster)) *management.Cluster {
	m := &management.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-12345"}, Spec: management.ClusterSpec{FleetWorkspaceName: to}}
	if change != nil {
		change(m)
	}
	return m
}

func dying(c *fleet.Cluster) { c.DeletionTimestamp = &metav1.Time{} }

func TestDestination(t *testing.T) {
	for name, c := range map[string]struct {
		why   string
		owner *management.Cluster
		label string
		want  string
	}{
		"Moved":      {why: "Rancher says so", owner: owner("b", nil), want: "b"},
		"Stays":      {why: "it is deleted for another reason", owner: owner("a", nil)},
		"NoRancher":  {why: "without its management Cluster there is no owner", owner: nil},
		"OwnerGoes":  {why: "the cluster itself is deleted", owner: owner("b", func(m *management.Cluster) { m.DeletionTimestamp = &metav1.Time{} })},
		"Withdrawn":  {why: "it has no workspace any more", owner: owner("", nil)},
		"External":   {why: "Rancher looks at the workspace alone", owner: owner("b", func(m *management.Cluster) { m.Annotations = map[string]string{AnnotationExternallyManaged: "true"} }), want: "b"},
		"Local":      {why: "the local cluster does not move", owner: owner("b", func(m *management.Cluster) { m.Spec.Internal = true })},
		"OtherOwner": {why: "it is another cluster's record", owner: owner("b", func(m *management.Cluster) { m.Name = "c-54321" })},
	} {
		if got := Destination(moving("a", nil), c.owner); got != c.want {
			t.Errorf("%s: %s: %q", name, c.why, got)
		}
	}
}

func TestFormer(t *testing.T) {
	n, a, b := moving("new", nil), moving("a", nil), moving("b", dying)
	other := moving("a", func(c *fleet.Cluster) { c.Name = "twin" })
	same := []*fleet.Cluster{a, n, other, b}
	for name, c := range map[string]struct {
		why   string
		owner *management.Cluster
		want  []*fleet.Cluster
	}{
		"Moved":     {why: "the one that is deleted first", owner: owner("new", nil), want: []*fleet.Cluster{b, a}},
		"Elsewhere": {why: "who makes a Cluster with Rancher's label takes the place of no other", owner: owner("a", nil)},
		"NoRancher": {why: "labels prove nothing", owner: nil},
	} {
		if diff := cmp.Diff(c.want, FormerClusters(n, c.owner, same)); diff != "" {
			t.Errorf("%s: %s: -want +got\n%s", name, c.why, diff)
		}
	}
	if got := FindSuccessor(b, "new", same); got != n {
		t.Errorf("the successor is %v", got)
	}
	if got := FindSuccessor(b, "elsewhere", same); got != nil {
		t.Errorf("there is a successor: %v", got)
	}
}

func TestCarry(t *testing.T) {
	yes := true
	former := moving("a", func(c *fleet.Cluster) {
		c.UID = "u"
		c.Labels["env"], c.Labels["tier"], c.Labels["foo.cattle.io/x"] = "dev", "1", "y"
		c.Annotations[AnnotationMoveGrace], c.Annotations["mine"] = "1m", "stays behind"
		c.Spec = fleet.ClusterSpec{
			ClientID: "word", AgentNamespace: "there", HostNetwork: &yes, Paused: true, KubeConfigSecret: "old",
			TemplateValues: &fleet.GenericMap{Data: map[string]any{"a": "b"}}, RedeployAgentGeneration: 3,
		}
	})
	got := CarryUserFields(moving("b", func(c *fleet.Cluster) {
		c.Labels["env"] = "prod"
		c.Spec.KubeConfigSecret = "new"
	}), former)
	want := moving("b", func(c *fleet.Cluster) {
		c.Labels["env"], c.Labels["tier"] = "prod", "1"
		c.Annotations[AnnotationMoveGrace], c.Annotations[AnnotationMovedFrom] = "1m", "a/c-12345/u"
		c.Spec = former.Spec
		c.Spec.KubeConfigSecret, c.Spec.RedeployAgentGeneration = "new", 0
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !RecognisesAgent(got, former) || RecognisesAgent(got, moving("a", func(c *fleet.Cluster) { c.UID = "v" })) || RecognisesAgent(got, moving("a", nil)) {
		t.Error("Recognises does not match the moved Cluster alone")
	}
	again := CarryUserFields(got, moving("c", func(c *fleet.Cluster) { c.Spec.ClientID, c.Labels["tier"] = "other", "2" }))
	if again.Spec.ClientID != "word" || again.Labels["tier"] != "1" {
		t.Errorf("what a Cluster has is taken from it: %+v", again)
	}
}

func TestStay(t *testing.T) {
	with := func(annotations ...string) *fleet.Cluster {
		return moving("a", func(c *fleet.Cluster) {
			for i := 0; i < len(annotations); i += 2 {
				c.Annotations[annotations[i]] = annotations[i+1]
			}
		})
	}
	next := func(grace string) *fleet.Cluster {
		return moving("b", func(c *fleet.Cluster) {
			if grace != "" {
				c.Annotations[AnnotationMoveGrace] = grace
			}
		})
	}
	arrived := func(grace string, ago time.Duration) DeletionState {
		return DeletionState{To: "b", New: next(grace), Recognised: true, Arrived: true, ArrivedFor: ago}
	}
	const minute = time.Minute
	for name, c := range map[string]struct {
		why     string
		cluster *fleet.Cluster
		d       DeletionState
		stays   bool
		order   bool
		says    string
		after   time.Duration
	}{
		"NoMove":        {why: "a Cluster that is deleted goes", d: DeletionState{}},
		"NamespaceEnds": {why: "nothing holds up the end of a workspace", d: DeletionState{To: "b", Ends: true}},
		"NewMissing":    {why: "new before old", d: DeletionState{To: "b"}, stays: true, says: "waits for its Cluster", after: moveLook},
		"NewNever":      {why: "not for ever", d: DeletionState{To: "b", Since: MoveTimeout}},
		"AgentMissing":  {why: "the agent is connected all the time", d: DeletionState{To: "b", New: next(""), Recognised: true}, stays: true, says: "agent is connected there", after: moveLook},
		"AgentSoon":     {why: "the end of patience is looked at in time", d: DeletionState{To: "b", New: next(""), Since: MoveTimeout - time.Second}, stays: true, says: "agent", after: time.Second},
		"AgentNever":    {why: "an agent that is away comes back by the new Cluster's import", d: DeletionState{To: "b", New: next(""), Recognised: true, Since: MoveTimeout}},
		"AnotherAgent": {why: "what another agent has deployed is none of the old Cluster's business",
			d: DeletionState{To: "b", New: next(""), Arrived: true, ArrivedFor: minute, Since: MoveTimeout}},
		"Grace":            {why: "the new workspace has time to deploy", d: arrived("", minute), stays: true, says: "10m0s after", after: 9 * minute},
		"GraceOver":        {why: "a decision, not an inference", d: arrived("", DefaultGrace), stays: true, order: true, says: "withdrawn", after: moveLook},
		"OwnGrace":         {why: "a person has said how long", d: arrived("2m", minute), stays: true, says: "2m0s after", after: minute},
		"NoGrace":          {why: "a person has said how long", d: arrived("0s", 0), stays: true, order: true, says: "withdrawn", after: moveLook},
		"BadGrace":         {why: "what cannot be read is as if it were not there", d: arrived("soon", minute), stays: true, says: "10m0s after", after: 9 * minute},
		"Never":            {why: "a person wants to keep everything", d: arrived(Never, 0)},
		"Ordered":          {why: "the controllers are at it", cluster: with(AnnotationWithdrawIn, "b/c-12345"), d: arrived("0s", 0), stays: true, says: "withdrawn", after: moveLook},
		"OrderedElsewhere": {why: "it has moved on since", cluster: with(AnnotationWithdrawIn, "c/c-12345"), d: arrived("0s", 0), stays: true, order: true, says: "withdrawn", after: moveLook},
		"Done":             {why: "everything that was left is in its new place", cluster: with(AnnotationWithdrawIn, "b/c-12345", AnnotationWithdrawnIn, "b/c-12345"), d: arrived("0s", 0)},
		"LateOrdered":      {why: "an order is carried out, however late", cluster: with(AnnotationWithdrawIn, "b/c-12345"), d: func() DeletionState { d := arrived("0s", 0); d.Since = 2 * MoveTimeout; return d }(), stays: true, says: "withdrawn", after: moveLook},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cluster == nil {
				c.cluster = with()
			}
			stays, order, why, after := DecideStay(c.cluster, c.d)
			if stays != c.stays || order != c.order || after != c.after || !strings.Contains(why, c.says) || stays == (why == "") {
				t.Errorf("%s: got %t, %t, %q, %s", c.why, stays, order, why, after)
			}
		})
	}
}

func TestForsaken(t *testing.T) {
	made := func(change func(*management.Cluster)) *management.Cluster {
		m := &management.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c-m-abcd1234", Annotations: map[string]string{
			"objectset.rio.cattle.io/owner-gvk":  "provisioning.cattle.io/v1, Kind=Cluster",
			"objectset.rio.cattle.io/owner-name": "c1", "objectset.rio.cattle.io/owner-namespace": "a",
		}}, Spec: management.ClusterSpec{FleetWorkspaceName: "b"}}
		if change != nil {
			change(m)
		}
		return m
	}
	for name, c := range map[string]struct {
		why     string
		m       *management.Cluster
		asked   bool
		missing time.Duration
		goes    bool
		left    time.Duration
	}{
		"Asked":    {why: "a user has deleted the cluster", m: made(nil), asked: true, goes: true},
		"Unseen":   {why: "it may be about to be restored", m: made(nil), missing: time.Minute, left: ForsakenTimeout - time.Minute},
		"Lost":     {why: "it is not restored", m: made(nil), missing: ForsakenTimeout, goes: true},
		"Unmarked": {why: "it is not known what it was made of", m: made(func(m *management.Cluster) { m.Annotations = nil }), asked: true},
		"Legacy":   {why: "it came first", m: made(func(m *management.Cluster) { m.Name = "c-12345" }), asked: true},
		"Other":    {why: "it was made of something else", m: made(func(m *management.Cluster) { m.Annotations["objectset.rio.cattle.io/owner-gvk"] = "/v1, Kind=Secret" }), asked: true},
		"Goes":     {why: "it is being deleted", m: made(func(m *management.Cluster) { m.DeletionTimestamp = &metav1.Time{} }), asked: true},
	} {
		if goes, left := IsForsaken(c.m, c.asked, c.missing); goes != c.goes || left != c.left {
			t.Errorf("%s: %s: got %t, %s", name, c.why, goes, left)
		}
	}
}
