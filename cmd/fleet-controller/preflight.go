package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fleetworkspace/fleet/pkg/agentmanagement"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/controllers"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/preflight"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// lookForOthers is how often a manager that waits for another's end looks.
const lookForOthers = 2 * time.Second

// leaseHolds is how long a lease holds that does not say so.
const leaseHolds = 30 * time.Second

// managerLeases are the leases by which managers are found, of all implementations.
var managerLeases = []string{agentmanagement.LeaseName, controllers.LeaseController, controllers.LeaseGitJob}

// waitUntilAlone looks for other managers of the same API before this one has written
// anything. It returns when this one may begin; the error is that of one that must
// not.
func (p *process) waitUntilAlone(ctx context.Context) error {
	c, err := p.connect(fleet.FieldManagerController)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Loop("beside").REST())
	if err != nil {
		return fmt.Errorf("look for other managers: %w", err)
	}
	self := preflight.Self{
		Namespace: p.options.namespace, Implementation: version.Implementation, Takeover: p.options.takeover,
		Shard: p.options.scope.Shard != "", Limited: len(p.options.scope.Workspaces) > 0,
	}
	for said := ""; ; {
		seen, err := p.listManagers(ctx, client)
		if err != nil {
			return fmt.Errorf("look for other managers: %w", err)
		}
		verdict, why := preflight.Decide(self, seen)
		switch verdict {
		case preflight.Refuse:
			return errors.New(why)
		case preflight.Begin:
			p.sayLeases(seen)
			return nil
		}
		if why != said {
			p.log.WithField("action", "beside").Warn(why)
			said = why
		}
		if kube.Sleep(ctx, lookForOthers) != nil {
			return nil
		}
	}
}

// sayLeases reports which leases of this namespace have another holder: roles wait for
// them.
func (p *process) sayLeases(seen []preflight.Manager) {
	for _, m := range seen {
		if m.Namespace != p.options.namespace {
			continue
		}
		for _, l := range m.Leases {
			if l.IsHeld() && l.Holder != p.options.identity {
				p.log.WithFields(logrus.Fields{"action": "lease", "reason": l.Holder}).
					Infof("lease %s is held: its role begins when the other has ended", l.Name)
			}
		}
	}
}

// listManagers returns the managers in the cluster, by namespace. It leaves out what this
// account may not see.
func (p *process) listManagers(ctx context.Context, client kubernetes.Interface) ([]preflight.Manager, error) {
	found := map[string]*preflight.Manager{}
	in := func(namespace string) *preflight.Manager {
		if found[namespace] == nil {
			found[namespace] = &preflight.Manager{Namespace: namespace}
		}
		return found[namespace]
	}
	in(p.options.namespace)
	now := time.Now()
	for _, name := range managerLeases {
		list, err := client.CoordinationV1().Leases("").List(ctx, nameSelector(name))
		if err != nil {
			if err = p.tolerateForbidden(err); err != nil {
				return nil, err
			}
			continue
		}
		for i := range list.Items {
			m := in(list.Items[i].Namespace)
			m.Leases = append(m.Leases, leaseOf(&list.Items[i], now))
		}
	}
	deployments, err := client.AppsV1().Deployments("").List(ctx, nameSelector(fleet.FieldManagerController))
	if err == nil {
		for i := range deployments.Items {
			in(deployments.Items[i].Namespace).Ready = int(deployments.Items[i].Status.ReadyReplicas)
		}
	} else if err = p.tolerateForbidden(err); err != nil {
		return nil, err
	}
	return p.addConfigMaps(ctx, client, found)
}

// addConfigMaps adds what the ConfigMap of each namespace says.
func (p *process) addConfigMaps(ctx context.Context, client kubernetes.Interface, found map[string]*preflight.Manager) ([]preflight.Manager, error) {
	out := make([]preflight.Manager, 0, len(found))
	for namespace, m := range found {
		config, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, fleet.ConfigMapController, metav1.GetOptions{})
		switch {
		case err == nil:
			m.Configured = true
			m.Version, m.Implementation = config.Annotations[fleet.AnnotationVersion], config.Annotations[fleet.AnnotationImplementation]
		case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
			return nil, err
		}
		out = append(out, *m)
	}
	return out, nil
}

// tolerateForbidden lets it pass, with a warning, that an account may not look.
func (p *process) tolerateForbidden(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	p.log.WithField("action", "beside").WithError(err).Warn("other managers cannot be seen")
	return nil
}

// nameSelector selects what has a name, in all namespaces. A right that is limited to the
// name is enough for it.
func nameSelector(name string) metav1.ListOptions {
	return metav1.ListOptions{FieldSelector: metav1.ObjectNameField + "=" + name}
}

// leaseOf is a lease as it is now.
func leaseOf(l *coordinationv1.Lease, now time.Time) preflight.Lease {
	out := preflight.Lease{Name: l.Name, Holds: leaseHolds, Renewed: leaseHolds}
	if l.Spec.HolderIdentity != nil {
		out.Holder = *l.Spec.HolderIdentity
	}
	if l.Spec.LeaseDurationSeconds != nil {
		out.Holds = time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second
		out.Renewed = out.Holds
	}
	if l.Spec.RenewTime != nil {
		out.Renewed = now.Sub(l.Spec.RenewTime.Time)
	}
	return out
}
