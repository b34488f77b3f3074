package fleet

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/discovery"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/port"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/process"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// managerParts are the manager's processes, as in the chart's Deployments.
var managerParts = []struct {
	name  string // of the Deployment, its service account and its log
	roles string
}{
	{"fleet-controller", "controller,agentmanagement,cleanup,workspace"},
	{"gitjob", "gitjob"},
	{"helmops", "helmops"},
}

// installManager installs both charts on the cluster of a manager and starts
// the manager's processes.
func (f *Fleet) installManager(ctx context.Context, t *Tier) error {
	config := t.Host.Cluster.REST()
	client, err := kube.Connect(kube.Config{REST: config, UserAgent: config.UserAgent, FieldManager: "sandbox"})
	if err != nil {
		return err
	}
	t.client = client
	f.waitFor("the chart fleet-crd")
	crds := release{chart: filepath.Join(f.cfg.Charts, "fleet-crd"), name: "fleet-crd", namespace: api.NamespaceSystem}
	if err := install(ctx, config, crds); err != nil {
		return err
	}
	kinds, err := f.waitKinds(ctx, t)
	if err != nil {
		return err
	}
	f.waitFor("the chart fleet")
	if err := install(ctx, config, f.managerRelease(t)); err != nil {
		return err
	}
	for i, part := range managerParts {
		var args []string
		if t == f.tiers[0] {
			args = f.listeners(i)
		}
		if err := f.startManagerPart(ctx, t, part.name, part.roles, args...); err != nil {
			return err
		}
	}
	f.report("install", fmt.Sprintf("Fleet on %s: %d CRDs, manager running", t.Name(), kinds))
	return nil
}

// listeners returns the arguments of a part of the manager, by its index in managerParts, for
// what it serves on this machine.
func (f *Fleet) listeners(part int) []string {
	if address := f.cfg.Metrics[managerParts[part].name]; address != "" {
		return []string{"--metrics-address=" + address}
	}
	if f.cfg.Ports.First == 0 {
		return nil // they would listen at ports that are not known
	}
	at := func(flag string, number int) string {
		return "--" + flag + "=" + net.JoinHostPort(port.Loopback, strconv.Itoa(number))
	}
	switch managerParts[part].name {
	case "fleet-controller":
		return []string{at("metrics-address", f.cfg.Ports.Metrics(0))}
	case "gitjob":
		return []string{at("metrics-address", f.cfg.Ports.Metrics(1)), at("webhook-address", f.cfg.Ports.Webhooks())}
	}
	return nil
}

// WebhookURL is where git hosts announce pushes to the management cluster's manager, in a
// fleet with a block of ports.
func (f *Fleet) WebhookURL() string {
	return "http://" + net.JoinHostPort(port.Loopback, strconv.Itoa(f.cfg.Ports.Webhooks()))
}

func (f *Fleet) managerRelease(t *Tier) release {
	return release{
		chart:     filepath.Join(f.cfg.Charts, "fleet"),
		name:      "fleet",
		namespace: api.NamespaceSystem,
		values: map[string]any{
			"apiServerURL":         t.Host.Cluster.URL(),
			"apiServerCA":          string(t.Host.Cluster.CA()),
			"agentTLSMode":         "strict",
			"agentCheckinInterval": f.cfg.CheckIn.String(),
			"debug":                f.cfg.Debug,
			"imagescan":            map[string]any{"enabled": f.cfg.ImageScans},
			"manageAgent":          false, // agents are processes here: there is no Deployment to update
		},
	}
}

// waitKinds waits until the API server serves every kind of the chart, and returns the
// number of kinds.
func (f *Fleet) waitKinds(ctx context.Context, t *Tier) (int, error) {
	files, err := filepath.Glob(filepath.Join(f.cfg.Charts, "fleet-crd", "templates", "*.yaml"))
	if err != nil {
		return 0, fmt.Errorf("list CRDs: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(t.Host.Cluster.REST())
	if err != nil {
		return 0, fmt.Errorf("make client: %w", err)
	}
	kinds := 0
	err = f.poll(ctx, "the kinds of fleet.cattle.io", func(context.Context) (bool, error) {
		list, err := client.ServerResourcesForGroupVersion(api.GroupVersion.String())
		if err != nil {
			return false, nil // the group is not served before its first kind
		}
		kinds = 0
		for _, resource := range list.APIResources {
			if !strings.Contains(resource.Name, "/") {
				kinds++
			}
		}
		return kinds >= len(files), nil
	})
	return kinds, err
}

func (f *Fleet) startManagerPart(ctx context.Context, t *Tier, name, roles string, more ...string) error {
	path := filepath.Join(f.dir(t.Host), name+".kubeconfig")
	entry := kubeconfig.Entry{Name: t.Name(), Server: t.Host.Cluster.URL(), CA: t.Host.Cluster.CA()}
	if err := f.writeCredential(ctx, t.Host, account{api.NamespaceSystem, name}, entry, path); err != nil {
		return err
	}
	args := append([]string{"--kubeconfig=" + path, "--namespace=" + api.NamespaceSystem, "--roles=" + roles}, more...)
	p, err := f.newProgram(t.Host, name, "fleet-controller", args)
	if err != nil {
		return err
	}
	if f.cfg.ImageScans {
		p.spec.Env = append(p.spec.Env, "IMAGESCAN_ENABLED=true")
	}
	t.manager = append(t.manager, p)
	return p.start()
}

// AllowLoopback is the environment that lets a manager's processes reach API servers,
// git servers and registries of the sandbox.
const AllowLoopback = "FLEET_ALLOWED_RESERVED_CIDRS=127.0.0.0/8,::1/128"

// newProgram prepares a process of Fleet's that belongs to a member. It sees
// what it would see in its pod: nothing of the user's, a folder of its own
// for temporary files and the pod's UID.
func (f *Fleet) newProgram(m *Member, name, executable string, args []string) (*program, error) {
	tmp := filepath.Join(f.dir(m), "tmp-"+name)
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of %s: %w", name, err)
	}
	if f.cfg.Debug {
		args = append(args, "--debug")
	}
	return &program{
		group: f.group,
		spec: process.Spec{
			Name: name + " of " + m.Name,
			Path: filepath.Join(f.cfg.Programs, executable),
			Args: args,
			Dir:  tmp,
			Env: []string{
				"HOME=" + tmp, "TMPDIR=" + tmp, "POD_UID=" + m.Name + "-" + name,
				AllowLoopback,
			},
			Log: filepath.Join(f.logDir(m), name+".log"),
		},
		onExit: func(death *process.Death) {
			if !f.started.Load() {
				f.cancel(death)
			}
		},
	}, nil
}

// programs lists all of Fleet's processes.
func (f *Fleet) programs() []*program {
	var all []*program
	for _, m := range f.Members() {
		all = append(all, f.programsOf(m)...)
	}
	return all
}
