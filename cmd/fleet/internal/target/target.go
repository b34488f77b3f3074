package target

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/sources"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/fleetyaml"
	"github.com/fleetworkspace/fleet/pkg/plan/lint"
	"github.com/fleetworkspace/fleet/pkg/plan/policy"
	"github.com/fleetworkspace/fleet/pkg/plan/preview"
	"github.com/fleetworkspace/fleet/pkg/plan/reconcile"
)

// Options are the flags of fleet target; they are rancher/fleet's, except
// --cluster-file and -o.
type Options struct {
	BundleFile  string
	ClusterFile string
	Dump        bool
	Output      printer.Output
}

// Check refuses flags that are missing or do not go together.
func (o Options) Check() error {
	switch {
	case o.BundleFile == "":
		return errors.New("want -b FILE with the Bundle; fleet apply -o FILE makes one")
	case o.BundleFile == "-" && o.ClusterFile == "-":
		return errors.New("only one of --bundle-file and --cluster-file can be stdin")
	}
	return o.Output.Check(printer.FormatJSON, printer.FormatYAML)
}

// Run prints the deployments of a Bundle.
func Run(ctx context.Context, g *client.Globals, o Options, std printer.Stdio) error {
	file, err := sources.ReadObjects(o.BundleFile, std)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(o.BundleFile, "./") {
		return fmt.Errorf("-b names a file with a Bundle: %w; for a bundle of the cluster: fleet get bundles %s -o yaml | fleet target -b -", err, client.Quoted([]string{o.BundleFile})[0])
	}
	if err != nil {
		return cli.OfFlag("bundle-file", err)
	}
	b, err := sources.OneBundle(g, file, o.BundleFile)
	if err != nil {
		return err
	}
	src := sources.Source{Bundle: b, File: file}
	if o.ClusterFile == "" {
		src.Live, err = sources.ConnectWorkspace(ctx, g, std, b.Namespace)
	} else {
		err = src.Add(o.ClusterFile, std)
	}
	if err != nil {
		return err
	}
	in, result, err := src.Preview(ctx)
	if err != nil {
		return classifyError(b, err)
	}
	warnUnknown(std, in)
	if o.Dump {
		if err := printInputs(std, in); err != nil {
			return err
		}
	}
	access, err := src.Credential(ctx)
	if err != nil {
		return err
	}
	if access == nil && b.Spec.ContentsID != "" {
		std.Note("warning: Secret %s/%s, which says in which registry the content is, is not there, or not yours to read", b.Namespace, b.Spec.ContentsID)
	}
	objects, err := objects(ctx, &src, result, access)
	if err != nil {
		return err
	}
	return o.printAnswer(std, b, result, objects)
}

// classifyError says whether the input is to blame for an error.
func classifyError(b *fleet.Bundle, err error) error {
	if reconcile.IsTerminal(err) || reconcile.IsRequeue(err) {
		return fmt.Errorf("%w: bundle %q: %w", cli.ErrInput, b.Name, err)
	}
	return err
}

