package check

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	signs "github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// Formats are the values of -o that the command has.
var Formats = []string{printer.FormatJSON, printer.FormatYAML}

// Run looks at the installation and prints what it finds.
func Run(ctx context.Context, g *client.Globals, o printer.Output, s *client.Session) error {
	c := checker{Session: s, seen: diagnose.Observed{Now: s.Now(), Namespace: s.System, Program: version.Version, Unread: map[string]string{}}}
	if c.seen.Server = g.Probe(ctx, s.Access); c.seen.Server.Failed == nil {
		if err := cmp.Or(s.Served(ctx), s.NamespaceError(ctx)); err != nil {
			return err
		}
		c.readServer(ctx, g)
	}
	return report(o, s, diagnose.Check(c.seen))
}

// report prints findings. The error is for those that fail.
func report(o printer.Output, s *client.Session, findings []diagnose.Finding) error {
	worst := diagnose.WorstVerdict(findings)
	if o.IsMachineReadable() {
		doc := CheckReport{Document: printer.NewDocument("CheckReport"), Server: s.Server, Verdict: worst, Findings: findings}
		if err := o.Print(s.Std, doc, false); err != nil {
			return err
		}
	} else {
		p := printer.Paragraph{Out: s.Std.Out, Width: s.Std.Width()}
		for _, f := range findings {
			p.State = string(f.Verdict)
			p.Lines(fmt.Sprintf("%-5s %-11s ", f.Verdict, f.Check), f.Message)
			if f.Hint != "" {
				printer.Fprintf(s.Std.Out, "%17s %s\n", "", f.Hint)
			}
		}
	}
	if worst == diagnose.Fail {
		return cli.EndingWith(cli.ErrNotReady)
	}
	if most, skipped, of := diagnose.Skipped(findings); most {
		return fmt.Errorf("%d of %d checks could not look: whether the installation is well is not known; ask a user with more rights to run it", skipped, of)
	}
	return nil
}

// A checker collects what there is to judge.
type checker struct {
	*client.Session
	seen diagnose.Observed

	repos       []*fleet.GitRepo // of gitRepos
	reposFailed error
	reposRead   bool
}

// readServer reads everything that the server shows to this user. It notes what the server
// does not show, with the reason.
func (c *checker) readServer(ctx context.Context, g *client.Globals) {
	for _, part := range []struct {
		check string
		read  func(context.Context) error
	}{
		{diagnose.Manager, c.readManager},
		{diagnose.CRDs, c.readCRDs},
		{diagnose.Tokens, c.readTokens},
		{diagnose.Agents, c.readAgents},
		{diagnose.Sources, c.readSources},
		{diagnose.Accounts, c.readAccounts},
		{diagnose.Resources, c.readBundles},
	} {
		if err := part.read(ctx); err != nil {
			c.seen.Unread[part.check] = err.Error()
		}
	}
	if why := c.seen.Unread[diagnose.Agents]; why != "" {
		c.seen.Unread[diagnose.Clocks], c.seen.Unread[diagnose.Identity], c.seen.Unread[diagnose.Credentials] = why, why, why
	}
	if err := c.readRoles(ctx); err != nil {
		c.seen.Roles = nil // a user who may not see all of them gets no findings about any
	}
	if why := c.seen.Unread[diagnose.Resources]; why != "" {
		c.seen.Unread[diagnose.Templates], c.seen.Unread[diagnose.Kustomize], c.seen.Unread[diagnose.Reads] = why, why, why
	}
	if why := c.seen.Unread[diagnose.Accounts]; why != "" {
		c.seen.Unread[diagnose.Objects] = why
	}
	settings, ok := c.readSettings(ctx)
	c.seen.Bundles.RequireLabel = settings.RequireDownstreamLabel
	c.seen.Address = diagnose.AddressSeen{Known: ok, URL: settings.APIServerURL}
	if settings.APIServerURL != "" {
		c.seen.Address.Failed = g.Visit(ctx, settings.APIServerURL, settings.APIServerCA)
	}
}

func (c *checker) readManager(ctx context.Context) error {
	config, err := c.configMap(ctx, fleet.ConfigMapController)
	if err != nil {
		return err
	}
	installation, err := c.configMap(ctx, fleet.ConfigMapInstallation)
	if err != nil {
		return err
	}
	u, err := c.API.Get(ctx, client.Leases, c.System, client.ControllerLease)
	if err = client.AbsentOK(err); err != nil {
		return client.DescribeServerError(c.Server, err)
	}
	var lease *coordinationv1.Lease
	if u != nil {
		if lease, err = client.Convert[coordinationv1.Lease](u); err != nil {
			return err
		}
	}
	m := view.ReadManager(config, installation, lease, c.Now())
	if u, err = c.API.Get(ctx, client.Leases, c.System, client.ReaderLease); err == nil && u != nil {
		if lease, err = client.Convert[coordinationv1.Lease](u); err != nil {
			return err
		}
		m = m.WithCrashes("gitjob", lease, c.Now())
	}
	c.seen.Manager = &m
	others, err := c.ListAll(ctx, client.Query{Resource: client.ConfigMaps, Fields: "metadata.name=" + fleet.ConfigMapInstallation})
	if err != nil {
		return nil // a user who may not see all namespaces gets no findings about other managers
	}
	for _, o := range others {
		if o.GetNamespace() != c.System {
			c.seen.Others = append(c.seen.Others, o.GetNamespace())
		}
	}
	slices.Sort(c.seen.Others)
	return nil
}

