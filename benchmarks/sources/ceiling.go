package sources

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/hack/measure"
	"github.com/fleetworkspace/fleet/pkg/kube"
)

// ceiling measures what the management cluster's API server can do without
// Fleet, on this machine and in this run.
func (b *bench) ceiling(ctx context.Context) error {
	measure.Title("Ceiling: the API server alone, with the fleet at rest beside it")
	namespace := "bench-ceiling"
	client := b.Client()
	_, err := kube.StoreOf[*corev1.Namespace](client).Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	if err != nil {
		return err
	}
	times, err := roundTrips(ctx, client, namespace, 50)
	if err != nil {
		return err
	}
	rate, err := createRate(ctx, client, namespace, 32, 2000)
	if err != nil {
		return err
	}
	measure.Row("what", "figure")
	measure.Row("---", "---:")
	measure.Row("create a ConfigMap until its watch event arrives, median of 50", measure.Milliseconds(measure.Median(times)))
	measure.Row("creates of ConfigMaps with 32 clients", fmt.Sprintf("%.0f/s", rate))
	return nil
}

// roundTrips measures from a create to the event of a watch, one by one.
func roundTrips(ctx context.Context, client *kube.Client, namespace string, n int) ([]time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen := make(chan string, n)
	cache := kube.NewCache[*corev1.ConfigMap](client, kube.Watch{Namespace: namespace, Labels: "bench=watched"}, nil)
	cache.OnChange(func(_, now *corev1.ConfigMap) {
		if now != nil {
			seen <- now.Name
		}
	})
	go func() { _ = cache.Run(ctx) }() // ends with stop
	for !cache.HasSynced() && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
	maps := kube.StoreOf[*corev1.ConfigMap](client)
	var times []time.Duration
	for i := range n {
		name := fmt.Sprintf("watched-%d", i)
		begin := time.Now()
		if _, err := maps.Create(ctx, small(namespace, name, map[string]string{"bench": "watched"})); err != nil {
			return nil, err
		}
		for got := ""; got != name; {
			select {
			case got = <-seen:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		times = append(times, time.Since(begin))
	}
	return times, nil
}

// createRate is how many creates per second so many clients get done.
func createRate(ctx context.Context, client *kube.Client, namespace string, clients, n int) (float64, error) {
	maps := kube.StoreOf[*corev1.ConfigMap](client)
	names := make(chan string, n)
	for i := range n {
		names <- fmt.Sprintf("many-%d", i)
	}
	close(names)
	var (
		all   sync.WaitGroup
		once  sync.Once
		first error
	)
	begin := time.Now()
	for range clients {
		all.Go(func() {
			for name := range names {
				if _, err := maps.Create(ctx, small(namespace, name, nil)); err != nil {
					once.Do(func() { first = err })
					return
				}
			}
		})
	}
	all.Wait()
	return float64(n) / time.Since(begin).Seconds(), first
}

func small(namespace, name string, labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Data:       map[string]string{"value": "x"},
	}
}
