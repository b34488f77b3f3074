package finding

import "testing"

func TestTexts(t *testing.T) {
	f := Finding{Path: "web/cm.yaml", Line: 7, Column: 3, Severity: Error, Rule: RuleNotImplemented, Message: "no"}
	if got, want := f.String(), "web/cm.yaml:7:3: error: no [not-implemented]"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if got, want := f.Short(), "web/cm.yaml:7: no"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	if got, want := f.Reason(), "NotImplemented"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
	f.Line, f.Column = 0, 0
	if got, want := f.String(), "web/cm.yaml:1:1: error: no [not-implemented]"; got != want {
		t.Errorf("editors need a line and a column: want %q, got %q", want, got)
	}
	if got, want := f.Short(), "web/cm.yaml: no"; got != want {
		t.Errorf("want %q, got %q", want, got)
	}
}

func TestSort(t *testing.T) {
	list := []Finding{{Path: "b", Line: 1}, {Path: "a", Line: 2}, {Path: "a", Line: 1, Column: 2}, {Path: "a", Line: 1, Column: 1}}
	Sort(list)
	if list[0].Column != 1 || list[1].Column != 2 || list[2].Line != 2 || list[3].Path != "b" {
		t.Errorf("not by place: %v", list)
	}
	if HasErrors(list) || len(Errors(append(list, Finding{Severity: Error}))) != 1 {
		t.Error("only errors are errors")
	}
}

func TestStrict(t *testing.T) {
	list := []Finding{{Path: "a", Severity: Warning}, {Path: "b", Severity: Error}}
	strict := Strict(list)
	if len(Errors(strict)) != 2 || strict[0].Path != "a" {
		t.Errorf("every warning is an error: %v", strict)
	}
	if list[0].Severity != Warning {
		t.Error("the list that was given is left as it is")
	}
}
