package rtc

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/pion/transport/v5"
	"github.com/pion/transport/v5/stdnet"
)

// interfacesAge is how old the list of the machine's interfaces may become.
const interfacesAge = time.Second

// network is the machine's network, shared by all peers. On its own, each peer would ask the kernel for all interfaces
// and addresses when it is made, keep them as long as it lives, and not learn of new ones when it is restarted.
type network struct {
	stdnet.Net // for all but Interfaces and ListenUDP

	delay   time.Duration // of packets, each way
	disturb func(outgoing bool) (later time.Duration, lost bool)

	mu         sync.Mutex
	read       time.Time
	interfaces []*transport.Interface // replaced, never changed
}

func (n *network) Interfaces() ([]*transport.Interface, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.interfaces != nil && time.Since(n.read) < interfacesAge {
		return n.interfaces, nil
	}
	fresh, err := stdnet.NewNet()
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	n.read = time.Now()
	n.interfaces, err = fresh.Interfaces()
	return n.interfaces, err
}

// addresses returns those of all interfaces.
func (n *network) addresses() ([]net.Addr, error) {
	interfaces, err := n.Interfaces()
	var all []net.Addr
	for _, i := range interfaces {
		addresses, _ := i.Addrs() // fails only where there are none
		all = append(all, addresses...)
	}
	return all, err
}

// maxDelayed is how many packets each way a slow network holds; what is more is dropped.
const maxDelayed = 1024

// slowConn is a socket on a network that takes delay each way and keeps the order of packets: benchmarks emulate a
// network with it. Only ReadFrom and WriteTo, which ICE uses, are delayed.
type slowConn struct {
	transport.UDPConn

	network *network
	in, out chan slowPacket
	done    chan struct{}
	once    sync.Once
	err     error // why there are no more packets; valid once in is closed
}

type slowPacket struct {
	data []byte
	addr net.Addr
	due  time.Time
}

func newSlowConn(conn transport.UDPConn, on *network) *slowConn {
	c := &slowConn{
		UDPConn: conn, network: on, done: make(chan struct{}),
		in: make(chan slowPacket, maxDelayed), out: make(chan slowPacket, maxDelayed),
	}
	go c.receive()
	go c.send()
	return c
}

// receive takes what arrives until the socket is closed.
func (c *slowConn) receive() {
	defer close(c.in)
	buf := make([]byte, 1<<16)
	for {
		n, addr, err := c.UDPConn.ReadFrom(buf)
		if err != nil {
			c.err = err
			return
		}
		c.push(c.in, buf[:n], addr)
	}
}

// send sends what is due until the socket is closed.
func (c *slowConn) send() {
	for {
		select {
		case p := <-c.out:
			if c.wait(p.due) {
				_, _ = c.UDPConn.WriteTo(p.data, p.addr) // lost, as on any network
			}
		case <-c.done:
			return
		}
	}
}

func (c *slowConn) push(to chan<- slowPacket, data []byte, addr net.Addr) {
	due := time.Now().Add(c.network.delay)
	if c.network.disturb != nil {
		later, lost := c.network.disturb(to == c.out)
		if lost {
			return
		}
		due = due.Add(later)
	}
	select {
	case to <- slowPacket{append([]byte(nil), data...), addr, due}:
	default:
	}
}

// wait waits until then, and reports false if the socket is closed first.
func (c *slowConn) wait(then time.Time) bool {
	select {
	case <-time.After(time.Until(then)):
		return true
	case <-c.done:
		return false
	}
}

func (c *slowConn) ReadFrom(b []byte) (int, net.Addr, error) {
	p, ok := <-c.in
	if !ok {
		return 0, nil, c.err
	}
	if !c.wait(p.due) {
		return 0, nil, net.ErrClosed
	}
	return copy(b, p.data), p.addr, nil
}

func (c *slowConn) WriteTo(b []byte, addr net.Addr) (int, error) {
	select {
	case <-c.done:
		return 0, net.ErrClosed
	default:
	}
	c.push(c.out, b, addr)
	return len(b), nil
}

func (c *slowConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.UDPConn.Close()
}

// ListenUDP opens a socket, on a slow network if that is set.
func (n *network) ListenUDP(kind string, addr *net.UDPAddr) (transport.UDPConn, error) {
	conn, err := n.Net.ListenUDP(kind, addr)
	if err != nil || n.delay == 0 {
		return conn, err
	}
	return newSlowConn(conn, n), nil
}
