package simulator

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// maxControl limits the body of a control request, in bytes.
const maxControl = 64 << 10

// disturbances are what can be done to a live call, by name.
var disturbances = map[string]func(*Session){
	"expire":  (*Session).Expire,
	"drop":    (*Session).Drop,
	"silence": (*Session).silence,
	"speak":   (*Session).SimulateSpeech,
}

// controlRoutes serves what docs/simulator.md describes. Pages of other origins are kept out; anyone with the key, or
// anyone at all if there is none, may use all of it.
func (s *Server) controlRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /simulator/faults", s.showFaults)
	mux.HandleFunc("PUT /simulator/faults", s.changeFaults)
	mux.HandleFunc("DELETE /simulator/faults", func(w http.ResponseWriter, r *http.Request) {
		s.setFaults(Faults{}, 0)
		s.showFaults(w, r)
	})
	mux.HandleFunc("GET /simulator/calls", s.showCalls)
	mux.HandleFunc("POST /simulator/calls/{id}/inject", s.inject)
	mux.HandleFunc("POST /simulator/calls/{id}/{action}", s.disrupt)
	authorized := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.authorize(w, r); ok {
			r.Body = http.MaxBytesReader(w, r.Body, maxControl)
			mux.ServeHTTP(w, r)
		}
	})
	return http.NewCrossOriginProtection().Handler(authorized)
}

// faultsState is the faults of new calls.
type faultsState struct {
	Faults Faults `json:"faults"`
	// Calls is how many more calls get them; nil means all.
	Calls *int `json:"calls"`
}

func (s *Server) showFaults(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	state := faultsState{Faults: s.faults}
	if s.limited {
		state.Calls = new(s.faulty)
	}
	s.mu.Unlock()
	writeJSON(w, state)
}

// changeFaults replaces the faults of future calls: all, or as many as the parameter calls says.
func (s *Server) changeFaults(w http.ResponseWriter, r *http.Request) {
	faults, err := readFaults(json.NewDecoder(r.Body))
	if err != nil {
		writeError(w, http.StatusBadRequest, refuse("invalid_faults", "", "%s", err.Error()))
		return
	}
	calls := 0
	if text := r.URL.Query().Get("calls"); text != "" {
		if calls, err = strconv.Atoi(text); err != nil || calls < 1 {
			writeError(w, http.StatusBadRequest,
				refuse("invalid_value", "calls", "The parameter calls is not a positive number."))
			return
		}
	}
	s.setFaults(faults, calls)
	s.showFaults(w, r)
}

func (s *Server) showCalls(w http.ResponseWriter, _ *http.Request) {
	type call struct {
		ID       string  `json:"id"`
		Seconds  float64 `json:"seconds"`
		Ended    string  `json:"ended,omitempty"`
		Received int     `json:"events_received"`
	}
	calls := []call{}
	for _, ses := range s.Sessions() {
		c := call{ID: ses.id, Seconds: time.Since(ses.began).Seconds(), Received: ses.received.count()}
		if err := ses.Err(); err != nil {
			c.Ended = err.Error()
		}
		calls = append(calls, c)
	}
	writeJSON(w, map[string]any{"calls": calls})
}

// each calls f with the live sessions that a path names, one or all of them, and answers the request.
func (s *Server) each(w http.ResponseWriter, r *http.Request, f func(*Session)) {
	id, n := r.PathValue("id"), 0
	for _, ses := range s.Sessions() {
		if ses.Err() == nil && (id == "all" || id == ses.id) {
			f(ses)
			n++
		}
	}
	if n == 0 && id != "all" {
		writeError(w, http.StatusNotFound, refuse("call_id_not_found", "call_id", "No call with this id is active."))
		return
	}
	writeJSON(w, map[string]int{"calls": n})
}

func (s *Server) disrupt(w http.ResponseWriter, r *http.Request) {
	action, ok := disturbances[r.PathValue("action")]
	if !ok {
		writeError(w, http.StatusNotFound, refuse("", "", "Use expire, drop, silence, speak or inject."))
		return
	}
	s.each(w, r, action)
}

// inject sends the body as if it were an event, whatever it contains.
func (s *Server) inject(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil || len(raw) == 0 {
		writeError(w, http.StatusBadRequest,
			refuse("invalid_request", "", "The body must have 1 to %d bytes.", maxControl))
		return
	}
	s.each(w, r, func(ses *Session) { ses.Inject(raw) })
}
