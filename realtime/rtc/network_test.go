package rtc

import (
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/transport/v5"

	"voicebridge/realtime/media"
)

// TestNetwork lists the machine's addresses, and again only when the list is old.
func TestNetwork(t *testing.T) {
	t.Parallel()
	n := new(network)
	all, err := n.addresses()
	must(t, err)
	own, err := net.InterfaceAddrs()
	must(t, err)
	if len(all) == 0 || len(own) == 0 {
		t.Errorf("addresses %v, the system has %v", all, own)
	}
	marked := &transport.Interface{Interface: net.Interface{Name: "marked"}}
	has := func() bool {
		list, err := n.Interfaces()
		return err == nil && len(list) == 1 && list[0] == marked
	}
	n.interfaces, n.read = []*transport.Interface{marked}, time.Now().Add(time.Hour)
	if !has() {
		t.Error("a list that is young was made again")
	}
	n.read = time.Now().Add(-interfacesAge)
	if has() {
		t.Error("a list that is old was used")
	}
}

// pipeConn is a socket whose packets the test exchanges.
type pipeConn struct {
	transport.UDPConn

	in, out chan string
	closed  chan struct{}
}

func (c *pipeConn) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case text := <-c.in:
		return copy(b, text), &net.UDPAddr{Port: 7}, nil
	case <-c.closed:
		return 0, nil, net.ErrClosed
	}
}

func (c *pipeConn) WriteTo(b []byte, _ net.Addr) (int, error) {
	c.out <- string(b)
	return len(b), nil
}

func (c *pipeConn) Close() error {
	close(c.closed)
	return nil
}

// TestSlowConn passes packets both ways over a slow network: each takes the delay, in order.
func TestSlowConn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const delay = 25 * time.Millisecond
		pipe := &pipeConn{in: make(chan string), out: make(chan string, 8), closed: make(chan struct{})}
		c := newSlowConn(pipe, &network{delay: delay})
		began := time.Now()
		for _, text := range []string{"a", "b", "c"} {
			pipe.in <- text
			if _, err := c.WriteTo([]byte(text), nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond) // virtual
		}
		var in, out []string
		buf := make([]byte, 8)
		for i := range 3 {
			n, addr, err := c.ReadFrom(buf)
			if err != nil || addr.(*net.UDPAddr).Port != 7 {
				t.Fatal(addr, err)
			}
			in, out = append(in, string(buf[:n])), append(out, <-pipe.out)
			if took, want := time.Since(began), delay+time.Duration(i)*time.Millisecond; took != want {
				t.Errorf("packet %d took %s, want %s", i, took, want) // virtual
			}
		}
		if want := []string{"a", "b", "c"}; !slices.Equal(in, want) || !slices.Equal(out, want) {
			t.Errorf("in %q, out %q", in, out)
		}
		must(t, c.Close())
		if _, _, err := c.ReadFrom(buf); err == nil {
			t.Error("a closed socket is read")
		}
		if _, err := c.WriteTo(buf, nil); err == nil {
			t.Error("a closed socket is written to")
		}
	})
}

// TestDelay connects two peers over slow networks.
func TestDelay(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Delay: time.Millisecond, UDPPort: 1}); err == nil {
		t.Error("a delay and a shared port are taken")
	}
	a, b := newAPI(t, Config{Delay: time.Millisecond}), newAPI(t, Config{Delay: time.Millisecond})
	ctx := testContext(t)
	got := newRecorder()
	offerer, offer, err := a.Offer(ctx, got.handlers())
	must(t, err)
	_, answer, err := b.Answer(ctx, offer, media.Handlers{})
	must(t, err)
	must(t, offerer.Accept(ctx, answer))
	must(t, offerer.Send(ctx, []byte("{}")))
	got.wait(t, "connection", func() bool { return slices.Contains(got.states, media.StateConnected) })
}
