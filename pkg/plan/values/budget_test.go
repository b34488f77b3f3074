package values

import (
	"errors"
	"strings"
	"testing"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

var north = ClusterFacts{Name: "north", Namespace: "fleet-default", Labels: map[string]string{"env": "prod"}}

func rendered(text string, b *Budget) error {
	_, err := Render(fleet.BundleDeploymentOptions{Helm: &fleet.HelmOptions{TemplateValues: map[string]string{"x": text}}}, north, b)
	return err
}

// TestBudget: clusters share what all of them together may take, each may add
// what a simple template takes, and a template that ends at a limit counts too.
func TestBudget(t *testing.T) {
	b := Budget{used: budgetSteps - maxSteps}
	for range 100 {
		if err := rendered("${ .ClusterName }", &b); err != nil {
			t.Fatalf("simple templates are possible for any number of clusters: %v", err)
		}
	}
	if b.used > budgetSteps-maxSteps+100*budgetShare/10 {
		t.Errorf("a simple template takes %d steps, more than a tenth of its share", (b.used-budgetSteps+maxSteps)/100)
	}
	tries := 0
	for ; tries < 20; tries++ {
		if err := rendered("${ range 1000000000 }${ end }", &b); errors.Is(err, ErrBudget) {
			break
		}
	}
	if tries == 0 || tries == 20 {
		t.Errorf("a template that never ends is tried %d times", tries)
	}
	if err := rendered("${ .ClusterName }", &b); !errors.Is(err, ErrBudget) || !strings.Contains(err.Error(), `cluster "north"`) {
		t.Errorf("got %v, want ErrBudget", err)
	}
	if err := rendered("${ .ClusterName }", &Budget{}); err != nil {
		t.Errorf("another Bundle: %v", err)
	}
}

// TestLargeRenderings: what is large waits for its turn, and what is small does
// not.
func TestLargeRenderings(t *testing.T) {
	for range maxLarge {
		large <- struct{}{}
	}
	done := make(chan error)
	go func() { done <- rendered("${ $x := repeat 2000000 `a` }", nil) }()
	if err := rendered("${ .ClusterName }", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Errorf("a large rendering does not wait: %v", err)
	default:
	}
	<-large
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for range maxLarge - 1 {
		<-large
	}
}