// printInputs prints what targeting depends on, in a form that --cluster-file takes.
func printInputs(std printer.Stdio, in preview.Input) error {
	var docs []any
	reach := preview.ReachOf(in)
	for _, g := range in.Groups {
		if reached, _ := reach.Includes(g.Namespace); !reached {
			continue
		}
		g.APIVersion, g.Kind = fleet.GroupVersion.String(), "ClusterGroup"
		doc, err := sources.PlainObject(g)
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	for _, m := range in.Mappings {
		m.APIVersion, m.Kind = fleet.GroupVersion.String(), "BundleNamespaceMapping"
		doc, err := sources.PlainObject(m)
		if err != nil {
			return err
		}
		docs = append(docs, doc)
	}
	limits, err := limitDocuments(in)
	if err != nil {
		return err
	}
	docs = append(docs, limits...)
	for _, ns := range in.Namespaces {
		if reached, _ := reach.Includes(ns.Name); !reached {
			continue
		}
		docs = append(docs, map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": ns.Name, "labels": ns.Labels}})
	}
	for _, c := range in.Clusters {
		if reached, _ := reach.Includes(c.Namespace); !reached {
			continue
		}
		c.APIVersion, c.Kind = fleet.GroupVersion.String(), "Cluster"
		doc, err := sources.PlainObject(c)
		if err != nil {
			return err
		}
		doc["status"] = map[string]any{"namespace": c.Status.Namespace, "display": map[string]any{"state": c.Status.Display.State}}
		docs = append(docs, doc)
	}
	return sources.PrintObjects(std.Err, printer.FormatYAML, docs)
}

// limitDocuments returns the limits of the namespaces of the Bundle and its clusters.
func limitDocuments(in preview.Input) ([]any, error) {
	var docs []any
	for _, r := range in.Restrictions {
		r.APIVersion, r.Kind = fleet.GroupVersion.String(), policy.KindRestriction
		doc, err := sources.PlainObject(r)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	for _, p := range in.Policies {
		p.APIVersion, p.Kind = fleet.GroupVersion.String(), policy.KindPolicy
		doc, err := sources.PlainObject(p)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

// objects are all that would be written, in that order. access is the Secret of
// the Bundle's registry, if it has one.
func objects(ctx context.Context, s *sources.Source, r preview.Result, access *corev1.Secret) ([]any, error) {
	contents, err := s.Contents(ctx, r.Content)
	if err != nil {
		return nil, err
	}
	var out []any
	for _, c := range contents {
		out = append(out, c)
	}
	for _, c := range r.Clusters {
		if c.Object == nil {
			continue
		}
		if access != nil {
			secret, err := sources.ReadersCopy(access, c.Object.Namespace)
			if err != nil {
				return nil, err
			}
			out = append(out, secret)
		}
		if c.Secret != nil {
			out = append(out, c.Secret)
		}
		out = append(out, c.Object)
	}
	return out, nil
}

// printAnswer writes the answer: objects, or with -o the whole document. It notes on stderr
// what is not deployed.
func (o Options) printAnswer(std printer.Stdio, b *fleet.Bundle, r preview.Result, objects []any) error {
	doc := Targeting{Document: printer.NewDocument("Targeting"), Bundle: b.Namespace + "/" + b.Name, Content: r.Content, Objects: []map[string]any{}}
	for _, obj := range objects {
		plain, err := sources.PlainObject(obj)
		if err != nil {
			return err
		}
		doc.Objects = append(doc.Objects, plain)
	}
	broken := 0
	for _, c := range r.Clusters {
		doc.Clusters = append(doc.Clusters, targeted(c))
		if c.Broken != "" {
			broken++
		}
	}
	if err := o.answer(std, doc); err != nil {
		return err
	}
	o.explain(std, b, r)
	if broken > 0 {
		return fmt.Errorf("%w: bundle %q cannot be worked out for %s", cli.ErrInput, b.Name, printer.Plural(broken, "cluster"))
	}
	return nil
}

func (o Options) answer(std printer.Stdio, doc Targeting) error {
	if o.Output.IsMachineReadable() {
		return o.Output.Print(std, doc, false)
	}
	docs := make([]any, len(doc.Objects))
	for i, obj := range doc.Objects {
		docs[i] = obj
	}
	return sources.PrintObjects(std.Out, printer.FormatYAML, docs)
}

// warnUnknown says which targets of a Bundle name a cluster or cluster group that
// does not exist. Where mappings lead the Bundle to other workspaces, it says nothing.
func warnUnknown(std printer.Stdio, in preview.Input) {
	if len(in.Mappings) > 0 {
		return
	}
	known := sources.KnownOf(in.Bundle.Namespace, in.Clusters, in.Groups)
	for _, f := range lint.Unknown(&fleetyaml.File{Spec: in.Bundle.Spec}, known) {
		std.Note("warning: %s", f.Message)
		if f.Hint != "" {
			std.Note("    %s", f.Hint)
		}
	}
}

// explain says on stderr what does not stand among the objects.
func (o Options) explain(std printer.Stdio, b *fleet.Bundle, r preview.Result) {
	for _, text := range r.Ignored {
		std.Note("warning: %s", text)
	}
	if len(r.Clusters) == 0 {
		std.Note("there is no cluster in %s", b.Namespace)
	}
	for _, c := range r.Clusters {
		name := c.Name
		if c.Namespace != b.Namespace {
			name = c.Namespace + "/" + c.Name
		}
		switch {
		case c.Broken != "":
			std.Note("error: %s: %s", name, c.Broken)
		case !c.Deploy:
			std.Note("not for %s: %s", name, c.Why)
		case !c.Step.Move:
			std.Note("not now on %s: %s", name, c.Step.Reason)
		}
	}
}

func targeted(c preview.Cluster) TargetedCluster {
	out := TargetedCluster{
		Name: c.Namespace + "/" + c.Name, Deploy: c.Deploy, Reason: c.Why, Target: c.Target, Customizations: c.Customizations,
		DeploymentID: c.ID, Error: c.Broken,
	}
	if c.Deploy && c.Broken == "" {
		out.Released, out.Rollout = c.Step.Move, c.Step.Reason
	}
	return out
}