// configMap reads a ConfigMap of the manager's; nil where there is none.
func (c *checker) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	u, err := c.API.Get(ctx, client.ConfigMaps, c.System, name)
	if err = client.AbsentOK(err); err != nil || u == nil {
		return nil, client.DescribeServerError(c.Server, err)
	}
	return client.Convert[corev1.ConfigMap](u)
}

func (c *checker) readCRDs(ctx context.Context) error {
	items, err := c.ListAll(ctx, client.Query{Resource: client.Definitions})
	if err != nil {
		return err
	}
	for _, kind := range fleet.Kinds() {
		for _, u := range items {
			if u.GetName() == kind.Name() {
				revision, _ := strconv.Atoi(u.GetAnnotations()[fleet.AnnotationCRDRevision])
				c.seen.CRDs = append(c.seen.CRDs, diagnose.CRD{Name: u.GetName(), Revision: revision})
			}
		}
	}
	return nil
}

func (c *checker) readTokens(ctx context.Context) (err error) {
	c.seen.Tokens, err = client.ListAs[fleet.ClusterRegistrationToken](ctx, c.Session, cli.MustKind("tokens"), "")
	return err
}

func (c *checker) readAgents(ctx context.Context) error {
	clusters, err := client.ListAs[fleet.Cluster](ctx, c.Session, cli.MustKind("clusters"), "")
	for _, one := range clusters {
		heartbeat := signs.ReadHeartbeat(one)
		c.seen.Agents = append(c.seen.Agents, diagnose.AgentSeen{Cluster: one, Heartbeat: heartbeat.Time, Protocol: heartbeat.Protocol})
	}
	return err
}

// gitRepos are all GitRepos. Several checks are about them; they are listed once.
func (c *checker) gitRepos(ctx context.Context) ([]*fleet.GitRepo, error) {
	if !c.reposRead {
		c.repos, c.reposFailed = client.ListAs[fleet.GitRepo](ctx, c.Session, cli.MustKind("repos"), "")
		c.reposRead = true
	}
	return c.repos, c.reposFailed
}

func (c *checker) readSources(ctx context.Context) error {
	repos, err := c.gitRepos(ctx)
	for _, r := range repos {
		if host, _, err := net.SplitHostPort(git.Host(r.Spec.Repo)); err == nil {
			c.seen.Sources = append(c.seen.Sources, diagnose.SourceSeen{GitRepo: r.Namespace + "/" + r.Name, Host: host})
		}
	}
	return err
}

// readAccounts reads all deployments in pages, and keeps only what is said of
// their accounts, and which objects two of them have.
func (c *checker) readAccounts(ctx context.Context) error {
	repos, err := c.gitRepos(ctx)
	if err != nil {
		return err
	}
	forced := map[string]string{} // by workspace and name of the GitRepo
	for _, r := range repos {
		forced[r.Namespace+"/"+r.Name] = r.Spec.ServiceAccount
	}
	queries, err := c.QueriesFor(ctx, cli.MustKind("deployments"), "")
	if err != nil {
		return err
	}
	for _, q := range queries {
		_, err := client.VisitAll(ctx, c.API, q, func(u *unstructured.Unstructured) error {
			bd, err := client.Convert[fleet.BundleDeployment](u)
			if err == nil {
				repo := bd.Labels[fleet.LabelBundleNamespace] + "/" + bd.Labels[fleet.LabelRepoName]
				c.seen.Accounts = append(c.seen.Accounts, diagnose.AccountsOf(bd, forced[repo])...)
				c.seen.Shared.Add(bd)
			}
			return err
		})
		if err != nil {
			return client.DescribeServerError(c.Server, err)
		}
	}
	return nil
}

func (c *checker) readSettings(ctx context.Context) (registration.Settings, bool) {
	config, err := c.configMap(ctx, fleet.ConfigMapController)
	if err != nil || config == nil {
		return registration.Settings{}, false
	}
	settings, _, err := registration.ParseSettings(config.Data[fleet.KeyConfig])
	return settings, err == nil
}

// CheckReport is what fleet check prints.
type CheckReport struct {
	printer.Document
	// Server is the address of the API server.
	Server string `json:"server"`
	// Verdict is the worst of the findings: ok, warn or FAIL.
	Verdict diagnose.Verdict `json:"verdict"`
	// Findings are in the order in which they were made.
	Findings []diagnose.Finding `json:"findings"`
}
