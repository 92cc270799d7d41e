package mcptool

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"voicebridge/toolkit"
	"voicebridge/toolkit/mcptool/signin"
)

// idleAfter is how long an owner's connection is kept that nobody uses.
const idleAfter = 10 * time.Minute

var (
	errIdle = errors.New("it was not used for a while; the next call starts it again")
	errFull = errors.New("as many others use it as may at once; try again later")
)

// family is a configured server: one connection that serves all, or one for each owner, a process, or a connection for
// which they have signed in. Each of those is begun when it is needed, and ends when it has not been used for a while.
type family struct {
	*server // of nobody: it knows names and limits, and is never connected

	mu      sync.Mutex
	running context.Context //nolint:containedctx // of Run; nil before it and after it
	members map[string]*member
	all     sync.WaitGroup
}

// member is the server of one owner.
type member struct {
	family *family
	owner  string
	server *server
	tried  chan struct{} // closed after the first attempt to connect
	done   chan struct{} // closed when nothing of it is left
	cancel context.CancelCauseFunc

	// Guarded by family.mu.
	busy   int
	used   time.Time
	ending bool
}

func newFamily(closing context.Context, name string, config Server, options Options) *family {
	f := &family{server: newServer(closing, name, config, options), members: map[string]*member{}}
	f.reach = f.reachFor
	return f
}

// openTo lets members begin until ctx ends. The one that serves all begins at once and stays; it is returned.
func (f *family) openTo(ctx context.Context) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing.Err() != nil {
		return nil
	}
	f.running = ctx
	if f.config.owned() {
		return nil
	}
	m := f.begin("", nil)
	m.busy++
	return m
}

// shared returns the server that serves all, connected or not.
func (f *family) shared() *server {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members[""]; m != nil {
		return m.server
	}
	return f.server
}

// shut ends all members and waits for them.
func (f *family) shut() {
	f.mu.Lock()
	f.running = nil
	f.fail(errClosed)
	for _, m := range f.members {
		m.end(errClosed)
	}
	f.mu.Unlock()
	f.all.Wait()
}

// end ends a member. family.mu is held.
func (m *member) end(why error) {
	m.ending = true
	m.cancel(why)
}

// acquire returns the owner's member, which stays until release.
func (f *family) acquire(owner string) (*member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[owner]
	if m == nil || m.ending {
		if f.running == nil || f.running.Err() != nil {
			_, err := f.current()
			return nil, err
		}
		var before *member
		switch {
		case m != nil:
			before = m // its folder is still in use
		case f.living() >= f.limit():
			if before = f.leastUsed(); before == nil {
				return nil, errFull
			}
			before.end(errIdle)
		}
		m = f.begin(owner, before)
	}
	m.busy++
	return m, nil
}

func (m *member) release() {
	m.family.mu.Lock()
	defer m.family.mu.Unlock()
	m.busy--
	m.used = time.Now()
}

func (f *family) limit() int {
	if !f.config.PerOwner {
		return maxOwners
	}
	return cmp.Or(f.config.MaxOwners, usualOwners)
}

// living returns how many members are not ending. f.mu is held.
func (f *family) living() (n int) {
	for _, m := range f.members {
		if !m.ending {
			n++
		}
	}
	return n
}

// leastUsed returns the member that has not been used for the longest time; nil if all are in use. f.mu is held.
func (f *family) leastUsed() (least *member) {
	for _, m := range f.members {
		if m.busy == 0 && !m.ending && (least == nil || m.used.Before(least.used)) {
			least = m
		}
	}
	return least
}

