package install

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/cli"
	"github.com/fleetworkspace/fleet/cmd/fleet/internal/client"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/install"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

// A tokenRequest is a registration token to be made.
type tokenRequest struct {
	prefix string // of its name
	single bool   // it is meant for one cluster
	group  string
	ttl    time.Duration // 0: it never ends
}

// madeToken is a registration token, and what the manager has made for it.
type madeToken struct {
	token  *fleet.ClusterRegistrationToken
	values map[string]any // of the agent's chart
}

// TokenOptions are the flags and the arguments of fleet install agent-token.
type TokenOptions struct {
	Reach     ReachOptions
	Group     string
	TTL       string
	TokenOnly bool
}

// agent returns the configuration of an agent for this manager, without its token. What
// an agent could not be given is an error here, before anything is made.
func agent(ctx context.Context, s *client.Session, r ReachOptions) (install.Agent, error) {
	up, err := r.upstream(s.Access)
	if err != nil {
		return install.Agent{}, err
	}
	s.Std.Note("%s, workspace %s", s.Server, s.Scope)
	if doubt := up.Warning(); doubt != "" {
		s.Std.Note("warning: %s", doubt)
	}
	settings, err := settings(ctx, s)
	if err != nil {
		return install.Agent{}, err
	}
	a := install.Agent{Upstream: up, Namespace: s.System, Settings: settings}
	_, err = a.Values()
	return a, err
}

// Token makes a token and prints an agent that has it.
func Token(ctx context.Context, o TokenOptions, ttl time.Duration, s *client.Session) error {
	a, err := agent(ctx, s, o.Reach)
	if err != nil {
		return err
	}
	made, err := makeToken(ctx, s, tokenRequest{prefix: "agent", group: o.Group, ttl: ttl})
	if err != nil {
		return err
	}
	a.Token = made.values
	objects, err := agentObjects(s.Std, a, o.TokenOnly)
	if err != nil {
		return err
	}
	return PrintManifest(s.Std, aboutAgent(s, made, ttl), objects)
}

// aboutAgent returns the lines at the top of a file that say what it is.
func aboutAgent(s *client.Session, made madeToken, ttl time.Duration) []string {
	until := "for ever"
	if ttl > 0 {
		until = "until " + made.token.CreationTimestamp.Add(ttl).UTC().Format(time.RFC3339)
	}
	return []string{
		fmt.Sprintf("Agent of Fleet for workspace %s of %s.", s.Scope, s.Server),
		fmt.Sprintf("It holds registration token %s: whoever has it may ask to join, %s.", made.token.Name, until),
	}
}

// settings are the manager's, as far as the user may read them.
func settings(ctx context.Context, s *client.Session) (registration.Settings, error) {
	cm, err := client.GetAs[corev1.ConfigMap](ctx, s, client.ConfigMaps, s.System, fleet.ConfigMapController)
	if err != nil {
		return registration.Settings{}, err
	}
	if cm == nil {
		s.Std.Note("warning: no configuration of a manager to be seen in namespace %s: the agent is that of this program", s.System)
		return registration.Settings{}, nil
	}
	settings, _, err := registration.ParseSettings(cm.Data[fleet.KeyConfig]) // warnings are the manager's to give
	if err != nil {
		return registration.Settings{}, fmt.Errorf("configmap %s/%s: %w", s.System, cm.Name, err)
	}
	return settings, nil
}

// makeToken makes a token, reports when it ends, and waits for the Secret that the
// manager makes of it.
func makeToken(ctx context.Context, s *client.Session, w tokenRequest) (madeToken, error) {
	t := &fleet.ClusterRegistrationToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Scope, Name: w.prefix + "-" + s.Random(3)},
	}
	if w.ttl > 0 {
		t.Spec.TTL = &metav1.Duration{Duration: w.ttl}
	}
	if w.group != "" {
		if err := groupFor(ctx, s, w.group); err != nil {
			return madeToken{}, err
		}
		t.Annotations = map[string]string{fleet.AnnotationTokenGroup: w.group}
	}
	u, err := Loose(t)
	if err != nil {
		return madeToken{}, err
	}
	made, err := s.API.Create(ctx, cli.MustKind("tokens").Resource(), u)
	if err != nil {
		return madeToken{}, uncreated(s, fmt.Sprintf("make registration token %q", t.Name), err)
	}
	if t, err = client.Convert[fleet.ClusterRegistrationToken](made); err != nil {
		return madeToken{}, err
	}
	reportEnd(s, t.Name, w)
	values, err := tokenValues(ctx, s, t)
	return madeToken{token: t, values: values}, err
}

