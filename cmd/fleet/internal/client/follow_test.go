package client

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// scripted is an API server whose lists and watches are given one after the
// other. After the last watch it ends the context.
type scripted struct {
	API
	lists   [][]*unstructured.Unstructured
	watches [][]watch.Event
	from    []string // versions that were watched from
	end     func()
}

func object(name, version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetName(name)
	u.SetResourceVersion(version)
	return u
}

func (s *scripted) List(context.Context, Query, Page) (*unstructured.UnstructuredList, error) {
	if len(s.lists) == 0 {
		return nil, errors.New("no more lists")
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{}}
	list.SetResourceVersion("100")
	for _, o := range s.lists[0] {
		list.Items = append(list.Items, *o)
	}
	s.lists = s.lists[1:]
	return list, nil
}

func (s *scripted) Watch(_ context.Context, _ Query, version string) (watch.Interface, error) {
	s.from = append(s.from, version)
	if len(s.watches) == 0 {
		s.end()
		return watch.NewFake(), nil
	}
	events := s.watches[0]
	s.watches = s.watches[1:]
	w := watch.NewFakeWithChanSize(len(events), false)
	for _, e := range events {
		w.Action(e.Type, e.Object)
	}
	w.Stop()
	return w, nil
}

// A watch that ends is resumed where it ended; one that is too old is started
// again with a list, and what was missed is delivered.
func TestFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	expired := apierrors.NewResourceExpired("too old").Status()
	s := &scripted{
		end: cancel,
		lists: [][]*unstructured.Unstructured{
			{object("stays", "1"), object("changes", "2"), object("goes", "3")},
			{object("stays", "1"), object("changes", "9"), object("comes", "8")},
		},
		watches: [][]watch.Event{
			{{Type: watch.Modified, Object: object("stays", "1")}, {Type: watch.Bookmark, Object: object("", "200")}},
			{{Type: watch.Error, Object: &expired}},
			{{Type: watch.Deleted, Object: object("comes", "300")}},
		},
	}
	var reported []string
	err := followQuery(ctx, s, Query{}, func(c Change) {
		if c.Object == nil {
			reported = append(reported, "synced")
			return
		}
		reported = append(reported, string(c.Kind)+" "+c.Object.GetName())
	}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"ADDED stays", "ADDED changes", "ADDED goes", "synced",
		"MODIFIED stays", "MODIFIED changes", "ADDED comes", "DELETED goes", "DELETED comes",
	}
	if diff := cmp.Diff(want, reported); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{"100", "200", "100", "300"}, s.from); diff != "" {
		t.Errorf("watched from: -want +got\n%s", diff)
	}
}

func TestFollowFailsAtOnce(t *testing.T) {
	err := followQuery(t.Context(), &scripted{}, Query{}, func(Change) { t.Error("there is no change to deliver") }, func(error) {})
	if err == nil {
		t.Error("a first list that fails is an error")
	}
}
