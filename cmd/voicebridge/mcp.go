package main

import (
	"context"
	"errors"

	"voicebridge/toolkit"
	"voicebridge/toolkit/mcptool"
	"voicebridge/toolkit/mcptool/signin"
	"voicebridge/web"
)

// ownersServers are the MCP servers as web knows them.
type ownersServers struct {
	mcp  *mcptool.Servers
	desk *signin.Desk // nil without a database
	pick toolkit.Settings
}

// Of returns the servers as the owner sees them.
func (s ownersServers) Of(ctx context.Context, owner string) []web.ToolServer {
	var all []web.ToolServer
	for _, status := range s.mcp.StatusOf(ctx, owner) {
		one := web.ToolServer{
			Name: status.Name, Connected: status.State == mcptool.StateConnected, Tools: status.Tools, Type: status.Type,
			PerOwner: status.PerOwner, SignIn: status.SignIn, State: status.State, Reason: status.Reason,
		}
		for _, h := range status.Held {
			if s.pick.Allows(h.Tool.Name) {
				one.Held = append(one.Held, web.HeldTool{Tool: h.Tool, Why: h.Why})
			}
		}
		all = append(all, one)
	}
	return all
}

// Connect begins the owner's sign-in to a server.
func (s ownersServers) Connect(
	ctx context.Context, owner, server, redirect string,
) (authorizeURL, browser string, err error) {
	target, ok := s.mcp.SignInServer(server)
	if !ok {
		return "", "", web.ErrNoSignIn
	}
	begun, err := s.desk.Begin(ctx, owner, target, redirect)
	return begun.AuthorizeURL, begun.Browser, inWords(err)
}

// Finish ends a sign-in.
func (s ownersServers) Finish(
	ctx context.Context, back web.SignInReturn, kept func(server string) string, mine func(owner string) bool,
) (server string, err error) {
	owner, server, err := s.desk.Finish(ctx, signin.Return(back), kept, mine, s.mcp.SignInServer)
	if err != nil {
		return server, inWords(err)
	}
	s.mcp.SignedIn(owner, server)
	return server, nil
}

// Forget ends what the owner has of a server.
func (s ownersServers) Forget(ctx context.Context, owner, server string) (had bool, err error) {
	had, ok, err := s.mcp.Forget(ctx, owner, server)
	if !ok {
		return false, web.ErrNoSignIn
	}
	return had, err
}

// inWords makes errors of a sign-in those that web tells clients.
func inWords(err error) error {
	if refused, ok := errors.AsType[*signin.RefusedError](err); ok {
		return web.SignInFailed(refused.Reason, false)
	}
	if errors.Is(err, signin.ErrUnknown) || errors.Is(err, signin.ErrOther) {
		return web.SignInFailed(err.Error(), true)
	}
	return err
}
