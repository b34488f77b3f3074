package differential_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/deployment"
	"github.com/fleetworkspace/fleet/pkg/plan/options"
	"github.com/fleetworkspace/fleet/pkg/plan/summary"
	"github.com/fleetworkspace/fleet/pkg/plan/withdrawal"
)

// objects says what is wrong with the objects that the manager makes.
func (r *recount) objects(w *world) []string {
	var wrong []string
	for _, p := range r.plans {
		wrong = append(wrong, r.bundle(w, p)...)
	}
	for _, bd := range r.deployments {
		f := withdrawal.Read(bd)
		if bd.DeletionTimestamp == nil && f.Order != "" && (f.Answered || f.Abandoned) {
			wrong = append(wrong, fmt.Sprintf("deployment %s: still there, although its withdrawal was answered", kube.KeyOf(bd)))
		}
	}
	return append(wrong, r.leftovers(w)...)
}

func (r *recount) bundle(w *world, p *plan) []string {
	var wrong []string
	b := p.bundle
	complain := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("bundle %s: ", b.Name)+fmt.Sprintf(format, args...))
	}
	all := r.deploymentsOf(b)
	adopted := slices.Contains(b.Finalizers, fleet.FinalizerBundle)
	if b.DeletionTimestamp != nil {
		if len(all) == 0 && adopted {
			complain("is being deleted, has no deployments, and is still there")
		}
		for _, bd := range all {
			if why := r.stays(w, b, bd); why != "" {
				complain("is being deleted: %s", why)
			}
		}
		return wrong
	}
	if (len(p.pairs) > 0 || len(all) > 0) && !adopted && p.compiled != nil {
		complain("has deployments, or should have, and not our finalizer")
	}
	if p.compiled != nil && len(p.pairs) > 0 && p.shape.Partitions != nil && r.hold == "" && !r.contents[p.compiled.Content()] {
		complain("its content %s is not there", p.compiled.Content())
	}
	if p.compiled == nil || p.shape.Partitions == nil {
		p.pairs = slices.Clone(p.pairs) // frozen: nothing is asked of its deployments
	} else {
		for _, x := range p.pairs {
			if x.held != "" && x.place.Namespace == "" || x.broken != "" || x.step.Reason == r.hold && r.hold != "" {
				continue
			}
			if why := x.unmet(p, r.snapshot); why != "" {
				complain("on %s (%s): %s", x.cluster.Name, x.step.Reason, why)
			}
		}
	}
	for _, x := range p.leaving {
		if why := r.stays(w, b, x.bd); why != "" {
			complain("on %s, which it should leave: %s", x.cluster.Name, why)
		}
	}
	return wrong
}

// unmet says what of a pair's step was not taken; empty for nothing.
func (pr *pair) unmet(p *plan, s *snapshot) string {
	step := pr.step
	switch {
	case pr.bd == nil && step.Create:
		return "is not there"
	case pr.bd == nil:
		return ""
	case !step.Move && !step.Stage:
		if !deployment.IsCurrent(p.compiled, pr.place, pr.bd, pr.version.ID) {
			return "its labels, pause or finalizers are not what they should be"
		}
		return ""
	}
	if pr.bd.DeletionTimestamp != nil {
		return ""
	}
	mark := deployment.MarkOf(pr.bd)
	if mark.Outcome != pr.version.Outcome || step.Move && !mark.Moved {
		return fmt.Sprintf("its mark is %v, its outcome should be %s", mark, pr.version.Outcome)
	}
	return pr.differs(p, s)
}

// differs compares a deployment with what is composed for it now.
func (pr *pair) differs(p *plan, s *snapshot) string {
	var current []byte
	secret := s.secrets[kube.KeyOf(pr.bd)]
	if secret != nil && pr.bd.Spec.ValuesHash != "" { // else it is left over from a version with values
		current = secret.Data[fleet.KeyValues]
	}
	order := deployment.Order{Compiled: p.compiled, Place: pr.place, Inputs: pr.inputs, Version: pr.version, Move: pr.step.Move}
	payload, err := deployment.Compose(order, pr.bd, current)
	if err != nil {
		return err.Error()
	}
	want := payload.Object
	// Values that another client has deleted are known again when the version
	// moves.
	if !pr.step.Move && pr.bd.Spec.ValuesHash != "" && secret == nil {
		want.Spec.ValuesHash = pr.bd.Spec.ValuesHash
	} else if why := values(pr.bd, payload.Secret, secret); why != "" {
		return why
	}
	return cmp.Diff(facts(want), facts(pr.bd))
}

