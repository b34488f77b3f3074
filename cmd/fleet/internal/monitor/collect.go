package monitor

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	signs "github.com/fleetworkspace/fleet/pkg/controllers/fleetstate"
	"github.com/fleetworkspace/fleet/pkg/plan/monitor"
	"github.com/fleetworkspace/fleet/pkg/plan/redact"
)

// How many objects a request lists.
const (
	pageSize   = 500
	largePage  = 20  // Bundles and Contents have up to 1.5 MiB
	secretPage = 100 // most Secrets are small
)

// readings is how often the version of a list is read.
const readings = 3

// keptEvents is from how many events on only the newest are kept.
const keptEvents = 1000

var (
	pods   = corev1.SchemeGroupVersion.WithResource("pods")
	events = corev1.SchemeGroupVersion.WithResource("events")
)

// A collector reads what a snapshot is made from. A list that fails becomes an entry of Unread.
type collector struct {
	*client.Session
	in monitor.Input
	// clusters are the namespaces of the Clusters that were read.
	clusters map[string]bool
}

// collect reads a fleet. It fails only if the server does not answer, or refuses the user.
func collect(ctx context.Context, s *client.Session) (monitor.Input, error) {
	c := &collector{Session: s, clusters: map[string]bool{}, in: monitor.Input{Reach: map[string]monitor.Reach{}, Narrowed: s.Scope != ""}}
	brake, err := s.GlobalPause(ctx)
	if err != nil {
		return c.in, err
	}
	c.in.Suspended = brake.On
	for _, part := range []func(context.Context) error{
		c.readVersions, c.readGitRepos, c.readBundles, c.readClusters, c.readGroups, c.readDeployments, c.readContents, c.readSecrets, c.readPods, c.readEvents,
	} {
		if err := part(ctx); err != nil {
			return c.in, err
		}
	}
	c.in.Now = s.Now()
	return c.in, nil
}

// failed notes that a list could not be read. It returns what ends a snapshot.
func (c *collector) failed(ctx context.Context, resource, namespace string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case apierrors.IsUnauthorized(err):
		return client.DescribeServerError(c.Server, err)
	}
	cause := monitor.CauseFailure
	if apierrors.IsForbidden(err) {
		cause = monitor.CauseRight
	}
	c.in.Unread = append(c.in.Unread, monitor.Unread{Resource: resource, Namespace: namespace, Cause: cause, Message: redact.Credentials(err.Error())})
	return nil
}

// readKind reads all objects of a kind that the user may list. A list that breaks off covers nothing.
func readKind[T any](ctx context.Context, c *collector, plural, resource string, size int64, keep func(*T)) error {
	queries, err := c.QueriesFor(ctx, cli.MustKind(plural), "")
	if err != nil {
		return c.failed(ctx, resource, c.Scope, err)
	}
	reach := monitor.Reach{}
	for _, q := range queries {
		err := client.VisitOnce(ctx, c.API, q, size, func(u *unstructured.Unstructured) error {
			one, err := client.Convert[T](u)
			if err == nil {
				keep(one)
			}
			return err
		})
		if err != nil {
			if err := c.failed(ctx, resource, q.Namespace, err); err != nil {
				return err
			}
			continue
		}
		reach.All = reach.All || q.Namespace == "" && q.Labels == ""
		reach.Namespaces = append(reach.Namespaces, q.Namespace)
	}
	if c.Scope == "" && !reach.All && len(reach.Namespaces) > 0 {
		c.in.Unread = append(c.in.Unread, monitor.Unread{
			Resource: resource, Cause: monitor.CauseScope, Message: "only those of " + strings.Join(reach.Namespaces, ", ") + ": this user may not list all namespaces",
		})
	}
	if len(reach.Namespaces) > 0 {
		c.in.Reach[resource] = reach
	}
	return nil
}

// readVersions reads the version of a list several times. It fails if the server does not answer, or has
// no Bundles.
func (c *collector) readVersions(ctx context.Context) error {
	for range readings {
		var answer apierrors.APIStatus
		list, err := c.API.List(ctx, client.Query{Resource: cli.MustKind("bundles").Resource(), Namespace: c.Scope}, client.Page{Limit: 1})
		if apierrors.IsForbidden(err) {
			return nil // the list of Bundles has the entry
		}
		if err != nil && (!errors.As(err, &answer) || client.UnknownResource(err)) {
			return client.DescribeServerError(c.Server, err)
		}
		if err != nil {
			return c.failed(ctx, "apiConsistency", c.Scope, err)
		}
		c.in.Versions = append(c.in.Versions, list.GetResourceVersion())
	}
	return nil
}

func (c *collector) readGitRepos(ctx context.Context) error {
	return readKind(ctx, c, "repos", monitor.GitRepos, pageSize, func(r *fleet.GitRepo) { c.in.GitRepos = append(c.in.GitRepos, r) })
}

func (c *collector) readBundles(ctx context.Context) error {
	return readKind(ctx, c, "bundles", monitor.Bundles, largePage, func(b *fleet.Bundle) {
		bytes := monitor.BundleBytes(b)
		b.Spec.Resources = nil
		c.in.Bundles = append(c.in.Bundles, monitor.BundleObject{Bundle: b, Bytes: bytes})
	})
}