// reportEnd says when a token ends.
func reportEnd(s *client.Session, name string, w tokenRequest) {
	switch {
	case w.ttl == 0:
		s.Std.Note("token %s never ends; to end it: kubectl -n %s delete clusterregistrationtoken %s", name, s.Scope, name)
	case w.single:
		s.Std.Note("token %s ends at %s, in %s", name, view.Clock(s.Now().Add(w.ttl), s.Now()), view.Age(w.ttl))
	default:
		s.Std.Note("token %s ends at %s, in %s; any number of clusters may join with it until then", name, view.Clock(s.Now().Add(w.ttl), s.Now()), view.Age(w.ttl))
	}
}

// uncreated is an error about something that could not be made, with what to do
// where the workspace is missing.
func uncreated(s *client.Session, what string, err error) error {
	if apierrors.IsNotFound(err) && !client.UnknownResource(err) {
		return fmt.Errorf("%s: there is no workspace %q: kubectl create namespace %s, or another one with -n", what, s.Scope, s.Scope)
	}
	return fmt.Errorf("%s: %w", what, client.DescribeServerError(s.Server, err))
}

// groupFor makes sure that labels lead clusters into a group, and makes a group
// that is not there.
func groupFor(ctx context.Context, s *client.Session, name string) error {
	k := cli.MustKind("groups")
	u, err := s.API.Get(ctx, k.Resource(), s.Scope, name)
	if apierrors.IsNotFound(err) && !client.UnknownResource(err) {
		return makeGroup(ctx, s, name)
	}
	if err != nil {
		return client.DescribeServerError(s.Server, err)
	}
	g, err := client.Convert[fleet.ClusterGroup](u)
	if err != nil {
		return err
	}
	given, err := registration.GroupLabels(g)
	if err != nil {
		return fmt.Errorf("%w: %w", cli.ErrRefused, err)
	}
	if len(given) == 0 {
		s.Std.Note("group %s takes every cluster; those that join by this token get no label for it", name)
		return nil
	}
	s.Std.Note("clusters that join by this token get %s (group %s)", labels.Set(given), name)
	return nil
}

func makeGroup(ctx context.Context, s *client.Session, name string) error {
	g := registration.NewGroup(s.Scope, name)
	given, err := registration.GroupLabels(g)
	if err != nil {
		return err
	}
	u, err := Loose(g)
	if err != nil {
		return err
	}
	if _, err := s.API.Create(ctx, cli.MustKind("groups").Resource(), u); err != nil {
		return uncreated(s, fmt.Sprintf("make group %q", name), err)
	}
	s.Std.Note("group %s made; clusters that join by this token get %s", name, labels.Set(given))
	return nil
}

// errSilent says that the manager makes nothing of a token.
var errSilent = errors.New("the manager has made nothing of the token")

// tokenValues waits for the values that the manager makes for a token.
func tokenValues(ctx context.Context, s *client.Session, t *fleet.ClusterRegistrationToken) (map[string]any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, client.TokenTimeout, errSilent)
	defer cancel()
	for {
		now, err := s.API.Get(ctx, cli.MustKind("tokens").Resource(), t.Namespace, t.Name)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("token %s is gone again: a manager that requires a ttl (registrationTokenTTL.required) deletes tokens without one", t.Name)
		}
		if err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("read registration token %s: %w", t.Name, client.DescribeServerError(s.Server, err))
		}
		if err == nil {
			name, _, _ := unstructured.NestedString(now.Object, "status", "secretName")
			values, err := readValues(ctx, s, t.Namespace, name)
			if values != nil || err != nil {
				return values, err
			}
		}
		if waited := kube.Sleep(ctx, client.TokenPoll); waited == nil {
			continue
		}
		if errors.Is(context.Cause(ctx), errSilent) {
			return nil, fmt.Errorf("%w %s in %s; fleet check tells whether it runs", errSilent, t.Name, view.Age(client.TokenTimeout))
		}
		return nil, context.Cause(ctx)
	}
}

// readValues reads the values in the Secret of a token; nil where there are none
// yet.
func readValues(ctx context.Context, s *client.Session, namespace, name string) (map[string]any, error) {
	if name == "" {
		return nil, nil
	}
	u, err := s.API.Get(ctx, client.Secrets, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the values of token %s: %w", name, client.DescribeServerError(s.Server, err))
	}
	secret, err := client.Convert[corev1.Secret](u)
	if err != nil {
		return nil, err
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(secret.Data[fleet.KeyValues], &values); err != nil {
		return nil, fmt.Errorf("values of token %s: %w", name, errUnreadable)
	}
	return values, nil
}

// errUnreadable replaces a cause that might quote a token.
var errUnreadable = errors.New("they are no YAML")
