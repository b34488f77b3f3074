package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
	"github.com/fleetworkspace/fleet/pkg/plan/version"
)

// maxNamespaces is of how many namespaces there are events, and with --with-secrets Secrets.
const maxNamespaces = 2000

// largePage is how many objects a page of large objects has at most.
const largePage = 20

// large are the resources whose objects may have a MiB each.
var large = map[string]bool{"bundles": true, "contents": true, "secrets": true}

// dumper writes one archive.
type dumper struct {
	o   Options
	s   *client.Session
	raw rawReader
	to  *archive
	m   manifest

	workspaces map[string]bool // with objects of Fleet
	clusters   map[string]bool // the clusters' namespaces
	contents   map[string]bool // that the BundleDeployments use; only where the dump is narrowed
	secrets    map[string]bool // that the filtered objects name
	owners     map[string]bool // "<plural> <name>" of what the Bundle of --bundle comes from
	bundles    []string        // that are dumped, with a filter
	failures   map[string]int  // of each part that is missing
}

// Run writes the archive. It is no error if parts of it cannot be read: they are named in the archive, and
// stderr says how many they are.
func Run(ctx context.Context, o Options, s *client.Session) error {
	if err := check(ctx, o, s); err != nil {
		return err
	}
	to, err := createArchive(o.Path, s.Now())
	if err != nil {
		return err
	}
	defer to.abandon()
	d := &dumper{
		o: o, s: s, to: to, raw: newRawReader(s.Rest),
		workspaces: map[string]bool{}, clusters: map[string]bool{}, contents: map[string]bool{}, secrets: map[string]bool{}, owners: map[string]bool{}, failures: map[string]int{},
	}
	d.begin(ctx)
	for _, part := range []func(context.Context) error{
		d.fleetObjects, d.deployments, d.contentObjects, d.secretObjects, d.system, d.events, d.metrics,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	if err := d.addYAML("manifest", "manifest", d.m); err != nil {
		return err
	}
	if err := to.finish(); err != nil {
		return err
	}
	s.Std.Note("%s has %d files", o.Path, to.files)
	if d.m.Missing > 0 {
		s.Std.Note("warning: %d parts are missing or not complete; the file manifest in the archive says which, and why", d.m.Missing)
	}
	return nil
}

// check is an error where an archive would be useless: the server does not answer or does not accept the user,
// or it does not have the workspace or the object that the user names.
func check(ctx context.Context, o Options, s *client.Session) error {
	_, err := s.API.List(ctx, client.Query{Resource: resource("gitrepos"), Namespace: o.Namespace}, client.Page{Limit: 1})
	var answer apierrors.APIStatus
	if err != nil && (!errors.As(err, &answer) || apierrors.IsUnauthorized(err)) {
		return client.DescribeServerError(s.Server, err)
	}
	if err := s.NamespaceError(ctx); err != nil {
		return err
	}
	plural, name := o.filter()
	if name == "" {
		return nil
	}
	if _, err := s.API.Get(ctx, resource(plural), o.Namespace, name); apierrors.IsNotFound(err) && !client.UnknownResource(err) {
		return fmt.Errorf("no %s %q in namespace %s", strings.TrimSuffix(plural, "s"), name, o.Namespace)
	}
	return nil
}

// filter is the resource and the name of the object to which the dump is limited; empty without one.
func (o *Options) filter() (plural, name string) {
	switch {
	case o.GitRepo != "":
		return "gitrepos", o.GitRepo
	case o.Bundle != "":
		return "bundles", o.Bundle
	case o.HelmOp != "":
		return "helmops", o.HelmOp
	}
	return "", ""
}

func resource(plural string) schema.GroupVersionResource {
	return fleet.GroupVersion.WithResource(plural)
}

// begin fills in what the manifest says of the whole dump.
func (d *dumper) begin(ctx context.Context) {
	d.m = manifest{
		Created: d.s.Now().UTC().Format(time.RFC3339), Server: redact.Credentials(d.s.Server), Namespace: d.o.Namespace,
		Versions: versions{CLI: version.Version, Commit: version.Commit}, Files: map[string]int{}, LeftOut: []leftOut{},
	}
	if manager, err := d.s.Manager(ctx); err == nil {
		d.m.Versions.Manager = manager.Version
	}
	if d.o.Namespace != "" {
		d.m.leave("other namespaces", causeFilter, "only workspace "+d.o.Namespace+"; -A takes all")
	}
	if plural, name := d.o.filter(); name != "" {
		d.m.Filter = plural + "/" + name
		d.m.leave("other objects", causeFilter, "only what belongs to "+d.m.Filter)
	}
	d.m.leave("values", causeSecret, "Helm values, template values, credentials in URLs, private keys, tokens, values of environment variables that may be credentials, and copies of objects in annotations")
	if d.o.withSecrets() {
		d.m.leave("data of secrets", causeSecret, "the archive has names, labels, types and sizes only")
	} else {
		d.m.leave("secrets", causeFilter, "--with-secrets-metadata takes their metadata")
	}
	if d.o.Secrets {
		d.s.Std.Note("warning: --with-secrets leaves out the data of Secrets, because archives are passed on; the archive has names, labels, types and sizes")
	}
	switch {
	case d.o.Content:
		d.s.Std.Note("warning: the archive has all manifests of Bundles and Contents as they are, with any credential that was committed in them")
	case d.o.ContentMetadata:
		d.m.leave("content", causeFilter, "files of Bundles and data of Contents; --with-content takes them")
	default:
		d.m.leave("contents", causeFilter, "Contents and files of Bundles; --with-content or --with-content-metadata takes them")
	}
}

// fleetObjects writes the objects of Fleet in the workspaces.
func (d *dumper) fleetObjects(ctx context.Context) error {
	queries := []client.Query{}
	for _, plural := range []string{
		"bundles", "gitrepos", "helmops", "clusters", "clustergroups", "bundlenamespacemappings", "gitreporestrictions",
		"policies", "schedules", "imagescans", "clusterregistrations", "clusterregistrationtokens",
	} {
		queries = append(queries, client.Query{Resource: resource(plural), Namespace: d.o.Namespace})
	}
	for _, q := range queries {
		q, ok := d.narrow(q)
		if !ok {
			continue
		}
		err := d.dumpList(ctx, q, func(o *unstructured.Unstructured) (any, error) {
			if !d.selected(q.Resource.Resource, o) {
				return nil, nil
			}
			d.note(q.Resource.Resource, o)
			return d.redacted(o), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// narrow adds to a query what the filter says; ok is false if nothing is selected.
func (d *dumper) narrow(q client.Query) (_ client.Query, ok bool) {
	plural, name := d.o.filter()
	switch at := q.Resource.Resource; {
	case name == "" || !slices.Contains([]string{"bundles", "gitrepos", "helmops", "imagescans"}, at):
	case at == plural:
		q.Fields = client.NameField(name)
	case at == "bundles" && plural == "gitrepos":
		q.Labels = fleet.LabelRepoName + "=" + name
	case at == "bundles" && plural == "helmops":
		q.Labels = fleet.LabelHelmOpName + "=" + name
	case at == "imagescans" && plural == "gitrepos": // selected by their spec
	case plural == "bundles" && at != "imagescans":
		for owner := range d.owners {
			if of, name, _ := strings.Cut(owner, " "); of == at {
				q.Fields = client.NameField(name)
				return q, true
			}
		}
		return q, false
	default:
		return q, false
	}
	return q, true
}

// selected reports whether an object is part of the dump, where a query cannot say it.
func (d *dumper) selected(plural string, o *unstructured.Unstructured) bool {
	if plural != "imagescans" || d.o.GitRepo == "" {
		return true
	}
	repo, _, _ := unstructured.NestedString(o.Object, "spec", "gitrepoName")
	return repo == d.o.GitRepo
}

// note keeps of an object what later parts of the dump depend on.
func (d *dumper) note(plural string, o *unstructured.Unstructured) {
	if len(d.workspaces) <= maxNamespaces {
		d.workspaces[o.GetNamespace()] = true
	}
	if plural == "clusters" {
		if ns, _, _ := unstructured.NestedString(o.Object, "status", "namespace"); ns != "" && len(d.clusters) <= maxNamespaces {
			d.clusters[ns] = true
		}
	}
	if !d.o.filtered() {
		return
	}
	if slices.Contains([]string{"gitrepos", "helmops", "bundles"}, plural) {
		secretNames(o.Object, d.o.Namespace, d.secrets)
	}
	if plural == "bundles" {
		d.bundles = append(d.bundles, o.GetName())
		for label, of := range map[string]string{fleet.LabelRepoName: "gitrepos", fleet.LabelHelmOpName: "helmops"} {
			if name := o.GetLabels()[label]; name != "" {
				d.owners[of+" "+name] = true
			}
		}
	}
}

// deployments writes the BundleDeployments of the workspace or of the filtered Bundles, in all namespaces of
// clusters.
func (d *dumper) deployments(ctx context.Context) error {
	selectors := []string{""}
	if d.o.Namespace != "" {
		selectors = []string{fleet.LabelBundleNamespace + "=" + d.o.Namespace}
	}
	if d.o.filtered() {
		of := selectors[0]
		selectors = nil
		for _, name := range d.bundles {
			selectors = append(selectors, of+","+fleet.LabelBundleName+"="+name)
		}
	}
	for _, labels := range selectors {
		err := d.dumpList(ctx, client.Query{Resource: resource("bundledeployments"), Labels: labels}, func(o *unstructured.Unstructured) (any, error) {
			if name := o.GetLabels()[fleet.LabelContentName]; name != "" && d.o.Namespace != "" && d.o.withContents() {
				d.contents[name] = true
			}
			return d.redacted(o), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// contentObjects writes the Contents: all of them, or those that the BundleDeployments of the dump use.
func (d *dumper) contentObjects(ctx context.Context) error {
	r := resource("contents")
	write := func(o *unstructured.Unstructured) (any, error) { return d.redacted(o), nil }
	switch {
	case !d.o.withContents():
		return nil
	case d.o.Namespace == "":
		return d.dumpList(ctx, client.Query{Resource: r}, write)
	}
	for _, name := range slices.Sorted(maps.Keys(d.contents)) {
		if err := d.dumpOne(ctx, r, "", name, write); err != nil {
			return err
		}
		if err := d.dumpList(ctx, client.Query{Resource: r, Labels: fleet.LabelContentOf + "=" + name}, write); err != nil {
			return err
		}
	}
	return nil
}

// secretObjects writes the metadata of the Secrets that the filtered objects name, or of all in the workspaces
// and the namespaces of their clusters, and with -A in the manager's.
func (d *dumper) secretObjects(ctx context.Context) error {
	write := func(o *unstructured.Unstructured) (any, error) { return secretMetadata(o), nil }
	switch {
	case !d.o.withSecrets():
		return nil
	case d.o.filtered():
		for _, name := range slices.Sorted(maps.Keys(d.secrets)) {
			if err := d.dumpOne(ctx, client.Secrets, d.o.Namespace, name, write); err != nil {
				return err
			}
		}
		return nil
	}
	spaces := slices.Concat([]string{d.o.Namespace}, slices.Collect(maps.Keys(d.workspaces)), slices.Collect(maps.Keys(d.clusters)))
	if d.o.AllNamespaces {
		spaces = append(spaces, d.systemNamespaces()...)
	}
	return d.eachNamespace("secrets", spaces, func(ns string) error {
		return d.dumpList(ctx, client.Query{Resource: client.Secrets, Namespace: ns}, write)
	})
}

// systemNamespaces are where the manager and the agent of its own cluster run.
func (d *dumper) systemNamespaces() []string {
	return slices.Compact([]string{d.s.System, fleet.NamespaceLocalAgent})
}

// system writes Deployments, Leases and Pods of the system namespaces, and the logs of the Pods.
func (d *dumper) system(ctx context.Context) error {
	for _, ns := range d.systemNamespaces() {
		for _, r := range []schema.GroupVersionResource{appsv1.SchemeGroupVersion.WithResource("deployments"), client.Leases, pods} {
			err := d.dumpList(ctx, client.Query{Resource: r, Namespace: ns}, func(o *unstructured.Unstructured) (any, error) {
				if r == pods {
					if err := d.logs(ctx, o); err != nil {
						return nil, err
					}
				}
				return d.redacted(o), nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	pods     = corev1.SchemeGroupVersion.WithResource("pods")
	services = corev1.SchemeGroupVersion.WithResource("services")
	events   = corev1.SchemeGroupVersion.WithResource("events")
)

// events writes a file of events for each namespace: those of the system, the workspaces and their clusters.
func (d *dumper) events(ctx context.Context) error {
	spaces := slices.Concat([]string{"default", "kube-system", d.o.Namespace}, d.systemNamespaces(),
		slices.Collect(maps.Keys(d.workspaces)), slices.Collect(maps.Keys(d.clusters)))
	return d.eachNamespace("events", spaces, func(ns string) error {
		q := client.Query{Resource: events, Namespace: ns}
		err := d.to.addSpooled(fileName("events", ns), func(w io.Writer) error {
			return d.visit(ctx, q, func(o *unstructured.Unstructured) error {
				text, err := yaml.Marshal(d.redacted(o))
				if err == nil {
					_, err = fmt.Fprintf(w, "---\n%s", text)
				}
				if err != nil {
					return &archiveError{err}
				}
				return nil
			})
		})
		if err == nil {
			d.m.Files["events"]++
			return nil
		}
		return d.missing(ctx, err, "events", ns)
	})
}

// eachNamespace does something for each namespace once, in order, for so many that the dump ends.
func (d *dumper) eachNamespace(what string, spaces []string, do func(ns string) error) error {
	slices.Sort(spaces)
	spaces = slices.DeleteFunc(slices.Compact(spaces), func(ns string) bool { return ns == "" })
	if len(spaces) > maxNamespaces {
		d.m.miss(what, causeLimit, fmt.Sprintf("only those of %d namespaces", maxNamespaces))
		spaces = spaces[:maxNamespaces]
	}
	for _, ns := range spaces {
		if err := do(ns); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) redacted(o *unstructured.Unstructured) any {
	redactObject(o, d.o.Content)
	return o.Object
}