// facts returns the fields of a deployment that are compared, as JSON has them.
// The digest of the inputs is only a memory, since other inputs may lead to the
// same result; the order to give up is a user's, and stays until the next
// version.
func facts(bd *fleet.BundleDeployment) any {
	notes := map[string]string{}
	for k, v := range bd.Annotations {
		if k != fleet.AnnotationInputHash && k != fleet.AnnotationAbandon {
			notes[k] = v
		}
	}
	finalizers := slices.Clone(bd.Finalizers)
	return plain(map[string]any{"labels": bd.Labels, "annotations": notes, "finalizers": finalizers, "spec": bd.Spec})
}

// plain is a value as JSON has it.
func plain(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	var out any
	if err := json.Unmarshal(raw, &out); err != nil {
		panic(err)
	}
	return out
}

// values says what is wrong with the values Secret of a deployment. A Secret
// with values that no deployment asks for any more does not matter.
func values(bd *fleet.BundleDeployment, want, have *corev1.Secret) string {
	switch {
	case bd.Spec.ValuesHash == "":
		return ""
	case have == nil:
		return "the Secret with its values is not there"
	case options.DeploymentValuesHash(have.Data[fleet.KeyValues], have.Data[fleet.KeyStagedValues]) != bd.Spec.ValuesHash:
		return "the Secret with its values is of another version"
	case want == nil:
		return "it has values and should have none"
	}
	return cmp.Diff(plain(want.Data), plain(have.Data))
}

// stays says why a deployment must not stay as it is although its Bundle does
// not want it; empty: it may. How many may be ordered to leave at once depends
// on how many were before; who was ordered stays until the agent answers.
func (r *recount) stays(w *world, b *fleet.Bundle, bd *fleet.BundleDeployment) string {
	if bd.DeletionTimestamp != nil {
		return ""
	}
	_, key := r.ownersOf(bd)
	c := r.cluster(key)
	f := withdrawal.Read(bd)
	if f.Orphaned = c == nil; c != nil {
		life := lifeOf(c)
		f.Orders = fleetstate.ReadHeartbeat(c).Protocol > 0 || life == summary.NeverSeen && bd.Status.AppliedDeploymentID != ""
	}
	if f.Blocked = r.hold; f.Blocked == "" {
		f.Blocked = r.blocker(b, key)
	}
	action, why := withdrawal.Decide(f)
	switch {
	case action == withdrawal.Wait, c == nil && b.DeletionTimestamp == nil:
		return ""
	case b.DeletionTimestamp == nil && f.Order == "" && w.pace.used(b.Name):
		return ""
	}
	return fmt.Sprintf("%s: still as it was: %s", kube.KeyOf(bd), why)
}

// leftovers are Secrets whose deployment is gone. One that the manager may not
// have seen in time is swept much later: where it was made just before, by an
// engine that was stopped then, or in a seed whose watch of Secrets had trouble.
func (r *recount) leftovers(w *world) []string {
	var wrong []string
	for key, s := range r.secrets {
		made := s.CreationTimestamp.Time
		if s.Type != fleet.SecretTypeBundleDeployment || w.blurred || made.Before(w.started) || w.pace.goneAt(key).Before(made.Add(longAgo)) {
			continue
		}
		if !slices.ContainsFunc(r.deployments, func(bd *fleet.BundleDeployment) bool { return kube.KeyOf(bd) == key }) {
			wrong = append(wrong, fmt.Sprintf("secret %s: its deployment is gone", key))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// deletable says why a deployment must not be deleted by the manager: nothing
// is deleted that may still run somewhere, unless its agent says that it does
// not, knows no orders, or has left with its cluster.
func (w *world) deletable(namespace, name string) string {
	ctx := context.Background()
	bd, err := kube.StoreOf[*fleet.BundleDeployment](w.admin).Get(ctx, kube.Key{Namespace: namespace, Name: name})
	if err != nil {
		return "" // gone already
	}
	if f := withdrawal.Read(bd); f.Answered || f.Abandoned {
		return ""
	}
	key, _ := fleetstate.ClusterOf(bd)
	c, err := kube.StoreOf[*fleet.Cluster](w.admin).Get(ctx, key)
	if err != nil {
		return "" // it has left
	}
	if bd.Status.AppliedDeploymentID == "" {
		// What the manager did not know when it decided, it cannot go by.
		agent, known := w.engine.Table().AgentOf(key)
		if heartbeat := fleetstate.ReadHeartbeat(c); heartbeat.Protocol == 0 || time.Since(heartbeat.Time) < longAgo || known && agent.Protocol == 0 {
			return ""
		}
	}
	return "its agent has not said that it is uninstalled"
}
