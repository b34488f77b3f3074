package values

import "fmt"

// Unrendered are the clusters for which templates of values are not rendered, since they
// have no label: how many, and the first of them.
type Unrendered struct {
	Clusters int
	First    string
}

// String says which clusters these are and what helps; it is empty for none.
func (u Unrendered) String() string {
	where := u.First + ", which has no labels"
	switch {
	case u.Clusters == 0:
		return ""
	case u.Clusters > 1:
		where = fmt.Sprintf("%d clusters without labels, such as %s", u.Clusters, u.First)
	}
	return fmt.Sprintf("templates of values are not rendered for %s: the value is the text of the template; with any label on the Cluster they are rendered", where)
}