// begin begins a member once another has ended. f.mu is held.
func (f *family) begin(owner string, before *member) *member {
	ctx, cancel := context.WithCancelCause(f.running)
	m := &member{
		family: f, owner: owner, tried: make(chan struct{}), done: make(chan struct{}), cancel: cancel,
		used: time.Now(),
	}
	options := f.options
	if owner != "" {
		options.Logger = options.Logger.With("owner", owner)
	}
	config := f.config
	if f.config.PerOwner {
		options.ConnectTimeout = max(options.ConnectTimeout, f.patience()) // npx may have to fetch it first
		config.Cwd = f.folder(owner)
		config.Env = maps.Clone(config.Env)
		if config.Env == nil {
			config.Env = map[string]string{}
		}
		// What programs keep for their user is this owner's.
		for key, value := range map[string]string{"HOME": config.Cwd, "VOICEBRIDGE_OWNER": owner} {
			config.Env[key] = cmp.Or(config.Env[key], value)
		}
	}
	m.server = newServer(f.closing, f.name, config, options)
	m.server.owner, m.server.reach = owner, f.reachFor
	m.server.carry = f.carry
	m.server.end = func(why error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		m.end(why)
	}
	f.members[owner] = m
	f.all.Go(func() {
		defer m.ended()
		if before != nil {
			<-before.done
		}
		m.run(ctx)
	})
	return m
}

// run keeps the member connected until ctx ends or it has been idle.
func (m *member) run(ctx context.Context) {
	if m.family.config.PerOwner {
		if err := os.MkdirAll(m.server.config.Cwd, 0o700); err != nil {
			m.server.fail(fmt.Errorf("make its folder: %w", err))
			close(m.tried)
			m.watchIdle(ctx)
			return
		}
	}
	var watching sync.WaitGroup
	watching.Go(func() { m.watchIdle(ctx) })
	m.server.run(ctx, sync.OnceFunc(func() { close(m.tried) }))
	why := context.Cause(ctx)
	if errors.Is(why, context.Canceled) { // by Run
		why = errClosed
	}
	m.server.shut(why)
	watching.Wait()
}

// ended removes what has ended.
func (m *member) ended() {
	m.cancel(nil)
	m.family.mu.Lock()
	if m.family.members[m.owner] == m {
		delete(m.family.members, m.owner)
	}
	m.family.mu.Unlock()
	close(m.done)
}

// watchIdle ends the member when it has not been used for a while.
func (m *member) watchIdle(ctx context.Context) {
	f := m.family
	for {
		f.mu.Lock()
		left := idleAfter
		if m.busy == 0 {
			left = time.Until(m.used.Add(idleAfter))
		}
		if left <= 0 {
			m.end(errIdle)
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(left):
		}
	}
}

// await waits until the connection has been tried, and says why there is none.
func (m *member) await(ctx context.Context) error {
	select {
	case <-m.tried:
	case <-m.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := m.server.current()
	return err
}

// patience is how long a call of the server's tools may take.
func (f *family) patience() time.Duration { return cmp.Or(f.config.Timeout, f.options.CallTimeout) }

// reachFor is [server.reach].
func (f *family) reachFor(ctx context.Context, owner string, call toolkit.Call) (*server, func(), error) {
	if f.config.owned() && call.Owner != owner {
		return nil, nil, errors.New("this tool belongs to somebody else") // each session has its owner's
	}
	signed, err := f.signedIn(ctx, owner)
	if err != nil {
		return nil, nil, err
	}
	if !signed {
		return nil, nil, &signin.NeededError{Server: f.name}
	}
	m, err := f.acquire(owner)
	if err != nil {
		return nil, nil, err
	}
	if err := m.await(ctx); err != nil {
		m.release()
		return nil, nil, err
	}
	return m.server, m.release, nil
}

// signedIn reports whether the owner has signed in, or need not.
func (f *family) signedIn(ctx context.Context, owner string) (bool, error) {
	if f.config.Auth != AuthOAuth {
		return true, nil
	}
	return f.options.SignIn.SignedIn(ctx, owner, f.target())
}

// pinned returns the tools as they were seen last.
func (f *family) pinned(ctx context.Context, owner string) []*tool {
	pins, err := f.options.Pins.ToolPins(ctx, f.pinsOf(owner))
	if err != nil {
		f.log.Warn("MCP tools left out, what was seen of them is not known", "owner", owner, "error", f.explain(err))
		return nil
	}
	maps.DeleteFunc(pins, func(name, _ string) bool { return !f.allows(name) })
	names := exposedNames(f.name, slices.Sorted(maps.Keys(pins)))
	var list []*tool
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		var p pinned
		if json.Unmarshal([]byte(pins[name]), &p) != nil {
			continue
		}
		list = append(list, &tool{server: f.server, owner: owner, remote: name,
			unchecked: toolkit.CheckParameters(p.Parameters) != nil, def: toolkit.Definition{
				Name: names[name], Description: p.Description, Parameters: p.Parameters,
			}})
		if len(list) == maxTools {
			break
		}
	}
	return list
}

