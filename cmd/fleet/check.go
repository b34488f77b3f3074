package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	signs "github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/git"
	"github.com/fleetworkspace/fleet/pkg/plan/diagnose"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const checkText = `Looks at the whole installation: the connection, the manager and who leads, Fleet's kinds, where agents are sent, tokens that never end, agents by
version and their credentials, clocks, identities that are used twice, and accounts, addresses, roles and bundles that this version refuses. A line that fails says which part of the way it is, and what to do. It changes nothing.

Ends with 3 if a line says FAIL, and with 1 if most checks could not look.`

var checkFormats = []string{printer.FormatJSON, printer.FormatYAML}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

func newCheckCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o printer.Output
	cmd := &cobra.Command{
		Use: "check", Short: "Look for what is wrong with the installation", Long: checkText, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(checkFormats...); err != nil {
				return err
			}
			s, err := g.connect(cmd.Context(), std, true) // the brake is not a fault
			if err != nil {
				return err
			}
			c := checker{session: s, seen: diagnose.Seen{Now: s.now(), Namespace: s.system, Program: version.Version, Unread: map[string]string{}}}
			if c.seen.Server = g.probe(cmd.Context(), s.access); c.seen.Server.Failed == nil {
				if err := cmp.Or(s.served(cmd.Context()), s.missing(cmd.Context())); err != nil {
					return err
				}
				c.look(cmd.Context(), g)
			}
			return runCheck(o, s, diagnose.Examine(c.seen))
		},
	}
	o.AddFlag(cmd.Flags(), checkFormats...)
	return cmd
}

// runCheck prints findings. The error is for those that fail.
func runCheck(o printer.Output, s *session, findings []diagnose.Finding) error {
	worst := diagnose.Worst(findings)
	if o.Machine() {
		doc := CheckReport{Document: printer.NewDocument("CheckReport"), Server: s.server, Verdict: worst, Findings: findings}
		if err := o.Print(s.std, doc, false); err != nil {
			return err
		}
	} else {
		p := printer.Paragraph{Out: s.std.Out, Width: s.std.Width()}
		for _, f := range findings {
			p.State = string(f.Verdict)
			p.Lines(fmt.Sprintf("%-5s %-11s ", f.Verdict, f.Check), f.Message)
			if f.Hint != "" {
				printer.Say(s.std.Out, "%17s %s\n", "", f.Hint)
			}
		}
	}
	if worst == diagnose.Fail {
		return endingWith(errNotReady)
	}
	if most, skipped, of := diagnose.Blind(findings); most {
		return fmt.Errorf("%d of %d checks could not look: whether the installation is well is not known; ask a user with more rights to run it", skipped, of)
	}
	return nil
}

// A checker collects what there is to judge.
type checker struct {
	*session
	seen diagnose.Seen

	repos       []*fleet.GitRepo // of gitRepos
	reposFailed error
	reposRead   bool
}

// look reads everything that the server shows to this user. It notes what the server
// does not show, with the reason.
func (c *checker) look(ctx context.Context, g *globals) {
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
		c.seen.Address.Failed = g.visit(ctx, settings.APIServerURL, settings.APIServerCA)
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
	u, err := c.api.Get(ctx, leases, c.system, controllerLease)
	if err = absentOK(err); err != nil {
		return reached(c.server, err)
	}
	var lease *coordinationv1.Lease
	if u != nil {
		if lease, err = as[coordinationv1.Lease](u); err != nil {
			return err
		}
	}
	m := view.ReadManager(config, installation, lease, c.now())
	if u, err = c.api.Get(ctx, leases, c.system, readerLease); err == nil && u != nil {
		if lease, err = as[coordinationv1.Lease](u); err != nil {
			return err
		}
		m = m.WithCrashes("gitjob", lease, c.now())
	}
	c.seen.Manager = &m
	others, err := c.all(ctx, query{resource: configMaps, fields: "metadata.name=" + fleet.ConfigMapInstallation})
	if err != nil {
		return nil // a user who may not see all namespaces gets no findings about other managers
	}
	for _, o := range others {
		if o.GetNamespace() != c.system {
			c.seen.Others = append(c.seen.Others, o.GetNamespace())
		}
	}
	slices.Sort(c.seen.Others)
	return nil
}

// configMap reads a ConfigMap of the manager's; nil where there is none.
func (c *checker) configMap(ctx context.Context, name string) (*corev1.ConfigMap, error) {
	u, err := c.api.Get(ctx, configMaps, c.system, name)
	if err = absentOK(err); err != nil || u == nil {
		return nil, reached(c.server, err)
	}
	return as[corev1.ConfigMap](u)
}

func (c *checker) readCRDs(ctx context.Context) error {
	items, err := c.all(ctx, query{resource: definitions})
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
	c.seen.Tokens, err = listAs[fleet.ClusterRegistrationToken](ctx, c.session, mustKind("tokens"), "")
	return err
}

func (c *checker) readAgents(ctx context.Context) error {
	clusters, err := listAs[fleet.Cluster](ctx, c.session, mustKind("clusters"), "")
	for _, one := range clusters {
		heartbeat := signs.ReadHeartbeat(one)
		c.seen.Agents = append(c.seen.Agents, diagnose.AgentSeen{Cluster: one, Heartbeat: heartbeat.Time, Protocol: heartbeat.Protocol})
	}
	return err
}

// gitRepos are all GitRepos. Several checks are about them; they are listed once.
func (c *checker) gitRepos(ctx context.Context) ([]*fleet.GitRepo, error) {
	if !c.reposRead {
		c.repos, c.reposFailed = listAs[fleet.GitRepo](ctx, c.session, mustKind("repos"), "")
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
	queries, err := c.wide(ctx, mustKind("deployments"), "")
	if err != nil {
		return err
	}
	for _, q := range queries {
		_, err := each(ctx, c.api, q, func(u *unstructured.Unstructured) error {
			bd, err := as[fleet.BundleDeployment](u)
			if err == nil {
				repo := bd.Labels[fleet.LabelBundleNamespace] + "/" + bd.Labels[fleet.LabelRepoName]
				c.seen.Accounts = append(c.seen.Accounts, diagnose.AccountsOf(bd, forced[repo])...)
				c.seen.Shared.Add(bd)
			}
			return err
		})
		if err != nil {
			return reached(c.server, err)
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
