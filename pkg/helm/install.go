package helm

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	helmkube "helm.sh/helm/v3/pkg/kube"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/runtime"

	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
	"github.com/fleetworkspace/fleet/pkg/plan/release"

	helmrelease "helm.sh/helm/v3/pkg/release"
)

// Install makes a release that does not exist, or of which no revision was ever
// deployed: then it adopts existing objects, and does not run hooks again that are
// known to have ended. Nothing is written before all has been rendered and checked,
// except a chart's own crds folder, which Helm installs first.
//
// Errors: reconcile.Terminal with a reason of package release for what only a change of
// the bundle fixes; reconcile.RequeueAfter for what may be missing for a while;
// anything else may pass. A partial result stays in Helm's storage.
func (c *Client) Install(ctx context.Context, d Deployment) error {
	before, err := c.store.listAttempts(ctx, d.ID)
	if err != nil {
		return err
	}
	return c.deploy(ctx, d, func(j *job) error {
		in := action.NewInstall(j.config)
		in.ReleaseName, in.Namespace = d.ID.Name, d.ID.Namespace
		in.Timeout, in.Wait = d.timeout()
		o := d.helm()
		in.Atomic, in.Force, in.WaitForJobs = o.Atomic, o.Force, o.WaitForJobs
		in.SkipSchemaValidation, in.EnableDNS = o.SkipSchemaValidation, !o.DisableDNS
		in.TakeOwnership = true // whom objects belong to was checked by the engine
		in.PostRenderer = j.post
		in.Labels = d.labels()
		in.Replace = len(before) > 0
		j.config.Releases.MaxHistory = d.history()
		if err := c.resumePending(ctx, j, before, release.PendingInstall, d); err != nil {
			return err
		}
		if !o.TakeOwnership {
			j.engine.owners.check = ownersAll
		}
		missing, err := mustCreateNamespace(ctx, j.account, d)
		if err != nil {
			return err
		}
		if missing { // Helm would create it before the hooks are checked
			j.engine.prepare = func() error { return createNamespace(context.WithoutCancel(ctx), j.account, d.ID.Namespace) }
		}
		if crds := j.chart.CRDObjects(); len(crds) > 0 {
			r, err := j.dryRun(d)
			if err == nil {
				err = j.engine.checkRehearsed(r)
			}
			if err != nil {
				return err
			}
			j.engine.expectCRDs(crds)
			j.engine.kinds.capabilities = j.config.Capabilities // the CRDs change them
			defer c.Refresh()
		}
		_, err = in.RunWithContext(context.WithoutCancel(ctx), j.chart, j.values)
		return err
	})
}

// Upgrade upgrades a release; also one whose last revision failed. Errors are as for
// Install.
func (c *Client) Upgrade(ctx context.Context, d Deployment) error {
	before, err := c.store.listAttempts(ctx, d.ID)
	if err != nil {
		return err
	}
	return c.deploy(ctx, d, func(j *job) error {
		up := action.NewUpgrade(j.config)
		up.Namespace = d.ID.Namespace
		up.Timeout, up.Wait = d.timeout()
		o := d.helm()
		up.Atomic, up.Force, up.WaitForJobs = o.Atomic, o.Force, o.WaitForJobs
		up.SkipSchemaValidation, up.EnableDNS = o.SkipSchemaValidation, !o.DisableDNS
		up.TakeOwnership = true
		up.ResetValues = true // values that are not given now are dropped
		up.MaxHistory = d.history()
		up.PostRenderer = j.post
		up.Labels = d.labels()
		if err := c.resumePending(ctx, j, before, release.PendingUpgrade, d); err != nil {
			return err
		}
		if !o.TakeOwnership {
			j.engine.owners.check = ownersBundles
		}
		_, err := up.RunWithContext(context.WithoutCancel(ctx), d.ID.Name, j.chart, j.values)
		return err
	})
}

// job is all that one action needs.
type job struct {
	account account
	config  *action.Configuration
	engine  *engine
	post    *postRenderer
	files   bundleFiles
	chart   *chart.Chart
	values  map[string]any
}