// restart ends the owner's member, so that the next one begins anew, and begins that.
func (f *family) restart(owner string) {
	f.drop(owner)
	if m, err := f.acquire(owner); err == nil {
		m.release()
	}
}

// drop ends the owner's member, and returns what is closed when it has ended; nil if there is none.
func (f *family) drop(owner string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[owner]
	if m == nil {
		return nil
	}
	m.end(errIdle)
	return m.done
}

// forget ends what an owner has of the server, and removes what is kept of it.
func (f *family) forget(ctx context.Context, owner string) (had bool, err error) {
	if done := f.drop(owner); done != nil {
		had = true
		select {
		case <-done:
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
	if f.config.PerOwner {
		folder := f.folder(owner)
		if _, err := os.Stat(folder); err == nil {
			had = true
		}
		if err := os.RemoveAll(folder); err != nil {
			return had, fmt.Errorf("remove the folder of an MCP server: %w", err)
		}
		return had, nil
	}
	granted, err := f.options.SignIn.Forget(ctx, owner, f.target())
	if err != nil {
		return had, err
	}
	name := f.pinsOf(owner)
	pins, err := f.options.Pins.ToolPins(ctx, name)
	if err == nil && len(pins) > 0 {
		for tool := range pins {
			pins[tool] = ""
		}
		err = f.options.Pins.PinTools(ctx, name, pins)
	}
	f.options.Changed()
	return had || granted, err
}

// folder returns the path of an owner's folder, which no other server has.
func (f *family) folder(owner string) string {
	name := toolkit.CleanName(f.name)
	if isForeign(f.name) {
		name = folderOf(f.name)
	}
	return filepath.Join(f.options.Folder, name, folderOf(owner))
}

// folderOf returns the name of an owner's folder: readable, without what has a meaning in paths, and no other owner's.
func folderOf(owner string) string {
	sum := sha256.Sum256([]byte(owner))
	return toolkit.CleanName(toolkit.First(owner, 40)) + "-" + hex.EncodeToString(sum[:8])
}

// statusOf returns the state of the owner's server.
func (f *family) statusOf(ctx context.Context, owner string) OwnerStatus {
	status := OwnerStatus{
		Name: f.name, Type: f.config.Type, PerOwner: f.config.PerOwner, SignIn: f.config.Auth == AuthOAuth,
		State: StateIdle,
	}
	if !f.config.owned() {
		owner, status.State = "", StateConnecting
	}
	if signed, err := f.signedIn(ctx, owner); err != nil || !signed {
		status.State = StateSignIn
		if err != nil {
			status.State, status.Reason = StateFailed, "whether you have signed in is not known at the moment"
		}
		return status
	}
	f.mu.Lock()
	m := f.members[owner]
	f.mu.Unlock()
	if m == nil {
		return status
	}
	s := m.server.status()
	status.Tools, status.Held = s.Tools, s.Held
	_, why := m.server.current()
	_, needed := errors.AsType[*signin.NeededError](why)
	switch {
	case s.Connected:
		status.State = StateConnected
	case needed:
		status.State = StateSignIn
	case errors.Is(why, errNeverTried):
		status.State = StateConnecting
	default:
		status.State, status.Reason = StateFailed, s.Error
	}
	return status
}
