package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// nameFlag is a flag with the name of an object of one kind: NAME or KIND/NAME.
type nameFlag struct {
	kind Kind
	into *string
}

// NameVar adds a flag with the name of an object. letter may be empty.
func NameVar(fs *pflag.FlagSet, into *string, plural, name, letter, usage string) {
	fs.VarP(nameFlag{MustKind(plural), into}, name, letter, usage)
}

// String returns the name.
func (n nameFlag) String() string {
	if n.into == nil {
		return ""
	}
	return *n.into
}

// Type returns what help calls a value without a placeholder of its own.
func (n nameFlag) Type() string { return "string" }

// Set reads NAME or KIND/NAME, and refuses other kinds.
func (n nameFlag) Set(text string) error {
	word, name, slashed := strings.Cut(text, "/")
	if !slashed {
		*n.into = text
		return nil
	}
	k, err := KindOf(word)
	if err != nil {
		return err
	}
	if k.Kind != n.kind.Kind || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("want NAME or %s/NAME", n.kind.Singular)
	}
	*n.into = name
	return nil
}
