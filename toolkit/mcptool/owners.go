package mcptool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"voicebridge/toolkit"
	"voicebridge/toolkit/mcptool/signin"
)

// ToolsOf returns the tools of the servers of which each owner has one, by server and name. What an owner's server
// offers is known once it has been connected; what has never been is waited for if wait, which may be nil, says so.
func (s *Servers) ToolsOf(ctx context.Context, owner string, wait func(server string) bool) []toolkit.Entry {
	if owner == "" {
		return nil
	}
	lists := make([][]toolkit.Entry, len(s.families))
	var all sync.WaitGroup
	for i, f := range s.families {
		if f.config.owned() {
			all.Go(func() { lists[i] = f.offerTo(ctx, owner, wait != nil && wait(f.name)) })
		}
	}
	all.Wait()
	return slices.Concat(lists...)
}

// StatusOf returns the state of all servers that are not disabled, by name, as one owner sees them.
func (s *Servers) StatusOf(ctx context.Context, owner string) []OwnerStatus {
	var all []OwnerStatus
	for _, f := range s.families {
		all = append(all, f.statusOf(ctx, owner))
	}
	return all
}

// Names returns the names of all servers that are not disabled, in order; never nil.
func (s *Servers) Names() []string {
	names := []string{}
	for _, f := range s.families {
		names = append(names, f.name)
	}
	return names
}

// SignInServer returns the server with that name, if owners sign in to it.
func (s *Servers) SignInServer(name string) (signin.Server, bool) {
	f := s.family(name)
	if f == nil || f.config.Auth != AuthOAuth {
		return signin.Server{}, false
	}
	return f.target(), true
}

// SignedIn is to be called when an owner has signed in: it connects anew.
func (s *Servers) SignedIn(owner, name string) {
	if f := s.family(name); f != nil && f.config.owned() {
		f.restart(owner)
	}
}

// Forget ends what an owner has of a server and removes it: what they were granted, or the process and its folder. It
// reports whether there was anything; ok is false if the server is not one of which each owner has one.
func (s *Servers) Forget(ctx context.Context, owner, name string) (had, ok bool, err error) {
	f := s.family(name)
	if f == nil || !f.config.owned() {
		return false, false, nil
	}
	had, err = f.forget(ctx, owner)
	return had, true, err
}

// Erase ends what an owner has of all servers and removes it, also the folders of servers that are configured no more.
// It goes on after an error, which it returns in the end: then something may be left.
func (s *Servers) Erase(ctx context.Context, owner string) error {
	var errs []error
	for _, f := range s.families {
		if !f.config.owned() {
			continue
		}
		if _, err := f.forget(ctx, owner); err != nil {
			errs = append(errs, fmt.Errorf("forget MCP server %q: %w", f.name, err))
		}
	}
	return errors.Join(append(errs, EraseFolders(s.folder, owner))...)
}

// EraseFolders removes the folders in which processes of an owner have worked, of whatever server, below the folder of
// [Options].
func EraseFolders(folder, owner string) error {
	servers, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("find the folders of MCP servers: %w", err)
	}
	var errs []error
	for _, server := range servers {
		if err := os.RemoveAll(filepath.Join(folder, server.Name(), folderOf(owner))); err != nil && server.IsDir() {
			errs = append(errs, fmt.Errorf("remove the folder of an MCP server: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (s *Servers) family(name string) *family {
	if i := slices.IndexFunc(s.families, func(f *family) bool { return f.name == name }); i >= 0 {
		return s.families[i]
	}
	return nil
}