func (c *collector) readClusters(ctx context.Context) error {
	return readKind(ctx, c, "clusters", monitor.Clusters, pageSize, func(one *fleet.Cluster) {
		sign := signs.ReadHeartbeat(one)
		if sign.Time.IsZero() {
			sign.Time = one.Status.Agent.LastSeen.Time
		}
		c.clusters[one.Status.Namespace] = true
		c.in.Clusters = append(c.in.Clusters, monitor.ClusterObject{Cluster: one, LastSeen: sign.Time, Protocol: sign.Protocol})
	})
}

func (c *collector) readGroups(ctx context.Context) error {
	return readKind(ctx, c, "groups", monitor.Groups, pageSize, func(g *fleet.ClusterGroup) { c.in.Groups = append(c.in.Groups, g) })
}

// readDeployments reads the BundleDeployments. With -n they are in the namespaces of the workspace's
// clusters.
func (c *collector) readDeployments(ctx context.Context) error {
	err := readKind(ctx, c, "deployments", monitor.Deployments, pageSize, func(bd *fleet.BundleDeployment) {
		bd.Status.Resources = nil
		c.in.Deployments = append(c.in.Deployments, bd)
	})
	reach, ok := c.in.Reach[monitor.Deployments]
	if ok && c.Scope != "" && slices.Contains(reach.Namespaces, "") {
		reach.Namespaces = nil
		for ns := range c.clusters {
			reach.Namespaces = append(reach.Namespaces, ns)
		}
		c.in.Reach[monitor.Deployments] = reach
	}
	return err
}

func (c *collector) readContents(ctx context.Context) error {
	q := client.Query{Resource: fleet.GroupVersion.WithResource(monitor.Contents)}
	err := client.VisitOnce(ctx, c.API, q, largePage, func(u *unstructured.Unstructured) error {
		one, err := client.Convert[fleet.Content](u)
		if err == nil {
			c.in.Contents = append(c.in.Contents, monitor.ContentObject{ObjectMeta: one.ObjectMeta, Bytes: int64(len(one.Content))})
		}
		return err
	})
	if err != nil {
		return c.failed(ctx, monitor.Contents, "", err)
	}
	c.in.Reach[monitor.Contents] = monitor.Reach{All: true}
	return nil
}

// readSecrets reads the Secrets that Fleet wrote for Bundles and BundleDeployments, and keeps their
// metadata. With -n a user who may not list all namespaces gets those of the workspace.
func (c *collector) readSecrets(ctx context.Context) error {
	reach := monitor.Reach{All: true}
	for _, secretType := range monitor.SecretTypes() {
		q := client.Query{Resource: client.Secrets, Fields: "type=" + secretType}
		err := c.secretsOf(ctx, q)
		if apierrors.IsForbidden(err) && c.Scope != "" {
			reach, q.Namespace = monitor.Reach{Namespaces: []string{c.Scope}}, c.Scope
			err = c.secretsOf(ctx, q)
		}
		if err != nil {
			return c.failed(ctx, monitor.Secrets, q.Namespace, err)
		}
	}
	c.in.Reach[monitor.Secrets] = reach
	return nil
}

func (c *collector) secretsOf(ctx context.Context, q client.Query) error {
	return client.VisitOnce(ctx, c.API, q, secretPage, func(u *unstructured.Unstructured) error {
		if ns := u.GetNamespace(); c.Scope != "" && ns != c.Scope && !c.clusters[ns] {
			return nil
		}
		one, err := client.Convert[corev1.Secret](u)
		if err == nil {
			c.in.Secrets = append(c.in.Secrets, monitor.SecretOf(one))
		}
		return err
	})
}

func (c *collector) readPods(ctx context.Context) error {
	err := client.VisitOnce(ctx, c.API, client.Query{Resource: pods, Namespace: c.System}, pageSize, func(u *unstructured.Unstructured) error {
		one, err := client.Convert[corev1.Pod](u)
		if err == nil {
			c.in.Pods = append(c.in.Pods, one)
		}
		return err
	})
	if err != nil {
		return c.failed(ctx, "pods", c.System, err)
	}
	return nil
}

// readEvents reads the newest events about objects of Fleet.
func (c *collector) readEvents(ctx context.Context) error {
	q := client.Query{Resource: events, Namespace: c.Scope, Fields: "involvedObject.apiVersion=" + fleet.GroupVersion.String()}
	err := client.VisitOnce(ctx, c.API, q, pageSize, func(u *unstructured.Unstructured) error {
		one, err := client.Convert[corev1.Event](u)
		if err != nil {
			return err
		}
		if c.in.Events = append(c.in.Events, one); len(c.in.Events) >= keptEvents {
			c.in.Events = slices.Clone(monitor.NewestEvents(c.in.Events))
		}
		return nil
	})
	if err != nil {
		return c.failed(ctx, "events", c.Scope, err)
	}
	return nil
}
