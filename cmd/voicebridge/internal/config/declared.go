package config

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
)

// A setting is a field of a struct, which is the group of settings around it. The field's comment is its text in
// docs/reference and voicebridge.example.yaml, and these tags are the rest:
//
//	koanf    its key; ",squash" puts the settings of a struct into the group around it
//	default  as in the environment; without it the zero value
//	min, max of a number, of the bytes of a text, or of each entry of a list
//	enum     the possible values, or those of a list's entries; it begins with a comma if the setting may be empty
//	format   the entry of formats that a text, or each of a list's entries, must satisfy unless it is empty
//	env      variables with names that are not derived from the key
//	yaml     ",flow" writes a group on one line of the example
//
// A list may have groups as its entries. What concerns more than one setting is code, in validate.go.

// Setting is a setting, or a group of settings.
type Setting struct {
	// Key is its path in the file. In the settings of a list's entries the list has the index 0.
	Key string
	// Field declares it, in the struct Group.
	Field reflect.StructField
	Group reflect.Type
}

// Settings returns all settings, each group before its own.
func Settings() []Setting {
	var out []Setting
	each(reflect.ValueOf(new(Config)).Elem(), "", func(key string, group reflect.Type, field reflect.StructField, value reflect.Value) {
		for _, i := range field.Index[:len(field.Index)-1] {
			group = group.Field(i).Type
		}
		out = append(out, Setting{key, field, group})
		if value.Kind() == reflect.Slice && IsGroup(field.Type.Elem()) {
			value.Set(reflect.MakeSlice(field.Type, 1, 1))
		}
	})
	return out
}

// IsGroup reports whether a type is a group of settings.
func IsGroup(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for range fields(t) {
		return true
	}
	return false
}

// fields returns the fields of the settings in a group, by their names in it.
func fields(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for f := range t.Fields() {
			name, option, _ := strings.Cut(f.Tag.Get("koanf"), ",")
			if option == "squash" {
				for name, inner := range fields(f.Type) {
					inner.Index = slices.Concat(f.Index, inner.Index)
					if !yield(name, inner) {
						return
					}
				}
			} else if name != "" && name != "-" && !yield(name, f) {
				return
			}
		}
	}
}

func fieldFor(t reflect.Type, name string) (reflect.StructField, bool) {
	for n, f := range fields(t) {
		if n == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// each calls visit for every setting in a group: first for a group or a list, then for what is inside.
func each(group reflect.Value, path string, visit func(key string, group reflect.Type, field reflect.StructField, value reflect.Value)) {
	for name, f := range fields(group.Type()) {
		key, value := strings.TrimPrefix(path+"."+name, "."), group.FieldByIndex(f.Index)
		visit(key, group.Type(), f, value)
		switch {
		case IsGroup(f.Type):
			each(value, key, visit)
		case f.Type.Kind() == reflect.Slice && IsGroup(f.Type.Elem()):
			for i := range value.Len() {
				each(value.Index(i), fmt.Sprintf("%s[%d]", key, i), visit)
			}
		}
	}
}
