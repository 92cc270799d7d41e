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
