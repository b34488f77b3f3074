package main

import (
	"context"
	"fmt"
	"strings"
)

// maxHelmOps is how many HelmOps a note names.
const maxHelmOps = 3

// noteHelmOps notes the HelmOps within -n, on which this version does not act. If the
// list fails, it prints nothing: a status does not depend on it.
func (s *session) noteHelmOps(ctx context.Context) {
	list, err := s.helmOps(ctx)
	if err != nil || len(list) == 0 {
		return
	}
	var names []string
	for _, op := range list[:min(len(list), maxHelmOps)] {
		names = append(names, op.Name)
	}
	text := strings.Join(names, ", ")
	if more := len(list) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	s.std.Note("this version deploys no HelmOps: nothing of %s is deployed", text)
}
