package workspace

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	management "github.com/fleetworkspace/fleet/pkg/apis/management.cattle.io/v3"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	plan "github.com/fleetworkspace/fleet/pkg/plan/workspace"
)

// kindSettings is the CustomResourceDefinition of Rancher's settings.
const kindSettings = "settings.management.cattle.io"

// quiet is how long Rancher's settings must stay as they are before they count: an
// address and its certificates come one after the other.
const quiet = 5 * time.Second

// A Follower completes the settings of the chart by Rancher's.
type Follower struct {
	Client *kube.Client
	Log    *logrus.Entry
	Quiet  time.Duration // 5 s where 0
}

// errChanged says that the settings have changed.
var errChanged = errors.New("settings have changed")

// Follow calls run with the settings of the chart, completed by Rancher's settings.
// When these change, it ends the context of run, and calls run again after that has
// returned. If the chart sets everything, it watches nothing. Follow returns when ctx
// ends, or with the error of run.
func (f Follower) Follow(ctx context.Context, chart registration.Settings, run func(context.Context, registration.Settings) error) error {
	if !plan.Open(chart) {
		return run(ctx, chart)
	}
	if f.Quiet == 0 {
		f.Quiet = quiet
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	reported := newSettingsWatch(f.Client.Loop("rancher-settings"), f.Log)
	return kube.Run(ctx, nil, reported.crd, kube.RunnerFunc(reported.follow), kube.RunnerFunc(func(ctx context.Context) error {
		defer stop()
		if !reported.waitFirst(ctx) {
			return nil
		}
		for {
			settings := reported.get().Fill(chart)
			err := f.runUntilChanged(ctx, reported, func() bool { return reflect.DeepEqual(reported.get().Fill(chart), settings) }, func(ctx context.Context) error {
				return run(ctx, settings)
			})
			if !errors.Is(err, errChanged) || ctx.Err() != nil {
				return err
			}
			f.Log.WithField("reason", "Rancher's settings have changed").Info("agents are told anew")
		}
	}))
}

// runUntilChanged calls run until ctx ends, run fails, or Rancher's settings have
// differed for a while from those that run got.
func (f Follower) runUntilChanged(ctx context.Context, reported *settingsWatch, same func() bool, run func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for same() || !reported.waitUnchanged(ctx, f.Quiet) || same() {
			if ctx.Err() != nil || !waitSignal(ctx, reported.fresh) {
				return
			}
		}
		stop(errChanged)
	})
	err := run(ctx)
	if err == nil && errors.Is(context.Cause(ctx), errChanged) {
		err = errChanged
	}
	stop(nil)
	watcher.Wait()
	return err
}

// A settingsWatch watches Rancher's settings.
type settingsWatch struct {
	client *kube.Client
	log    *logrus.Entry
	crd    *metaCache
	change chan struct{} // the CustomResourceDefinition has changed
	fresh  chan struct{} // the settings have changed

	mu    sync.Mutex
	known bool
	said  plan.Reported
}

func newSettingsWatch(c *kube.Client, log *logrus.Entry) *settingsWatch {
	t := &settingsWatch{client: c, log: log, change: make(chan struct{}, 1), fresh: make(chan struct{}, 1)}
	t.crd = kube.NewMetaCache(c, apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), kube.Watch{Fields: "metadata.name=" + kindSettings}, func(m *meta) {
		m.Labels, m.Annotations, m.OwnerReferences = nil, nil, nil
	})
	t.crd.OnChange(func(_, _ *meta) { signal(t.change) })
	return t
}

// signal puts a value into a channel, unless it has one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// follow watches the settings while their kind exists.
func (sw *settingsWatch) follow(ctx context.Context) error {
	for ctx.Err() == nil {
		if _, ok := sw.crd.Get(kube.Key{Name: kindSettings}); !ok {
			sw.set(plan.Reported{})
			if !waitSignal(ctx, sw.change) {
				return nil
			}
			continue
		}
		if err := sw.watch(ctx); err != nil {
			return err
		}
	}
	return nil
}

// watch watches the settings until ctx ends or their kind is deleted.
func (sw *settingsWatch) watch(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	settings := kube.NewCache[*management.Setting](sw.client, kube.Watch{}, nil)
	look := func() {
		sw.set(plan.ReportedBy(func(name string) string {
			if s, ok := settings.Get(kube.Key{Name: name}); ok {
				return s.Effective()
			}
			return ""
		}))
	}
	settings.OnChange(func(_, _ *management.Setting) {
		if settings.HasSynced() {
			look()
		}
	})
	said := ""
	settings.OnError(func(err error) { // tried again by the cache, with a growing delay
		if kube.IsForbidden(err) && err.Error() != said {
			said = err.Error()
			sw.log.WithError(err).Warn("Rancher's settings cannot be read: what is known of them counts, and without any no agent is told anything")
		}
	})
	return kube.Run(ctx, nil, settings, kube.RunnerFunc(func(ctx context.Context) error {
		look()
		for {
			if _, ok := sw.crd.Get(kube.Key{Name: kindSettings}); !ok {
				stop()
				return nil
			}
			if !waitSignal(ctx, sw.change) {
				return nil
			}
		}
	}))
}

func (sw *settingsWatch) set(said plan.Reported) {
	sw.mu.Lock()
	changed := !sw.known || sw.said != said
	sw.known, sw.said = true, said
	sw.mu.Unlock()
	if changed {
		signal(sw.fresh)
	}
}

func (sw *settingsWatch) get() plan.Reported {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	return sw.said
}

// waitFirst waits until the settings are known; false: ctx has ended.
func (sw *settingsWatch) waitFirst(ctx context.Context) bool {
	for {
		sw.mu.Lock()
		known := sw.known
		sw.mu.Unlock()
		if known {
			return true
		}
		if !waitSignal(ctx, sw.fresh) {
			return false
		}
	}
}

// waitUnchanged waits until the settings have not changed for a while; false: ctx has
// ended.
func (sw *settingsWatch) waitUnchanged(ctx context.Context, quiet time.Duration) bool {
	for said := sw.get(); ; {
		if kube.Sleep(ctx, quiet) != nil {
			return false
		}
		now := sw.get()
		if now == said {
			return true
		}
		said = now
	}
}

// waitSignal waits for a signal; false: ctx has ended.
func waitSignal(ctx context.Context, c chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c:
		return true
	}
}
