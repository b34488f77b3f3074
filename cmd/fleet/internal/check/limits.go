package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/limitchange"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
)

// LimitsReport is what GitRepoRestrictions and Policies of a file would change.
type LimitsReport struct {
	printer.Document `json:",inline"`
	Server           string        `json:"server"`
	File             string        `json:"file"`
	Checked          LimitsChecked `json:"checked"`
	Changes          []LimitChange `json:"changes"`
	// Unknown are Bundles that cannot be computed, with the reason.
	Unknown []string `json:"unknown,omitempty"`
}

// LimitsChecked counts the objects that were compared.
type LimitsChecked struct {
	GitRepos int `json:"gitRepos"`
	HelmOps  int `json:"helmOps"`
	Bundles  int `json:"bundles"`
}

// LimitChange is the effect on one object.
type LimitChange struct {
	Effect    string   `json:"effect"` // refused, allowed or changed
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Clusters  []string `json:"clusters,omitempty"`
	Message   string   `json:"message"`
	Rule      string   `json:"rule,omitempty"`
}

// RunLimits prints what the GitRepoRestrictions and Policies of a file would change within
// -n. The error is cli.ErrNotReady if something would be refused that is allowed.
func RunLimits(ctx context.Context, g *client.Globals, o printer.Output, std printer.Stdio, file string) error {
	limits, err := readLimits(file, g.Namespace, std)
	if err != nil {
		return err
	}
	s, err := g.ConnectWithin(ctx, std, true)
	if err != nil {
		return err
	}
	v := limitsView{Session: s}
	if err := v.read(ctx); err != nil {
		return err
	}
	doc := LimitsReport{Document: printer.NewDocument("LimitsReport"), Server: s.Server, File: file, Changes: []LimitChange{}}
	if err := v.compare(ctx, limits, &doc); err != nil {
		return err
	}
	if err := doc.print(o, s.Std); err != nil {
		return err
	}
	if slices.ContainsFunc(doc.Changes, func(c LimitChange) bool { return c.Effect == string(limitchange.Refused) }) {
		return cli.EndingWith(cli.ErrNotReady)
	}
	return nil
}

// readLimits reads a file. Objects without a namespace are in the one of -n.
func readLimits(file, namespace string, std printer.Stdio) (limitchange.Limits, error) {
	objects, err := sources.ReadObjects(file, std)
	if err != nil {
		return limitchange.Limits{}, cli.OfFlag("policy", err)
	}
	out := limitchange.Limits{Restrictions: objects.Restrictions, Policies: objects.Policies}
	for _, r := range out.Restrictions {
		r.Namespace = cmp.Or(r.Namespace, namespace)
	}
	for _, p := range out.Policies {
		p.Namespace = cmp.Or(p.Namespace, namespace)
	}
	switch namespaces := out.Namespaces(); {
	case len(namespaces) == 0:
		return out, fmt.Errorf("%w: no GitRepoRestriction and no Policy in %s", cli.ErrInput, cli.ShownFile(file))
	case namespaces[0] == "":
		return out, fmt.Errorf("%w: an object of %s has no namespace; set metadata.namespace, or -n", cli.ErrInput, cli.ShownFile(file))
	}
	return out, nil
}

// limitsView is what limits apply to.
type limitsView struct {
	*client.Session
	repos      []*fleet.GitRepo
	ops        []*fleet.HelmOp
	bundles    []*fleet.Bundle
	clusters   []*fleet.Cluster
	groups     []*fleet.ClusterGroup
	mappings   []*fleet.BundleNamespaceMapping
	namespaces []*corev1.Namespace
	limits     limitchange.Limits
}

// read reads everything once.
func (v *limitsView) read(ctx context.Context) error {
	err := cmp.Or(
		list(ctx, v.Session, "repos", &v.repos), list(ctx, v.Session, "helmops", &v.ops), list(ctx, v.Session, "bundles", &v.bundles),
		list(ctx, v.Session, "clusters", &v.clusters), list(ctx, v.Session, "groups", &v.groups))
	if err != nil {
		return err
	}
	if v.limits.Restrictions, err = client.LimitsAs[fleet.GitRepoRestriction](ctx, v.Session, policy.KindRestriction, v.Scope); err != nil {
		return err
	}
	if v.limits.Policies, err = client.LimitsAs[fleet.Policy](ctx, v.Session, policy.KindPolicy, v.Scope); err != nil {
		return err
	}
	plural, _, _ := fleet.Resource("BundleNamespaceMapping")
	v.mappings, err = client.EveryAs[fleet.BundleNamespaceMapping](ctx, v.Session, client.Query{Resource: fleet.GroupVersion.WithResource(plural), Namespace: v.Scope})
	if err != nil || len(v.mappings) == 0 {
		return err
	}
	v.namespaces, err = client.EveryAs[corev1.Namespace](ctx, v.Session, client.Query{Resource: client.Namespaces, Labels: fleet.LabelManaged + "!=true"})
	return err
}

