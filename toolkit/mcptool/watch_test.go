package mcptool

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

// wire carries a session in memory. Once blocked, its writes hang whatever their ctx says,
// like writes to a child that does not read.
type wire struct {
	transport mcp.Transport
	blocked   chan struct{}
	stopped   chan struct{}
	once      sync.Once
}

func (w *wire) connect() (mcp.Transport, error) { return w, nil }
func (w *wire) stop()                           { w.once.Do(func() { close(w.stopped) }) }
func (w *wire) explain(err error) error         { return err }

func (w *wire) Connect(ctx context.Context) (mcp.Connection, error) {
	connection, err := w.transport.Connect(ctx)
	return wireConnection{connection, w}, err
}

type wireConnection struct {
	mcp.Connection
	wire *wire
}

func (c wireConnection) Write(ctx context.Context, message jsonrpc.Message) error {
	select {
	case <-c.wire.blocked:
		<-c.wire.stopped
		return errors.New("the wire was cut")
	default:
		return c.Connection.Write(ctx, message)
	}
}

// Read returns what the server sends as one at the other end of a pipe would be read.
func (c wireConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err != nil {
		return nil, err
	}
	data, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return nil, err
	}
	messages, err := newServer(ctx, "s", Server{}, Options{Logger: slog.New(slog.DiscardHandler)}).read(data, nil)
	if err != nil {
		return nil, err
	}
	return jsonrpc.DecodeMessage(messages[0].data)
}

// watched is an in-memory server that is watched, as by run.
type watched struct {
	*server
	wire    *wire
	changes int        // how often a change of the tools was reported; read it when all is quiet
	ended   chan error // what watch returned
	cancel  context.CancelFunc
}

// watchServer connects to the server and watches it. Call it in a bubble.
func watchServer(t *testing.T, remote *mcp.Server) *watched {
	t.Helper()
	return watchServerAs(t, remote, Server{Type: TypeStdio})
}

func watchServerAs(t *testing.T, remote *mcp.Server, config Server) *watched {
	t.Helper()
	w := &watched{ended: make(chan error, 1)}
	near, far := mcp.NewInMemoryTransports()
	w.wire = &wire{transport: near, blocked: make(chan struct{}), stopped: make(chan struct{})}
	options := Options{Logger: newLogBook().logger(), ConnectTimeout: 20 * time.Second, Changed: func() { w.changes++ }, Pins: &memory{}}
	w.server = newServer(t.Context(), "s", config, options)
	session, err := remote.Connect(t.Context(), far, nil)
	must(t, err)
	l, err := w.dial(t.Context(), w.wire)
	must(t, err)
	if w.offer, err = w.list(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	w.move(l, nil)
	w.reach = func(context.Context, string, toolkit.Call) (*server, func(), error) { return w.server, func() {}, nil }
	ctx, cancel := context.WithCancel(t.Context())
	w.cancel = cancel
	go func() { w.ended <- w.watch(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		w.disconnect(errClosed)
		_ = session.Close()
	})
	return w
}

// remoteServer has a tool that never answers.
func remoteServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	addHanging(server, "hang")
	return server
}

func addHanging(server *mcp.Server, name string) {
	server.AddTool(&mcp.Tool{Name: name, InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
}

// A child that does not read must not block its watcher.
func TestServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]func(*watched) chan struct{}{
		"its tools are listed": func(w *watched) chan struct{} { return w.changed },
		"it is probed":         func(w *watched) chan struct{} { return w.suspect },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := watchServer(t, remoteServer())
				close(w.wire.blocked)
				notify(signal(w))
				if err := <-w.ended; err == nil || !strings.Contains(err.Error(), "does not answer") {
					t.Errorf("got %v", err)
				}
			})
		})
		t.Run(name+" at the end", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := watchServer(t, remoteServer())
				close(w.wire.blocked)
				notify(signal(w))
				synctest.Wait()
				w.cancel()
				if err := <-w.ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// callFor calls the tool that hangs, for one second.
func (w *watched) callFor(t *testing.T, tool toolkit.Tool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, err := range tool.Call(ctx, toolkit.Call{Arguments: "{}"}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// A server that answers nothing is detected by calls that time out. One that is merely
// slow is not given up.
func TestServerThatHangs(t *testing.T) {
	t.Parallel()
	for name, mute := range map[string]bool{"mute": true, "slow": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				remote := remoteServer()
				remote.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
					return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
						if mute && method == "ping" {
							<-ctx.Done()
						}
						return next(ctx, method, request)
					}
				})
				w := watchServer(t, remote)
				for range maxUnanswered {
					select {
					case err := <-w.ended:
						t.Fatalf("given up too early: %v", err)
					default:
					}
					if err := w.callFor(t, w.offer[0]); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
				}
				time.Sleep(time.Minute)
				select {
				case err := <-w.ended:
					if !mute || err == nil || !strings.Contains(err.Error(), "does not answer") {
						t.Errorf("got %v", err)
					}
				default:
					if mute {
						t.Error("it is still watched")
					}
				}
			})
		})
	}
}

