package bundle

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/condition"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// A deletion budget of a namespace that cannot be read is a condition of its GitRepos as long
// as that is so.
func TestSayBudget(t *testing.T) {
	e := &statusController{base: &base{now: func() time.Time { return start }}}
	repo := &fleet.GitRepo{ObjectMeta: metav1.ObjectMeta{Namespace: "ws", Name: "shop", Generation: 3}}
	list := e.setBudgetCondition(nil, repo, "50pct")
	c := condition.Find(list, fleet.ConditionDeletionBudget)
	if c == nil || c.Status != "False" || c.Reason != withdrawal.ReasonInvalidBudget || c.ObservedGeneration != 3 ||
		c.Message != withdrawal.SharedBudgetFault("", "ws", "50pct") {
		t.Fatalf("condition %+v", c)
	}
	if list = e.setBudgetCondition(list, repo, "50%"); len(list) != 0 {
		t.Errorf("it stays: %v", list)
	}
}
