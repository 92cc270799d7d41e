package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"voicebridge/internal/testkit"
)

// namespace makes a location in its own network namespace, joined to this one by a pair of
// virtual devices. That takes root's rights.
func namespace(t *testing.T) (location, error) {
	t.Helper()
	name := fmt.Sprintf("vb%d", os.Getpid())
	host, inside := name+"a", name+"b"
	// Of the addresses for tests of networks (RFC 2544).
	subnet := fmt.Sprintf("198.%d.%d", 18+os.Getpid()/256%2, os.Getpid()%256)
	ip := func(args ...string) error {
		out, err := exec.Command("ip", args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %q: %w: %s", args, err, out)
		}
		return nil
	}
	if err := ip("netns", "add", name); err != nil {
		return location{}, err
	}
	t.Cleanup(func() { // removes the devices too
		if err := ip("netns", "del", name); err != nil {
			t.Error(err)
		}
	})
	for _, args := range [][]string{
		{"link", "add", host, "type", "veth", "peer", "name", inside, "netns", name},
		{"addr", "add", subnet + ".1/24", "dev", host},
		{"link", "set", host, "up"},
		{"-n", name, "link", "set", inside, "up"},
	} {
		if err := ip(args...); err != nil {
			return location{}, err
		}
	}
	open := func(t *testing.T, address int) net.PacketConn {
		t.Helper()
		own := fmt.Sprintf("%s.%d", subnet, 2+address)
		err := errors.Join(
			ip("-n", name, "addr", "flush", "dev", inside),
			ip("-n", name, "addr", "add", own+"/24", "dev", inside),
		)
		testkit.Must(t, err)
		return within(t, name, func() net.PacketConn { return listenAt(t, net.ParseIP(own)) })
	}
	return location{"a network namespace", open}, nil
}

// within opens a socket in a network namespace: a socket stays where its thread was.
func within(t *testing.T, name string, open func() net.PacketConn) net.PacketConn {
	t.Helper()
	socket := make(chan net.PacketConn)
	go func() {
		defer close(socket)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		there, err := os.Open("/run/netns/" + name)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = there.Close() }()
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		socket <- open()
	}()
	opened, ok := testkit.Receive(t, "a socket in the namespace", socket)
	if !ok {
		t.FailNow()
	}
	return opened
}
