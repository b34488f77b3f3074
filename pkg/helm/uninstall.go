package helm

import (
	"context"
	"errors"
	"fmt"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Uninstall removes a release and its objects. It spares every object that is
// marked as another release's, or that the newest manifest of another release
// of this agent names. A release that does not exist is no error.
func (c *Client) Uninstall(ctx context.Context, id release.ID) error {
	list, err := c.records(ctx, id)
	if err != nil || len(list) == 0 {
		return err
	}
	claimed, err := c.claims(ctx, id)
	if err != nil {
		return err
	}
	newest := list[len(list)-1]
	who, err := c.account(ctx, newest.Chart.Metadata.Annotations[fleet.ReleaseServiceAccount])
	if err != nil {
		return err
	}
	eng := c.engine(who, id)
	eng.claimed = claimed
	cfg, err := c.configuration(ctx, who, eng)
	if err != nil {
		return err
	}
	un := action.NewUninstall(cfg)
	un.Timeout = defaultTimeout // IgnoreNotFound would ignore records that cannot be read
	return wait(ctx, func() error {
		_, err := un.Run(id.Name)
		if errors.Is(err, driver.ErrReleaseNotFound) {
			return nil
		}
		return c.withoutValues(ctx, classify(err), newest)
	})
}

// withoutValues keeps the values of a revision out of an error.
func (c *Client) withoutValues(ctx context.Context, err error, r record) error {
	if err == nil {
		return nil
	}
	if bad := c.complete(ctx, &r); bad != nil || !r.readable {
		return fmt.Errorf("%s/%s: Helm failed, and its text cannot be shown without knowing the values: %w",
			r.Namespace, r.Name, errors.Join(bad, errNoBody))
	}
	return without(err, r.hidden())
}

// hidden keeps the values of a revision out of texts.
func (r record) hidden() redact.Redactor {
	keep := []string{r.Name, r.Namespace}
	if objs, err := parse([]byte(r.Manifest), ""); err == nil {
		for _, o := range objs {
			keep = append(keep, o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	return redact.New(keep, r.Config)
}

// wait runs f and waits for it until ctx ends; f goes on then.
func wait(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// claims are the objects in the newest manifests of all other releases of this
// agent.
func (c *Client) claims(ctx context.Context, id release.ID) (map[string]bool, error) {
	newest := map[release.ID]record{}
	err := c.eachRecord(ctx, func(r record) {
		other := release.ID{Namespace: r.Namespace, Name: r.Name}
		mem := remembered(r.Chart.Metadata.Annotations)
		if other == id || !r.readable || mem.Owner.AgentNamespace != c.cfg.AgentNamespace {
			return
		}
		if last, ok := newest[other]; !ok || last.Version < r.Version {
			newest[other] = r
		}
	})
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for other, r := range newest {
		if err := c.complete(ctx, &r); err != nil {
			return nil, err
		}
		c.claimed(other, r, out)
	}
	return out, nil
}

// claimed adds the objects of a release to a list.
func (c *Client) claimed(id release.ID, r record, to map[string]bool) {
	objs, err := parse([]byte(r.Manifest), "release "+id.String())
	if err != nil {
		return // what cannot be read claims nothing; the marks still count
	}
	for _, o := range objs {
		if o.GetNamespace() == "" {
			if m, err := c.api.mapping(o.GroupVersionKind()); err == nil && m.Scope.Name() == meta.RESTScopeNameNamespace {
				o.SetNamespace(id.Namespace)
			}
		}
		to[identity(o.Unstructured)] = true
	}
}

func isGone(err error) bool { return apierrors.IsNotFound(err) }
