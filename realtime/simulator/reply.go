package simulator

import (
	"encoding/json"
	"net/http"

	"voicebridge/realtime"
)

func writeError(w http.ResponseWriter, status int, e *realtime.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	body := object{"error": object{"message": e.Message, "type": e.Type, "param": orNull(e.Param), "code": orNull(e.Code)}}
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
