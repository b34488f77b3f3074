package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// pollInterval is how often a starting cluster is asked whether it is ready.
const pollInterval = 100 * time.Millisecond

// waitServing returns when the API server answers that it is ready.
func (c *Cluster) waitServing(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return fmt.Errorf("make client of %s: %w", c.cfg.Name, err)
	}
	return c.poll(ctx, "the API server of "+c.cfg.Name, func(ctx context.Context) bool {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
	})
}

// waitAccounts returns when pods can be made: the controller manager has made
// the default service account.
func (c *Cluster) waitAccounts(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return fmt.Errorf("make client of %s: %w", c.cfg.Name, err)
	}
	return c.poll(ctx, "service accounts of "+c.cfg.Name, func(ctx context.Context) bool {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
}

// waitUsable returns when pods can be made and will run: the service accounts
// are there, and the node is Ready.
func (c *Cluster) waitUsable(ctx context.Context) error {
	if err := c.waitAccounts(ctx); err != nil {
		return err
	}
	return c.WaitNode(ctx)
}

// WaitNode returns when the cluster's node is Ready.
func (c *Cluster) WaitNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return fmt.Errorf("make client of %s: %w", c.cfg.Name, err)
	}
	return c.poll(ctx, "the node of "+c.cfg.Name, func(ctx context.Context) bool {
		node, err := client.CoreV1().Nodes().Get(ctx, c.nodeName(), metav1.GetOptions{})
		return err == nil && nodeReady(node)
	})
}

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (c *Cluster) nodeName() string { return c.cfg.nodeName() }

func (c Config) nodeName() string { return c.Name + "-node" }

// addNode registers the one node, which kwok then keeps alive.
func (c *Cluster) addNode(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.rest)
	if err != nil {
		return fmt.Errorf("make client of %s: %w", c.cfg.Name, err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   c.nodeName(),
		Labels: map[string]string{corev1.LabelHostname: c.nodeName(), corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
	}}
	_, err = client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("add node to %s: %w", c.cfg.Name, err)
	}
	return nil
}

// poll asks ready again and again until it says yes or ctx ends; the error is
// the cause of that end.
func (c *Cluster) poll(ctx context.Context, what string, ready func(context.Context) bool) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if ready(ctx) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}
