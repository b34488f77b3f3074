package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/fleetworkspace/fleet/cmd/fleet/internal/printer"
	fleet "github.com/fleetworkspace/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
	"github.com/fleetworkspace/fleet/pkg/kube"
	"github.com/fleetworkspace/fleet/pkg/plan/install"
	"github.com/fleetworkspace/fleet/pkg/plan/registration"
	"github.com/fleetworkspace/fleet/pkg/plan/view"
)

const installTokenText = `Makes a registration token in the workspace and prints what to apply to a new cluster, so that it joins:

  fleet install agent-token -n fleet-default > agent.yaml
  kubectl --context new apply -f agent.yaml

Any number of clusters may join with it until it ends, after a week unless --ttl says otherwise. Whoever has the file may ask to join: treat
it as a password. Address and certificate authority of the manager's API server are those of the kubeconfig.

With --group the manager gives clusters that join by this token the labels that the ClusterGroup's matchLabels ask for. The agent has no say
in it. A group that does not exist is made.`

// How long the manager may take to make what stands behind a token, and how
// often it is asked.
const (
	tokenTimeout = 30 * time.Second
	tokenPoll    = 200 * time.Millisecond
)

// A tokenWish is a registration token to be made.
type tokenWish struct {
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

type agentTokenOptions struct {
	reach     reachOptions
	group     string
	ttl       string
	tokenOnly bool
}

func newInstallTokenCommand(g *globals, std printer.Stdio) *cobra.Command {
	var o agentTokenOptions
	cmd := &cobra.Command{
		Use: "agent-token", Short: "Make a token and print an agent", Long: installTokenText, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ttl, err := install.ParseLifetime(o.ttl)
			if err != nil {
				return fmt.Errorf("--ttl: %w", err)
			}
			if err := g.writing(cmd); err != nil {
				return err
			}
			s, err := g.connectWithin(cmd.Context(), std, false)
			if err != nil {
				return err
			}
			return runInstallToken(cmd.Context(), o, ttl, s)
		},
	}
	fs := cmd.Flags()
	o.reach.addFlags(fs)
	fs.StringVarP(&o.group, "group", "g", "", "`name` of the ClusterGroup that clusters which join by this token belong to")
	fs.StringVarP(&o.ttl, "ttl", "t", "1w", "`time` until the token ends, such as 7d, 1w or 12h; 0: it never ends")
	fs.BoolVar(&o.tokenOnly, "token-only", false, "print the Secret with the token and nothing else")
	return cmd
}

// agent returns the configuration of an agent for this manager, without its token. What
// an agent could not be given is an error here, before anything is made.
func (s *session) agent(ctx context.Context, r reachOptions) (install.Agent, error) {
	up, err := r.upstream(s.access)
	if err != nil {
		return install.Agent{}, err
	}
	s.std.Note("%s, workspace %s", s.server, s.scope)
	if doubt := up.Doubt(); doubt != "" {
		s.std.Note("warning: %s", doubt)
	}
	settings, err := s.settings(ctx)
	if err != nil {
		return install.Agent{}, err
	}
	a := install.Agent{Upstream: up, Namespace: s.system, Settings: settings}
	_, err = a.Values()
	return a, err
}

// runInstallToken makes a token and prints an agent that has it.
func runInstallToken(ctx context.Context, o agentTokenOptions, ttl time.Duration, s *session) error {
	a, err := s.agent(ctx, o.reach)
	if err != nil {
		return err
	}
	made, err := s.makeToken(ctx, tokenWish{prefix: "agent", group: o.group, ttl: ttl})
	if err != nil {
		return err
	}
	a.Token = made.values
	objects, err := agentObjects(s.std, a, o.tokenOnly)
	if err != nil {
		return err
	}
	return printManifest(s.std, aboutAgent(s, made, ttl), objects)
}

// aboutAgent returns the lines at the top of a file that say what it is.
func aboutAgent(s *session, made madeToken, ttl time.Duration) []string {
	until := "for ever"
	if ttl > 0 {
		until = "until " + made.token.CreationTimestamp.Add(ttl).UTC().Format(time.RFC3339)
	}
	return []string{
		fmt.Sprintf("Agent of Fleet for workspace %s of %s.", s.scope, s.server),
		fmt.Sprintf("It holds registration token %s: whoever has it may ask to join, %s.", made.token.Name, until),
	}
}

// settings are the manager's, as far as the user may read them.
func (s *session) settings(ctx context.Context) (registration.Settings, error) {
	cm, err := getAs[corev1.ConfigMap](ctx, s, configMaps, s.system, fleet.ConfigMapController)
	if err != nil {
		return registration.Settings{}, err
	}
	if cm == nil {
		s.std.Note("warning: no configuration of a manager to be seen in namespace %s: the agent is that of this program", s.system)
		return registration.Settings{}, nil
	}
	settings, _, err := registration.ParseSettings(cm.Data[fleet.KeyConfig]) // warnings are the manager's to give
	if err != nil {
		return registration.Settings{}, fmt.Errorf("configmap %s/%s: %w", s.system, cm.Name, err)
	}
	return settings, nil
}

