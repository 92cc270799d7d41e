package web

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"voicebridge/web/access"
)

// Upstream describes the upstream to the page and to clients.
type Upstream struct {
	// Name is the driver's name: openai, simulator.
	Name string
	// Note is what users should know about the upstream; may be empty.
	Note  string
	Model string
	Voice string
	// TurnDetection is the object of the Realtime API that calls begin with, in JSON, or null for push to talk.
	TurnDetection json.RawMessage
}

type configAnswer struct {
	Upstream     string `json:"upstream"`
	UpstreamNote string `json:"upstream_note"`
	Version      string `json:"version"`
	Model        string `json:"model"`
	Voice        string `json:"voice"`
	// TurnDetection is what a call that was push to talk for a while can go back to.
	TurnDetection json.RawMessage `json:"turn_detection"`
	// Authentication reports whether clients must sign in, Owner who this one is.
	Authentication bool   `json:"authentication"`
	Owner          string `json:"owner"`
	// Recording reports whether calls may be recorded.
	Recording bool `json:"recording"`
	// ICEServers are for the browser's RTCPeerConnection.
	ICEServers []shownICEServer `json:"ice_servers"`
}

// ICEServer is a STUN or TURN server for the browser's leg.
type ICEServer struct {
	URLs     []string `yaml:"urls"`
	Username string   `yaml:"username"`
	// Credential is a secret, and not in a file of settings.
	Credential access.Secret `yaml:"-"`
}

// shownICEServer is an ICEServer in the form of the browser's RTCIceServer. Browsers need the
// credential, so clients get it.
type shownICEServer struct {
	URLs       []string `json:"urls"`
	Username   string   `json:"username,omitempty"`
	Credential string   `json:"credential,omitempty"`
}

func (i ICEServer) shown() shownICEServer {
	return shownICEServer{i.URLs, i.Username, i.Credential.Reveal()}
}

// pageSettings serves the route from which the page learns about this server.
type pageSettings struct {
	upstream       Upstream
	version        string
	authentication bool
	iceServers     []ICEServer
	turn           func(owner string) []ICEServer // may be nil
	records        bool
}

func (h *pageSettings) routes(r router) { r.GET("/api/config", h.read, r.user) }

func (h *pageSettings) read(c echo.Context) error {
	u := h.upstream
	answer := configAnswer{
		Upstream: u.Name, UpstreamNote: u.Note, Version: h.version, Model: u.Model, Voice: u.Voice, TurnDetection: u.TurnDetection,
		Authentication: h.authentication, Owner: identity(c).Owner, Recording: h.records, ICEServers: []shownICEServer{},
	}
	servers := h.iceServers
	if h.turn != nil {
		servers = slices.Concat(servers, h.turn(answer.Owner))
	}
	for _, i := range servers {
		answer.ICEServers = append(answer.ICEServers, i.shown())
	}
	return c.JSON(http.StatusOK, answer)
}
