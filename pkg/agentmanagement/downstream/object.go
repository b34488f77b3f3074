package downstream

import (
	"context"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement/ensure"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/clusterimport"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
)

// A agentObject is one object of an agent, of any kind.
type agentObject interface {
	// readOwner reads what is there, and says whose that is if it must be left alone.
	readOwner(ctx context.Context, m clusterimport.Mark, known bool) (foreign string, err error)
	// apply writes the object as desired, unless it was last applied like that.
	apply(ctx context.Context) error
	// remove deletes what look has found, if it is still that.
	remove(ctx context.Context) error
	// hasMarkOf reports whether what look has found bears the label of a manager.
	hasMarkOf(manager string) bool
	// optional reports whether an agent can do without it.
	optional() bool
	String() string
}

// object is a thing of one kind. look comes before apply and remove.
type object[P kube.Object] struct {
	kind       string
	store      *kube.Store[P]
	want, have P
	there      bool
}

func newObject[P kube.Object](c *kube.Client, kind string, want P) agentObject {
	return &object[P]{kind: kind, store: kube.StoreOf[P](c), want: want}
}

func (o *object[P]) String() string { return o.kind + " " + kube.KeyOf(o.want).String() }

// optional reports whether an agent works without the object. A NetworkPolicy that
// permits its traffic may exist already, or another owner decides about traffic.
func (o *object[P]) optional() bool { return o.kind == "NetworkPolicy" }

// readOwner reads the existing object, and returns who owns it if this manager must not
// write it. known says that the agent is this Cluster's.
func (o *object[P]) readOwner(ctx context.Context, m clusterimport.Mark, known bool) (string, error) {
	have, err := o.store.Get(ctx, kube.KeyOf(o.want))
	if kube.IsGone(err) {
		o.there = false
		return "", nil
	}
	if err != nil {
		return "", err
	}
	o.have, o.there = have, true
	return m.ForeignOwner(have, known), nil
}

// apply applies the object if it differs from what was applied last.
func (o *object[P]) apply(ctx context.Context) error {
	hash, err := registration.ObjectHash(o.want)
	if err != nil {
		return err
	}
	if o.there && o.have.GetAnnotations()[fleet.AnnotationInputHash] == hash {
		return nil
	}
	o.want.SetAnnotations(ensure.Merged(o.want.GetAnnotations(), map[string]string{fleet.AnnotationInputHash: hash}))
	_, err = o.store.Apply(ctx, o.want)
	return err
}

// remove deletes the existing object.
func (o *object[P]) remove(ctx context.Context) error {
	if !o.there {
		return nil
	}
	return o.store.Delete(ctx, kube.KeyOf(o.have), kube.Exactly(o.have))
}

// hasMarkOf reports whether the existing object has the mark of a manager.
func (o *object[P]) hasMarkOf(manager string) bool {
	return o.there && o.have.GetLabels()[fleet.LabelManagerID] == manager
}
