package kubetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// delete deletes an object. An object with finalizers stays until these are removed.
func (h handler) delete(c *call) (answer, error) {
	opts, err := h.deleteOptions(c)
	if err != nil {
		return answer{}, err
	}
	live, err := c.live()
	if err != nil {
		return answer{}, err
	}
	if err := c.precondition(live, opts.Preconditions); err != nil {
		return answer{}, err
	}
	c.dryRun = c.dryRun || len(opts.DryRun) > 0
	if c.dryRun {
		return c.objectAnswer(http.StatusOK)(live, nil)
	}
	kept, err := h.remove(c.res, live, opts)
	if err != nil || kept != nil {
		return c.objectAnswer(http.StatusOK)(kept, err)
	}
	gr := c.res.resource().GroupResource()
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: c.Name, Group: gr.Group, Kind: gr.Resource, UID: live.GetUID()},
	})
	return jsonAnswer(http.StatusOK, body), err
}

func (c *call) precondition(live *record, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	gr := c.res.resource().GroupResource()
	if uid := live.GetUID(); p.UID != nil && *p.UID != uid {
		return apierrors.NewConflict(gr, c.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
			"The object might have been deleted and then recreated", *p.UID, uid))
	}
	if v := live.GetResourceVersion(); p.ResourceVersion != nil && *p.ResourceVersion != v {
		return apierrors.NewConflict(gr, c.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
			"The object might have been modified", *p.ResourceVersion, v))
	}
	return nil
}

// remove deletes an object, or sets its deletion timestamp and returns it.
func (s *Server) remove(res *resource, live *record, opts metav1.DeleteOptions) (kept *record, err error) {
	obj := live.DeepCopy()
	wait := map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationOrphan: metav1.FinalizerOrphanDependents, metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
	}
	if opts.PropagationPolicy != nil {
		if f := wait[*opts.PropagationPolicy]; f != "" && !slices.Contains(obj.GetFinalizers(), f) {
			obj.SetFinalizers(append(obj.GetFinalizers(), f))
		}
	}
	if res.isDefinition() && obj.GetDeletionTimestamp() == nil {
		crd, _, err := definitions{s}.read(live)
		if err != nil {
			return nil, err
		}
		if crd != nil {
			terminate(obj)
		}
	}
	switch {
	case len(obj.GetFinalizers()) == 0 && !res.isNamespace():
		_, err = s.commit(res, obj, true)
		return nil, err
	case obj.GetDeletionTimestamp() != nil && len(obj.GetFinalizers()) == len(live.GetFinalizers()):
		return live, nil
	case obj.GetDeletionTimestamp() == nil:
		obj.SetDeletionTimestamp(new(now()))
		if !res.isNamespace() {
			obj.SetDeletionGracePeriodSeconds(new(int64))
		}
		if g := obj.GetGeneration(); g > 0 {
			obj.SetGeneration(g + 1)
		}
		if res.isNamespace() {
			obj.Object["status"] = map[string]any{"phase": "Terminating"}
		}
	}
	return s.commit(res, obj, false)
}
