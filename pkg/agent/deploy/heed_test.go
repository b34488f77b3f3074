package deploy

import (
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetworkspace/fleet/pkg/agent/watch"
	"github.com/fleetworkspace/fleet/pkg/plan/drift"
)

// Of the changes of an object those are news that came after the last look and may
// concern what counts.
func TestNews(t *testing.T) {
	meta := func(version int, annotation string, wrote ...int) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.Itoa(version), Annotations: map[string]string{"theirs": annotation},
		}}
		for i, second := range wrote {
			at := metav1.NewTime(time.Unix(int64(second), 0))
			o.ManagedFields = append(o.ManagedFields, metav1.ManagedFieldsEntry{
				Manager: strconv.Itoa(i), Operation: metav1.ManagedFieldsOperationUpdate, Time: &at,
				FieldsV1: metav1.NewFieldsV1([]string{`{"f:data":{}}`, `{"f:metadata":{}}`}[i]),
			})
		}
		return o
	}
	cases := map[string]struct {
		why  string
		seen *metav1.PartialObjectMetadata // nil: it was missing
		now  *metav1.PartialObjectMetadata // nil: it is gone
		want bool
	}{
		"Newer":      {why: "somebody wrote data", seen: meta(10, "", 1), now: meta(11, "", 2), want: true},
		"Seen":       {why: "the list that a watch begins with", seen: meta(10, "", 1), now: meta(10, "", 1)},
		"Older":      {why: "news that arrived late", seen: meta(10, "", 2), now: meta(9, "", 1)},
		"Annotation": {why: "an annotation that nobody wants", seen: meta(10, "", 1), now: meta(11, "x", 1, 5)},
		"Gone":       {why: "it was there", seen: meta(10, "", 1), want: true},
		"StillGone":  {why: "it was missing before"},
		"Back":       {why: "it is there again", now: meta(12, "", 1), want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := &seen{}
			if c.seen != nil {
				s.mark = drift.MarkOf(c.seen, s.keys)
			}
			if got := s.news(watch.Change{Meta: c.now}); got != c.want {
				t.Errorf("%s: got %v", c.why, got)
			}
		})
	}
}