// A server that announces a change after each listing is listed at a sensible pace, and a
// change is reported only if there is one.
func TestServerThatAlwaysChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const seconds, grows = 20, 5
		remote := remoteServer()
		listed := 0
		remote.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
				result, err := next(ctx, method, request)
				if method == "tools/list" {
					if listed++; listed == grows {
						addHanging(remote, "more")
					}
					addHanging(remote, "hang") // again, which announces a change
				}
				return result, err
			}
		})
		w := watchServerAs(t, remote, Server{Type: TypeStdio, TrustChanges: true})
		time.Sleep(seconds * time.Second)
		synctest.Wait()
		if listed <= grows || listed > seconds+2 {
			t.Errorf("listed %d times in %d seconds", listed, seconds)
		}
		if w.changes != 1 || len(w.tools()) != 2 {
			t.Errorf("%d changes were reported, there are %d tools", w.changes, len(w.tools()))
		}
	})
}

// TestFailedListing has a server that announces a change, and whose next listing fails.
func TestFailedListing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		remote := remoteServer()
		var failures atomic.Int32
		remote.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
				if method == "tools/list" && failures.Add(-1) >= 0 {
					return nil, errors.New("the database is locked")
				}
				return next(ctx, method, request)
			}
		})
		w := watchServerAs(t, remote, Server{Type: TypeStdio, TrustChanges: true})
		failures.Store(2)
		addHanging(remote, "more")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if w.changes != 1 || len(w.tools()) != 2 || failures.Load() != -1 {
			t.Errorf("%d changes were reported, there are %d tools, and %d failures left", w.changes, len(w.tools()), failures.Load())
		}
	})
}

// TestSilentChange has a remote server whose notification of a change is lost. It is asked now and then,
// and lists its tools again only if they are others.
func TestSilentChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		remote := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"},
			&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
		addHanging(remote, "hang")
		listed := 0
		remote.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
				if method == "tools/list" {
					listed++
				}
				return next(ctx, method, request)
			}
		})
		w := watchServerAs(t, remote, Server{Type: TypeHTTP, TrustChanges: true})
		time.Sleep(3*pollPause + time.Minute)
		synctest.Wait()
		if listed != 1+3 || w.changes != 0 {
			t.Errorf("listed %d times, %d changes", listed, w.changes)
		}
		addHanging(remote, "more")
		time.Sleep(2 * pollPause)
		synctest.Wait()
		if listed != 1+3+3 || w.changes != 1 || len(w.tools()) != 2 {
			t.Errorf("listed %d times, %d changes, there are %d tools", listed, w.changes, len(w.tools()))
		}
	})
}

// TestPolledServerThatHangs has a remote server that answers nothing for a while, as during a long call, or for
// ever.
func TestPolledServerThatHangs(t *testing.T) {
	t.Parallel()
	for name, mute := range map[string]time.Duration{"busy": 2*pollPause + time.Minute, "dead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				remote := remoteServer()
				began := time.Now()
				var watched atomic.Bool
				remote.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
					return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
						if watched.Load() && time.Since(began) < mute && (method == "ping" || method == "tools/list") {
							<-ctx.Done()
						}
						if method == "tools/list" {
							watched.Store(true)
						}
						return next(ctx, method, request)
					}
				})
				w := watchServerAs(t, remote, Server{Type: TypeHTTP})
				time.Sleep(5 * pollPause)
				synctest.Wait()
				select {
				case err := <-w.ended:
					if name == "busy" || err == nil || !strings.Contains(err.Error(), "does not answer") {
						t.Errorf("got %v", err)
					}
				default:
					if name == "dead" {
						t.Error("it is still watched")
					}
				}
			})
		})
	}
}

// TestSlowEndlessList has a server that takes its time for each of ever more pages: what came in half
// of the attempt's time is used.
func TestSlowEndlessList(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		remote := remoteServer()
		n := 0
		remote.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
				list, ok := request.(*mcp.ListToolsRequest)
				if !ok {
					return next(ctx, method, request)
				}
				if list.Params != nil {
					list.Params.Cursor = ""
				}
				if n++; n > 1 { // the first listing is that of watchServer
					time.Sleep(3 * time.Second)
				}
				result, err := next(ctx, method, request)
				if page, ok := result.(*mcp.ListToolsResult); ok && n > 1 {
					page.NextCursor = strings.Repeat("x", n)
				}
				return result, err
			}
		})
		w := watchServer(t, remote)
		addHanging(remote, "hang") // again, which announces a change
		time.Sleep(time.Minute)
		synctest.Wait()
		if n != 1+4 || len(w.tools()) != 1 {
			t.Errorf("%d pages were read, there are %d tools", n-1, len(w.tools()))
		}
		select {
		case err := <-w.ended:
			t.Errorf("it was given up: %v", err)
		default:
		}
	})
}

// TestNewerAfterOlder has a child that ends whatever it is asked: after the older handshake, the newer one is tried again.
func TestNewerAfterOlder(t *testing.T) {
	t.Parallel()
	all, err := Open(Config{Servers: map[string]Server{"s": {Type: TypeStdio, Command: "false"}}}, Options{Logger: newLogBook().logger()})
	must(t, err)
	t.Cleanup(func() { must(t, all.Close()) })
	s := all.families[0].shared()
	s.old = true
	if _, err := s.connectTo(t.Context()); err == nil || s.old {
		t.Errorf("connectTo() = %v, the older handshake comes next: %t", err, s.old)
	}
}