// makeToken makes a token, reports when it ends, and waits for the Secret that the
// manager makes of it.
func (s *session) makeToken(ctx context.Context, w tokenWish) (madeToken, error) {
	t := &fleet.ClusterRegistrationToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: fleet.GroupVersion.String(), Kind: "ClusterRegistrationToken"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.scope, Name: w.prefix + "-" + s.random(3)},
	}
	if w.ttl > 0 {
		t.Spec.TTL = &metav1.Duration{Duration: w.ttl}
	}
	if w.group != "" {
		if err := s.groupFor(ctx, w.group); err != nil {
			return madeToken{}, err
		}
		t.Annotations = map[string]string{fleet.AnnotationTokenGroup: w.group}
	}
	u, err := loose(t)
	if err != nil {
		return madeToken{}, err
	}
	made, err := s.api.Create(ctx, mustKind("tokens").resource(), u)
	if err != nil {
		return madeToken{}, s.uncreated(fmt.Sprintf("make registration token %q", t.Name), err)
	}
	if t, err = as[fleet.ClusterRegistrationToken](made); err != nil {
		return madeToken{}, err
	}
	s.reportEnd(t.Name, w)
	values, err := s.tokenValues(ctx, t)
	return madeToken{token: t, values: values}, err
}

// reportEnd says when a token ends.
func (s *session) reportEnd(name string, w tokenWish) {
	switch {
	case w.ttl == 0:
		s.std.Note("token %s never ends; to end it: kubectl -n %s delete clusterregistrationtoken %s", name, s.scope, name)
	case w.single:
		s.std.Note("token %s ends at %s, in %s", name, view.Clock(s.now().Add(w.ttl), s.now()), view.Age(w.ttl))
	default:
		s.std.Note("token %s ends at %s, in %s; any number of clusters may join with it until then", name, view.Clock(s.now().Add(w.ttl), s.now()), view.Age(w.ttl))
	}
}

// uncreated is an error about something that could not be made, with what to do
// where the workspace is missing.
func (s *session) uncreated(what string, err error) error {
	if apierrors.IsNotFound(err) && !unknownResource(err) {
		return fmt.Errorf("%s: there is no workspace %q: kubectl create namespace %s, or another one with -n", what, s.scope, s.scope)
	}
	return fmt.Errorf("%s: %w", what, reached(s.server, err))
}

// groupFor makes sure that labels lead clusters into a group, and makes a group
// that is not there.
func (s *session) groupFor(ctx context.Context, name string) error {
	k := mustKind("groups")
	u, err := s.api.Get(ctx, k.resource(), s.scope, name)
	if apierrors.IsNotFound(err) && !unknownResource(err) {
		return s.makeGroup(ctx, name)
	}
	if err != nil {
		return reached(s.server, err)
	}
	g, err := as[fleet.ClusterGroup](u)
	if err != nil {
		return err
	}
	given, err := registration.GroupLabels(g)
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if len(given) == 0 {
		s.std.Note("group %s takes every cluster; those that join by this token get no label for it", name)
		return nil
	}
	s.std.Note("clusters that join by this token get %s (group %s)", labels.Set(given), name)
	return nil
}

func (s *session) makeGroup(ctx context.Context, name string) error {
	g := registration.NewGroup(s.scope, name)
	given, err := registration.GroupLabels(g)
	if err != nil {
		return err
	}
	u, err := loose(g)
	if err != nil {
		return err
	}
	if _, err := s.api.Create(ctx, mustKind("groups").resource(), u); err != nil {
		return s.uncreated(fmt.Sprintf("make group %q", name), err)
	}
	s.std.Note("group %s made; clusters that join by this token get %s", name, labels.Set(given))
	return nil
}

// errSilent says that the manager makes nothing of a token.
var errSilent = errors.New("the manager has made nothing of the token")

// tokenValues waits for the values that the manager makes for a token.
func (s *session) tokenValues(ctx context.Context, t *fleet.ClusterRegistrationToken) (map[string]any, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, tokenTimeout, errSilent)
	defer cancel()
	for {
		now, err := s.api.Get(ctx, mustKind("tokens").resource(), t.Namespace, t.Name)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("token %s is gone again: a manager that requires a ttl (registrationTokenTTL.required) deletes tokens without one", t.Name)
		}
		if err != nil && ctx.Err() == nil {
			return nil, fmt.Errorf("read registration token %s: %w", t.Name, reached(s.server, err))
		}
		if err == nil {
			name, _, _ := unstructured.NestedString(now.Object, "status", "secretName")
			values, err := s.readValues(ctx, t.Namespace, name)
			if values != nil || err != nil {
				return values, err
			}
		}
		if waited := kube.Sleep(ctx, tokenPoll); waited == nil {
			continue
		}
		if errors.Is(context.Cause(ctx), errSilent) {
			return nil, fmt.Errorf("%w %s in %s; fleet check tells whether it runs", errSilent, t.Name, view.Age(tokenTimeout))
		}
		return nil, context.Cause(ctx)
	}
}

// readValues reads the values in the Secret of a token; nil where there are none
// yet.
func (s *session) readValues(ctx context.Context, namespace, name string) (map[string]any, error) {
	if name == "" {
		return nil, nil
	}
	u, err := s.api.Get(ctx, secrets, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the values of token %s: %w", name, reached(s.server, err))
	}
	secret, err := as[corev1.Secret](u)
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

// randomWord returns 2n hex digits that cannot be guessed.
func randomWord(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
