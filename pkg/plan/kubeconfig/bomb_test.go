package kubeconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A text that grows without end when it is read is refused in no time.
func TestBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 30; i++ {
		ref := fmt.Sprintf("*a%d", i-1)
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.Join([]string{ref, ref, ref, ref, ref, ref, ref, ref, ref}, ","))
	}
	for name, text := range map[string]string{
		"Aliases": b.String(),
		"Deep":    strings.Repeat("[", MaxBytes-1),
		"DeepMap": strings.Repeat("{a: ", MaxBytes/5),
	} {
		start := time.Now()
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s is accepted", name)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%s takes %s", name, took)
		}
	}
}
