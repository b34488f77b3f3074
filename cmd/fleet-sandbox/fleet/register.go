package fleet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/kubeconfig"
	"github.com/fleetworkspace/fleet/cmd/fleet-sandbox/link"
	api "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// tokenName is the ClusterRegistrationToken of all downstream clusters.
const tokenName = "sandbox"

// register brings every cluster of a manager into its fleet: the downstream ones
// with a registration token, the manager's own as the manager prepared it.
func (f *Fleet) register(ctx context.Context, t *Tier) error {
	values, err := f.registrationValues(ctx, t)
	if err != nil {
		return err
	}
	all, starting := errgroup.WithContext(ctx)
	seats := f.seats(t)
	all.Go(func() error { return f.startAgent(starting, seats[0]) })
	for _, s := range seats[1:] {
		all.Go(func() error { return f.registerMember(starting, s, values) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, s := range seats {
		if err := f.waitRegistered(ctx, s); err != nil {
			return err
		}
	}
	if len(t.Downstream) > 0 {
		f.report("register", t.describe(t == f.tiers[0])+": accepted, each with a credential of its own")
	}
	return nil
}

// registrationValues makes the token and returns the values that the manager
// gives out for it: those of the agent's chart.
func (f *Fleet) registrationValues(ctx context.Context, t *Tier) (map[string]any, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: api.NamespaceDefault}}
	if _, err := kube.StoreOf[*corev1.Namespace](t.client).Create(ctx, namespace); err != nil && !kube.IsExists(err) {
		return nil, err
	}
	token := &api.ClusterRegistrationToken{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.NamespaceDefault, Name: tokenName},
		Spec:       api.ClusterRegistrationTokenSpec{TTL: &metav1.Duration{Duration: 24 * time.Hour}},
	}
	if _, err := kube.StoreOf[*api.ClusterRegistrationToken](t.client).Create(ctx, token); err != nil && !kube.IsExists(err) {
		return nil, err
	}
	values := map[string]any{}
	err := f.poll(ctx, "the manager to answer the registration token", func(ctx context.Context) (bool, error) {
		secret, err := kube.StoreOf[*corev1.Secret](t.client).Get(ctx, kube.Key{Namespace: api.NamespaceDefault, Name: tokenName})
		if kube.IsGone(err) {
			return false, nil
		}
		if err != nil || len(secret.Data[api.KeyValues]) == 0 {
			return false, err
		}
		return true, yaml.Unmarshal(secret.Data[api.KeyValues], &values)
	})
	return values, err
}

// registerMember installs the agent's chart in a downstream cluster and starts
// its agent, which does the rest by itself.
//
// The Cluster is made first, with the identity that the agent will give, so
// that it has the name that the user knows it by.
func (f *Fleet) registerMember(ctx context.Context, s seat, values map[string]any) error {
	m, clientID := s.member, "sandbox-"+s.member.Name
	_, err := kube.StoreOf[*api.Cluster](s.tier.client).Create(ctx, &api.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.workspace, Name: s.cluster, Labels: m.Labels},
		Spec:       api.ClusterSpec{ClientID: clientID},
	})
	if err != nil && !kube.IsExists(err) {
		return err
	}
	i := slices.Index(f.Downstream, m) + 1
	m.Link, err = link.New(f.cfg.Ports.Link(i), address(s.tier.Host))
	if err != nil {
		return err
	}
	own := map[string]any{}
	for key, value := range values {
		own[key] = value
	}
	own["apiServerURL"] = fmt.Sprintf("https://127.0.0.1:%d", m.Link.Port())
	own["agentCheckinInterval"] = f.cfg.CheckIn.String()
	own["agentTLSMode"] = "strict"
	own["clientID"] = clientID
	own["debug"] = f.cfg.Debug
	chart := release{
		chart: filepath.Join(f.cfg.Charts, "fleet-agent"), name: "fleet-agent",
		namespace: s.namespace, values: own,
	}
	if err := install(ctx, m.Cluster.REST(), chart); err != nil {
		return fmt.Errorf("%s: %w", m.Name, err)
	}
	return f.startAgent(ctx, s)
}

// startAgent starts the agent of a cluster whose agent namespace is prepared.
func (f *Fleet) startAgent(ctx context.Context, s seat) error {
	m := s.member
	path := filepath.Join(f.dir(m), s.name+".kubeconfig")
	entry := kubeconfig.Entry{Name: m.Name, Server: m.Cluster.URL(), CA: m.Cluster.CA()}
	if err := f.writeCredential(ctx, m, account{s.namespace, agentProgram}, entry, path); err != nil {
		return err
	}
	args := []string{
		"--kubeconfig=" + path,
		"--namespace=" + s.namespace,
		"--checkin-interval=" + f.cfg.CheckIn.String(),
	}
	if m == s.tier.Host {
		args = append(args, "--agent-scope="+s.namespace)
	}
	p, err := f.newProgram(m, s.name, agentProgram, args)
	if err != nil {
		return err
	}
	if s.name == agentProgram {
		m.agent = p
	} else {
		m.local = p
	}
	return p.start()
}

// waitRegistered returns when a cluster's agent has checked in with a
// credential of its own.
func (f *Fleet) waitRegistered(ctx context.Context, s seat) error {
	clusters := kube.StoreOf[*api.Cluster](s.tier.client)
	return f.poll(ctx, fmt.Sprintf("the agent of %s to check in", s), func(ctx context.Context) (bool, error) {
		c, err := clusters.Get(ctx, kube.Key{Namespace: s.workspace, Name: s.cluster})
		if kube.IsGone(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return c.Status.Namespace != "" && !c.Status.Agent.LastSeen.IsZero(), nil
	})
}

// describe is "c1 (env=dev), c2 (env=prod)", and below the first manager with
// whom.
func (t *Tier) describe(top bool) string {
	var texts []string
	for _, m := range t.Downstream {
		text := m.Name
		if labels := LabelText(m.Labels); labels != "-" {
			text += " (" + labels + ")"
		}
		texts = append(texts, text)
	}
	text := strings.Join(texts, ", ")
	if !top {
		text += ", with the manager on " + t.Name()
	}
	return text
}

// LabelText is the labels that a user gave, sorted: "env=dev,region=eu", or
// "-". Labels that Fleet and Kubernetes give are left out.
func LabelText(labels map[string]string) string {
	var pairs []string
	for key, value := range labels {
		if !ownLabel(key) {
			pairs = append(pairs, key+"="+value)
		}
	}
	if len(pairs) == 0 {
		return "-"
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// ownLabel reports whether Fleet or Kubernetes, and not a user, sets a label.
func ownLabel(key string) bool {
	return key == "name" || strings.Contains(key, "cattle.io/") || strings.Contains(key, "kubernetes.io/")
}