// deploy prepares an action, runs it and waits for it until ctx ends. Helm is
// not stopped then: it would mark the release as failed, or undo it. A process
// that ends leaves it as it is, and the next one goes on from there.
func (c *Client) deploy(ctx context.Context, d Deployment, run func(*job) error) error {
	j, err := c.prepareJob(ctx, d)
	if err != nil {
		return classify(err)
	}
	done := make(chan error, 1)
	started := time.Now()
	go func() {
		defer c.reserved.release(d.ID)
		done <- run(j)
	}()
	select {
	case err = <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if f := j.engine.fault(); f != nil {
		err = f
	}
	hidden := redact.New(append(j.post.names, d.ID.Name, d.ID.Namespace), j.values)
	if limit, wait := d.timeout(); wait && err != nil && errors.Is(err, context.DeadlineExceeded) && time.Since(started) >= limit {
		return timedOut(err, limit)
	}
	if err == nil {
		err = markNamespace(ctx, j.account, d.ID.Namespace, d.Options)
	}
	return withoutValues(d.inPlainWords(classify(err)), hidden)
}

func (c *Client) prepareJob(ctx context.Context, d Deployment) (*job, error) {
	if err := checkID(d.ID); err != nil {
		return nil, err
	}
	p, err := partsOf(d)
	if err != nil {
		return nil, err
	}
	who, err := c.accountFor(ctx, d.Options.ServiceAccount)
	if err != nil {
		return nil, err
	}
	values, err := c.values(ctx, who, d)
	if err != nil {
		return nil, err
	}
	post, err := c.postRenderer(d, p, who.api)
	if err != nil {
		return nil, err
	}
	eng := engineOf(who, d.ID)
	eng.limit, eng.sources = d.namespaceLimit(), post.sources
	eng.owners.deployment, eng.owners.reserved = d, c.reserved
	eng.owners.claims = func(id release.ID) (Claims, error) { return c.Claims(context.WithoutCancel(ctx), id) }
	cfg, err := c.configuration(ctx, who, eng)
	if err != nil {
		return nil, err
	}
	if p.chart.Metadata.Annotations == nil {
		p.chart.Metadata.Annotations = map[string]string{}
	}
	for k, v := range d.annotations(c.cfg.AgentNamespace) {
		p.chart.Metadata.Annotations[k] = v
	}
	return &job{account: who, config: cfg, engine: eng, post: post, files: p, chart: p.chart, values: values}, nil
}

// engineOf is the Kubernetes client of an action on a release.
func engineOf(who account, id release.ID) *engine {
	k := helmkube.New(getter{api: who.api, rest: who.config, namespace: id.Namespace})
	k.Namespace = id.Namespace
	return &engine{Client: k, api: who.api, id: id, tenant: who.impersonated()}
}

// configuration returns the configuration that Helm's actions share, on top of
// an engine.
func (c *Client) configuration(ctx context.Context, who account, eng *engine) (*action.Configuration, error) {
	caps, err := who.api.capabilities(ctx)
	if err != nil {
		return nil, err
	}
	eng.hooks.records = c.store.driver(context.WithoutCancel(ctx), who.client, eng.id.Namespace)
	eng.hooks.records.beforeCreate = eng.beginRevision
	return &action.Configuration{
		RESTClientGetter: getter{api: who.api, rest: eng.reader(who.config), namespace: eng.id.Namespace},
		Releases:         storage.Init(eng.hooks.records),
		KubeClient:       eng,
		Capabilities:     caps,
		Log:              func(string, ...any) {},
		HookOutputFunc:   func(_, _, _ string) io.Writer { return io.Discard },
	}, nil
}

// dryRun renders a chart that brings CRDs without writing anything. Helm
// installs those CRDs before it renders, so this is the only chance to find a
// template that fails, or a right that is missing, before the first write.
func (j *job) dryRun(d Deployment) (*helmrelease.Release, error) {
	p, err := partsOf(d) // rendering changes a chart
	if err != nil {
		return nil, err
	}
	j.post.files.chart = p.chart // which is the one that is rendered
	caps := j.config.Capabilities.Copy()
	caps.APIVersions = slices.Concat(caps.APIVersions, j.post.serves)
	in := action.NewInstall(&action.Configuration{
		RESTClientGetter: j.config.RESTClientGetter,
		Releases:         storage.Init(driver.NewMemory()),
		KubeClient:       &kubefake.PrintingKubeClient{Out: io.Discard},
		Capabilities:     caps,
		Log:              j.config.Log,
	})
	in.ReleaseName, in.Namespace = d.ID.Name, d.ID.Namespace
	in.DryRun, in.DryRunOption = true, "server" // templates may look things up
	in.SkipSchemaValidation, in.EnableDNS = d.helm().SkipSchemaValidation, !d.helm().DisableDNS
	in.PostRenderer = j.post
	return in.Run(p.chart, runtime.DeepCopyJSON(j.values))
}

// labels returns the labels of a release's records, which are in namespaces that others
// use too.
func (d Deployment) labels() map[string]string {
	id, _, _ := strings.Cut(d.Memory.Manager, "/")
	if id == "" {
		return nil
	}
	return map[string]string{fleet.LabelManagerID: id}
}
