package records

import (
	"cmp"
	"encoding/json"
	"reflect"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// copyFields sets the fields of the struct that to points to from those of from with the same names: between a record
// and its row only times, which the database has in microseconds, and types of words differ. Texts are cleaned.
func copyFields(to, from any) {
	dst, src := reflect.ValueOf(to).Elem(), reflect.ValueOf(from)
	for i := range dst.NumField() {
		field, value := dst.Field(i), src.FieldByName(dst.Type().Field(i).Name)
		if !value.IsValid() {
			continue
		}
		switch v := value.Interface().(type) {
		case time.Time:
			value = reflect.ValueOf(dbtype.At(v))
		case *time.Time:
			value = reflect.ValueOf(dbtype.AtPtr(v))
		case dbtype.Time:
			value = reflect.ValueOf(v.Time)
		case *dbtype.Time:
			value = reflect.ValueOf(v.Ptr())
		case dbtype.JSON:
			value = reflect.ValueOf(json.RawMessage(v))
		}
		if field.Kind() == reflect.String {
			field.SetString(thread.CleanText(value.String()))
		} else if value.Type() == field.Type() {
			field.Set(value)
		}
	}
}

// CallFromRow returns the record of a row.
func CallFromRow(r pgdb.Call, owner string) (c Call) {
	copyFields(&c, r)
	c.Owner = owner
	return c
}

func callToRow(key thread.Key, c Call, instance string, now time.Time) (p pgdb.SaveCallParams) {
	c.StartedAt = database.OrNow(c.StartedAt, now)
	copyFields(&p, c)
	p.ThreadID, p.Owner = key.Thread, key.Owner
	p.Instance = instance
	return p
}

func toolCallToRow(key thread.Key, c thread.ToolCall, instance string, now time.Time) (p pgdb.SaveToolCallParams) {
	c.StartedAt = database.OrNow(c.StartedAt, now)
	copyFields(&p, c)
	p.ThreadID, p.Owner = key.Thread, key.Owner
	p.Instance = instance
	return p
}

func toolCallFromRow(r pgdb.ToolCall) (c thread.ToolCall) {
	copyFields(&c, r)
	return c
}

func responseToRow(key thread.Key, r Response, instance string, now time.Time) (p pgdb.SaveResponseParams) {
	r.CreatedAt = database.OrNow(r.CreatedAt, now)
	copyFields(&p, r)
	copyFields(&p, r.Usage)
	p.ThreadID, p.Owner = key.Thread, key.Owner
	p.Instance = instance
	p.Kind = cmp.Or(p.Kind, string(KindResponse))
	if raw := thread.AsJSON(r.RawUsage); raw != nil {
		p.RawUsage = database.CleanJSON(raw)
	}
	return p
}

func responseFromRow(row pgdb.Response) (r Response) {
	copyFields(&r, row)
	copyFields(&r.Usage, row)
	r.Kind = Kind(row.Kind)
	return r
}
