package simulator

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/served"
)

const (
	// maxText is how large a message may be, in bytes.
	maxText = 16 << 20
	// farewell is how long a client may take to answer the close of its socket.
	farewell = time.Second
)

// Connection carries a session: a *rtc.Peer, or a socket.
type Connection interface {
	served.Connection
	Close() error
}

// socket is a connection over WebSocket. Sound comes and goes in events.
type socket struct {
	conn   *websocket.Conn
	done   chan struct{} // closed when reading has ended
	closes sync.Once
	// expired and dropped say how the session has ended; they must be set before Close.
	expired, dropped bool
}

func (k *socket) Send(ctx context.Context, data []byte) error {
	return k.conn.Write(ctx, websocket.MessageText, data)
}

func (*socket) WriteAudio(*media.Packet) error { return nil }

func (k *socket) Forward(ctx context.Context, _ media.Sink, _ *media.Flow) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-k.done:
		return media.ErrClosed
	}
}

func (k *socket) Done() <-chan struct{} { return k.done }

// Close says why, except for a connection that is dropped on purpose.
func (k *socket) Close() error {
	k.closes.Do(func() {
		code, reason := websocket.StatusNormalClosure, ""
		if k.expired {
			code, reason = websocket.StatusGoingAway, "Your session hit the maximum duration."
		}
		if !k.dropped {
			cut := time.AfterFunc(farewell, func() { _ = k.conn.CloseNow() })
			_ = k.conn.Close(code, reason) // a client that is gone answers nothing
			cut.Stop()
		}
		_ = k.conn.CloseNow()
	})
	<-k.done
	return nil
}

// read passes on what the client sends until the socket ends.
func (k *socket) read(take func(data []byte), log *slog.Logger) {
	defer close(k.done)
	for {
		_, data, err := k.conn.Read(context.Background())
		if err != nil {
			log.Debug("socket ended", "error", err)
			return
		}
		take(data)
	}
}

// object is a JSON object that is being read or written.
type object = map[string]any

// newID and refuse make ids and the errors that answer clients.
var (
	newID  = served.NewID
	refuse = realtime.Refuse
)

func writeError(w http.ResponseWriter, status int, e *realtime.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	raw, _ := json.Marshal(e) // made of strings
	body, _ := served.Read[object](raw)
	delete(body, "event_id")                             // there is no event
	_ = json.NewEncoder(w).Encode(object{"error": body}) // the client may be gone
}
