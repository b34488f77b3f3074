package helm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/storage/driver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/fleetworkspace/fleet/pkg/plan/redact"
	"github.com/fleetworkspace/fleet/pkg/plan/release"
)

// Uninstall removes a release and its objects, with the given rights. It spares
// every object that is marked as another release's, or that the newest manifest
// of another release of this agent names. A release that does not exist is no
// error. While an object cannot be looked at or removed the release stays.
func (c *Client) Uninstall(ctx context.Context, id release.ID, rights Rights) error {
	list, err := c.store.records(ctx, id)
	if err != nil || len(list) == 0 {
		return err
	}
	claimed, err := c.claims(ctx, id)
	if err != nil {
		return err
	}
	newest := list[len(list)-1]
	who, err := c.accountFor(ctx, rights.ServiceAccount)
	if err != nil {
		return err
	}
	eng := engineOf(who, id)
	eng.claimed, eng.limit = claimed, namespaceLimit{namespace: rights.Namespace}
	eng.hooks.ended, err = c.endedHooks(ctx, who, list[len(list)-1:], release.Uninstalling, readMemory(newest.Chart.Metadata.Annotations).DeploymentID)
	if err != nil {
		return err
	}
	cfg, err := c.configuration(ctx, who, eng)
	if err != nil {
		return err
	}
	un := action.NewUninstall(cfg)
	un.Timeout = defaultTimeout // IgnoreNotFound would ignore records that cannot be read
	return runUntil(ctx, func() error {
		if err := c.checkRemoval(eng, newest); err != nil {
			return c.withoutValues(ctx, classify(err), newest)
		}
		if err := c.removeForgotten(ctx, eng, list); err != nil {
			return c.withoutValues(ctx, classify(err), newest)
		}
		_, err := un.Run(id.Name)
		if errors.Is(err, driver.ErrReleaseNotFound) {
			return nil
		}
		if why := eng.firstRefusal(); err != nil && why != nil {
			err = why
		}
		return c.withoutValues(ctx, classify(err), newest)
	})
}

// checkRemoval is checkHooks for a release that is to be removed.
func (c *Client) checkRemoval(eng *engine, newest record) error {
	if !eng.tenant || !newest.readable {
		return nil
	}
	full, err := eng.hooks.records.Get(newest.secret)
	if err != nil {
		return fmt.Errorf("read revision %d of release %s/%s: %w", newest.Version, newest.Namespace, newest.Name, err)
	}
	return eng.checkHooks(full.Hooks, release.Uninstalling)
}

// removeForgotten removes the objects of a release that its newest revision does
// not name: an upgrade that failed may not have come to remove them, and Helm
// looks at no other revision.
func (c *Client) removeForgotten(ctx context.Context, eng *engine, list []record) error {
	last := len(list) - 1
	from := last
	for from > 0 && list[from].Info.Status != release.Deployed {
		from--
	}
	var text strings.Builder
	for i := from; i < last; i++ {
		if err := c.store.readBody(context.WithoutCancel(ctx), &list[i]); err != nil {
			return err
		}
		text.WriteString("\n---\n" + list[i].Manifest)
	}
	if text.Len() == 0 {
		return nil
	}
	if err := c.store.readBody(context.WithoutCancel(ctx), &list[last]); err != nil {
		return err
	}
	newest, err := eng.Build(strings.NewReader(list[last].Manifest), false)
	if err != nil {
		return fmt.Errorf("read the newest revision: %w", err)
	}
	older, err := eng.Build(strings.NewReader(text.String()), false)
	if err != nil {
		return fmt.Errorf("read older revisions: %w", err)
	}
	forgotten := older.Difference(newest).Filter(func(i *resource.Info) bool { return !isKept(i) && !isHook(i) })
	if len(forgotten) == 0 {
		return nil
	}
	_, errs := eng.DeleteWithPropagationPolicy(forgotten, metav1.DeletePropagationBackground)
	if why := eng.firstRefusal(); len(errs) > 0 && why != nil {
		return why
	}
	return errors.Join(errs...)
}

// withoutValues keeps the values of a revision out of an error.
func (c *Client) withoutValues(ctx context.Context, err error, r record) error {
	if err == nil {
		return nil
	}
	if bad := c.store.readBody(ctx, &r); bad != nil || !r.readable {
		return fmt.Errorf("%s/%s: Helm failed, and its text cannot be shown without knowing the values: %w",
			r.Namespace, r.Name, errors.Join(bad, errNoBody))
	}
	return withoutValues(err, r.valuesRedactor())
}

// valuesRedactor keeps the values of a revision out of texts.
func (r record) valuesRedactor() redact.Redactor {
	keep := []string{r.Name, r.Namespace}
	if objs, err := parseObjects([]byte(r.Manifest), ""); err == nil {
		for _, o := range objs {
			keep = append(keep, o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	return redact.New(keep, r.Config)
}

// runUntil runs f and waits for it until ctx ends; f goes on then.
func runUntil(ctx context.Context, f func() error) error {
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
	err := c.store.eachRecord(ctx, func(r record) {
		other := release.ID{Namespace: r.Namespace, Name: r.Name}
		mem := readMemory(r.Chart.Metadata.Annotations)
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
		if err := c.store.readBody(ctx, &r); err != nil {
			return nil, err
		}
		c.claimed(other, r, out)
	}
	return out, nil
}

// claimed adds the objects of a release to a list.
func (c *Client) claimed(id release.ID, r record, to map[string]bool) {
	objs, err := parseObjects([]byte(r.Manifest), "release "+id.String())
	if err != nil {
		return // an unreadable manifest claims nothing; the marks still apply
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
