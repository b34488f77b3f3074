package sources

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
)

// LookFurther reads the namespaces to which mappings lead the Bundle, and the clusters,
// groups and deployments there. It leaves out what the user may not see, with a
// warning.
func (s *Source) LookFurther(ctx context.Context, in *preview.Input) error {
	plural, _, _ := fleet.Resource("BundleNamespaceMapping")
	var err error
	if in.Mappings, err = client.EveryAs[fleet.BundleNamespaceMapping](ctx, s.Live,
		client.Query{Resource: fleet.GroupVersion.WithResource(plural), Namespace: s.Bundle.Namespace}); err != nil || len(in.Mappings) == 0 {
		return err
	}
	if in.Namespaces, err = client.EveryAs[corev1.Namespace](ctx, s.Live, client.Query{Resource: client.Namespaces, Labels: fleet.LabelManaged + "!=true"}); err != nil {
		return err
	}
	labels := fleet.LabelBundleName + "=" + s.Bundle.Name + "," + fleet.LabelBundleNamespace + "=" + s.Bundle.Namespace
	for _, ns := range preview.ReachOf(*in).Namespaces() {
		clusters, err := client.EveryAs[fleet.Cluster](ctx, s.Live, client.Query{Resource: cli.MustKind("clusters").Resource(), Namespace: ns})
		if err != nil {
			return err
		}
		groups, err := client.EveryAs[fleet.ClusterGroup](ctx, s.Live, client.Query{Resource: cli.MustKind("groups").Resource(), Namespace: ns})
		if err != nil {
			return err
		}
		deployments, err := client.EveryAs[fleet.BundleDeployment](ctx, s.Live, client.Query{
			Resource: cli.MustKind("deployments").Resource(), Labels: labels + "," + fleet.LabelClusterNamespace + "=" + ns})
		if err != nil {
			return err
		}
		in.Clusters, in.Groups, in.Deployments = append(in.Clusters, clusters...), append(in.Groups, groups...), append(in.Deployments, deployments...)
	}
	return nil
}

// ReadLimits reads the GitRepoRestrictions and Policies of the namespaces of the Bundle and
// of its clusters. It leaves out what the user may not see, with a warning.
func (s *Source) ReadLimits(ctx context.Context, in *preview.Input) error {
	in.Restrictions, in.Policies = nil, nil
	for _, ns := range append([]string{s.Bundle.Namespace}, preview.ReachOf(*in).Namespaces()...) {
		restrictions, err := client.LimitsAs[fleet.GitRepoRestriction](ctx, s.Live, policy.KindRestriction, ns)
		if err != nil {
			return err
		}
		policies, err := client.LimitsAs[fleet.Policy](ctx, s.Live, policy.KindPolicy, ns)
		if err != nil {
			return err
		}
		in.Restrictions, in.Policies = append(in.Restrictions, restrictions...), append(in.Policies, policies...)
	}
	return nil
}

// ConnectWorkspace is a session in one workspace.
func ConnectWorkspace(ctx context.Context, g *client.Globals, std printer.Stdio, namespace string) (*client.Session, error) {
	g.Namespace = namespace
	return g.ConnectWithin(ctx, std, false)
}

// A Source is where a preview takes its input from: a file, or a live cluster.
type Source struct {
	Bundle *fleet.Bundle
	File   Objects
	Live   *client.Session // nil: there is none
}

// Add reads the file of clusters beside that of the Bundle. Objects without a namespace
// are in that of the Bundle.
func (s *Source) Add(name string, std printer.Stdio) error {
	more, err := ReadObjects(name, std)
	if err != nil {
		return cli.OfFlag("cluster-file", err)
	}
	s.File.Clusters, s.File.Groups = more.Clusters, more.Groups
	s.File.mappings, s.File.namespaces = more.mappings, more.namespaces
	s.File.Restrictions, s.File.Policies = more.Restrictions, more.Policies
	s.File.Deployments = append(s.File.Deployments, more.Deployments...)
	s.File.Secrets = append(s.File.Secrets, more.Secrets...)
	s.File.contents = append(s.File.contents, more.contents...)
	for _, c := range s.File.Clusters {
		c.Namespace = cmp.Or(c.Namespace, s.Bundle.Namespace)
	}
	for _, g := range s.File.Groups {
		g.Namespace = cmp.Or(g.Namespace, s.Bundle.Namespace)
	}
	for _, m := range s.File.mappings {
		m.Namespace = cmp.Or(m.Namespace, s.Bundle.Namespace)
	}
	for _, r := range s.File.Restrictions {
		r.Namespace = cmp.Or(r.Namespace, s.Bundle.Namespace)
	}
	for _, p := range s.File.Policies {
		p.Namespace = cmp.Or(p.Namespace, s.Bundle.Namespace)
	}
	if n := len(s.File.Clusters); n == 0 {
		return fmt.Errorf("%w: no Cluster in %s", cli.ErrInput, cli.ShownFile(name))
	}
	return nil
}

// Preview works it out. A live cluster is asked for Secrets only where they
// are needed.
func (s *Source) Preview(ctx context.Context) (preview.Input, preview.Result, error) {
	in := preview.Input{
		Bundle: s.Bundle, Clusters: s.File.Clusters, Groups: s.File.Groups, Deployments: s.File.Deployments, Secrets: s.File.Secrets,
		Mappings: s.File.mappings, Namespaces: s.File.namespaces, Restrictions: s.File.Restrictions, Policies: s.File.Policies,
	}
	if s.Live == nil {
		r, err := preview.Compute(in)
		return in, r, err
	}
	if err := s.readInput(ctx, &in); err != nil {
		return in, preview.Result{}, err
	}
	r, err := preview.Compute(in)
	if err != nil {
		return in, r, err
	}
	missing := 0
	for _, c := range r.Clusters {
		if namespace, name, ok := strings.Cut(c.Needs, "/"); ok {
			missing++
			if err := s.AddSecret(ctx, &in, namespace, name); err != nil {
				return in, r, err
			}
		}
	}
	if missing > 0 {
		r, err = preview.Compute(in)
	}
	return in, r, err
}

// readInput reads what is there.
func (s *Source) readInput(ctx context.Context, in *preview.Input) error {
	var err error
	if in.Clusters, err = client.ListAs[fleet.Cluster](ctx, s.Live, cli.MustKind("clusters"), ""); err != nil {
		return err
	}
	if in.Groups, err = client.ListAs[fleet.ClusterGroup](ctx, s.Live, cli.MustKind("groups"), ""); err != nil {
		return err
	}
	labels := fleet.LabelBundleName + "=" + s.Bundle.Name + "," + fleet.LabelBundleNamespace + "=" + s.Bundle.Namespace
	if in.Deployments, err = client.ListAs[fleet.BundleDeployment](ctx, s.Live, cli.MustKind("deployments"), labels); err != nil {
		return err
	}
	if err := s.LookFurther(ctx, in); err != nil {
		return err
	}
	if err := s.ReadLimits(ctx, in); err != nil {
		return err
	}
	if s.Bundle.Spec.ValuesHash == "" {
		return nil
	}
	return s.AddSecret(ctx, in, s.Bundle.Namespace, s.Bundle.Name)
}

// AddSecret reads a Secret of the cluster into in.
func (s *Source) AddSecret(ctx context.Context, in *preview.Input, namespace, name string) error {
	secret, err := client.GetAs[corev1.Secret](ctx, s.Live, client.Secrets, namespace, name)
	if secret != nil {
		in.Secrets = append(in.Secrets, secret)
	}
	return err
}
