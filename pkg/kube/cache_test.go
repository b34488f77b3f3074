package kube

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
)

// A watch that ends while an object is deleted and made again leaves it to the next
// list: handlers hear of both all the same.
func TestOnChangeReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fcache.NewFakeControllerSource()
		informer := cache.NewSharedIndexInformer(server, &corev1.ConfigMap{}, noResync, cache.Indexers{})
		c := newCacheOf[*corev1.ConfigMap]("ConfigMap", informer, nil)
		var got []string
		c.OnChange(func(old, changed *corev1.ConfigMap) {
			uid := func(m *corev1.ConfigMap) string {
				if m == nil {
					return "none"
				}
				return string(m.UID) + m.Data["key"]
			}
			got = append(got, uid(old)+" to "+uid(changed))
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = c.Run(ctx) }()

		config := func(uid, value string) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: types.UID(uid)}, Data: map[string]string{"key": value}}
		}
		server.Add(config("first", ""))
		synctest.Wait()
		server.Modify(config("first", "=1"))
		synctest.Wait()
		server.DeleteDropWatch(config("first", "=1"))
		server.AddDropWatch(config("second", ""))
		server.ResetWatch()
		time.Sleep(time.Minute) // the reflector's backoff
		synctest.Wait()

		want := []string{"none to first", "first to first=1", "first=1 to none", "none to second"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("changes: -want +got\n%s", d)
		}
		cancel()
		server.Shutdown()
	})
}
