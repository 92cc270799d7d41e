package wsserver

import (
	"context"
	"io"

	"github.com/coder/websocket"
)

// MaxEvent is the largest event in bytes, either way.
const MaxEvent = 4 << 20

// socket is a WebSocket that carries text.
type socket interface {
	// Read returns the next message, or how large it is if it is larger than MaxEvent.
	Read(ctx context.Context) (data []byte, tooLarge int, err error)
	Write(ctx context.Context, data []byte) error
	Ping(ctx context.Context) error
	// Close says goodbye, CloseNow does not.
	Close() error
	CloseNow() error
}

// plain is a socket of the library.
type plain struct{ *websocket.Conn }

func (s plain) Read(ctx context.Context) (data []byte, tooLarge int, err error) {
	_, r, err := s.Reader(ctx)
	if err != nil {
		return nil, 0, err
	}
	data, err = io.ReadAll(io.LimitReader(r, MaxEvent+1))
	if err != nil || len(data) <= MaxEvent {
		return data, 0, err
	}
	rest, err := io.Copy(io.Discard, r)
	return nil, len(data) + int(rest), err
}

func (s plain) Write(ctx context.Context, data []byte) error {
	return s.Conn.Write(ctx, websocket.MessageText, data)
}

func (s plain) Close() error { return s.Conn.Close(websocket.StatusNormalClosure, "") }