func list[T any](ctx context.Context, s *client.Session, plural string, into *[]*T) (err error) {
	*into, err = client.ListAs[T](ctx, s, cli.MustKind(plural), "")
	return err
}

// compare adds to doc what limits would change.
func (v *limitsView) compare(ctx context.Context, limits limitchange.Limits, doc *LimitsReport) error {
	comparison := limitchange.New(v.limits, v.limits.With(limits))
	accounts := map[string]string{} // by kind, namespace and name
	limited := limits.Namespaces()
	concerned := func(namespace string) bool { return slices.Contains(limited, namespace) }
	for _, r := range v.repos {
		if concerned(r.Namespace) {
			doc.Checked.GitRepos++
			change, account := comparison.OfGitRepo(r)
			doc.add(change)
			accounts[fleet.LabelRepoName+r.Namespace+"/"+r.Name] = account
		}
	}
	for _, op := range v.ops {
		if concerned(op.Namespace) {
			doc.Checked.HelmOps++
			change, account := comparison.OfHelmOp(op)
			doc.add(change)
			accounts[fleet.LabelHelmOpName+op.Namespace+"/"+op.Name] = account
		}
	}
	for _, b := range v.bundles {
		in := preview.Input{Bundle: b, Clusters: v.clusters, Groups: v.groups, Mappings: v.mappings, Namespaces: v.namespaces}
		if !concerned(b.Namespace) && !slices.ContainsFunc(preview.ReachOf(in).Namespaces(), concerned) {
			continue
		}
		account := ""
		for _, label := range []string{fleet.LabelRepoName, fleet.LabelHelmOpName} {
			account = cmp.Or(account, accounts[label+b.Namespace+"/"+b.Labels[label]])
		}
		if err := v.compareBundle(ctx, in, account, comparison, doc); err != nil {
			return err
		}
	}
	return nil
}

// compareBundle adds to doc what limits would change for a Bundle.
func (v *limitsView) compareBundle(ctx context.Context, in preview.Input, account string, comparison *limitchange.Comparison, doc *LimitsReport) error {
	doc.Checked.Bundles++
	b := in.Bundle
	if b.Spec.ValuesHash != "" {
		src := sources.Source{Bundle: b, Live: v.Session}
		if err := src.AddSecret(ctx, &in, b.Namespace, b.Name); err != nil {
			return err
		}
	}
	changes, err := comparison.OfBundle(in, account)
	if err != nil {
		doc.Unknown = append(doc.Unknown, fmt.Sprintf("bundle/%s in %s: %v", b.Name, b.Namespace, err))
	}
	for i := range changes {
		doc.add(&changes[i])
	}
	return nil
}

func (r *LimitsReport) add(c *limitchange.Change) {
	if c != nil {
		r.Changes = append(r.Changes, LimitChange{
			Effect: string(c.Effect), Kind: c.Kind, Namespace: c.Namespace, Name: c.Name, Clusters: c.Clusters, Message: c.Message, Rule: c.Source,
		})
	}
}

// shortKinds are the words for kinds in KIND/NAME.
var shortKinds = map[string]string{"GitRepo": "repo", "HelmOp": "helmop", "Bundle": "bundle"}

func (r *LimitsReport) print(o printer.Output, std printer.Stdio) error {
	if o.IsMachineReadable() {
		return o.Print(std, *r, false)
	}
	rows := make([][]string, len(r.Changes))
	for i, c := range r.Changes {
		clusters := "-"
		if len(c.Clusters) > 0 {
			clusters = fmt.Sprint(len(c.Clusters))
		}
		text := c.Message
		if c.Rule != "" {
			text += " (" + c.Rule + ")"
		}
		rows[i] = []string{c.Namespace, shortKinds[c.Kind] + "/" + c.Name, c.Effect, clusters, text}
	}
	if len(rows) > 0 {
		t := &printer.Table{Out: std.Out, Width: std.Width(), Columns: []printer.Column{
			{Title: "WORKSPACE"}, {Title: "OBJECT"}, {Title: "EFFECT"}, {Title: "CLUSTERS", Drop: 1}, {Title: "WHY", Text: true}}}
		t.Print(rows, false)
	} else {
		printer.Fprintf(std.Out, "nothing changes\n")
	}
	for _, text := range r.Unknown {
		std.Note("warning: not known what becomes of %s", strings.TrimSpace(text))
	}
	std.Note("compared %s, %s and %s", printer.Plural(r.Checked.GitRepos, "GitRepo"), printer.Plural(r.Checked.HelmOps, "HelmOp"), printer.Plural(r.Checked.Bundles, "Bundle"))
	return nil
}
