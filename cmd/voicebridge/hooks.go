package main

import (
	"context"

	"voicebridge/hooks"
	"voicebridge/persistence/hooked"
	"voicebridge/toolkit/webhook"
)

// openHooks makes the settings' hooks known to all processes, and what delivers to hooks.
func (a *app) openHooks(ctx context.Context) (err error) {
	if a.addresses, err = hooks.NewAddresses(a.cfg.Hooks.Allow); err != nil {
		return err
	}
	operator, secrets := make([]hooked.Hook, 0, len(a.cfg.Hooks.Endpoints)), map[string]webhook.Secret{}
	for _, e := range a.cfg.Hooks.Endpoints {
		operator = append(operator, hooked.Hook{URL: e.URL, Events: e.Events})
		secrets[e.URL] = e.Secret
	}
	if err := a.store.Hooks.SetOperator(ctx, operator); err != nil {
		return err
	}
	a.hooks = hooks.New(hooks.Config{Store: a.store.Hooks, Addresses: a.addresses, Operator: secrets, OnAttempt: a.metrics.HookAttempt, Logger: a.log})
	return nil
}
