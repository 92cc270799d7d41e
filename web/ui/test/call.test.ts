import { describe, expect, it } from 'vitest';
import { readRemembered } from '../src/call/remembered';
import { failureOf, reduce } from '../src/call/reduce';
import { idleCall, wordOf, type CallState } from '../src/call/state';
import { sessionUpdate } from '../src/call/sessionupdate';
import { defaultSettings, readSettings } from '../src/device/settings.svelte';
import { devicesOf } from '../src/device/devices.svelte';
import { Unheard } from '../src/view/parts/unheard';

const live: CallState = { ...idleCall, phase: 'live' };

describe('a call', () => {
  it.each([
    ['is muted', {}, { muted: true, resting: false }, 'muted'],
    ['is heard though the microphone is muted', { playing: true }, { muted: true, resting: false }, 'speaking'],
    ['waits for the button', {}, { muted: false, resting: true }, 'held'],
    ['waits for a tool', { tools: [{ id: '1', name: 't', executor: 'app', state: 'running', message: '' }] }, undefined, 'tool'],
    ['waits for the user', { approvals: [{ toolCallId: '1', name: 't', input: 0, nonce: 'n', until: 0 }] }, undefined, 'approval'],
    ['gets another upstream', { renewing: true, playing: true }, undefined, 'renewing'],
  ] as const)('that %s says so', (_, state, microphone, word) => {
    expect(wordOf({ ...live, ...(state as Partial<CallState>) }, microphone)).toBe(word);
  });

  it('counts what it costs, and says what is not saved', () => {
    const events = [
      { type: 'bridge.usage', usage: { total_tokens: 100 }, cost_usd: 0.01 },
      { type: 'bridge.usage', usage: { total_tokens: 20 } },
      { type: 'bridge.storage.delayed', pending: 4 },
    ];
    const call = events.reduce((c, e) => reduce(c, e, 1), live);
    expect([call.tokens, call.cost, call.unsaved]).toEqual([120, 0.01, 4]);
    expect(reduce(call, { type: 'bridge.storage.recovered' }, 1).unsaved).toBe(0);
  });

  it.each([
    [{ status: 'failed', status_details: { error: { type: 'server_error', code: 'rate_limit_exceeded', message: 'Slow.' } } }, 'rate_limit_exceeded', 'Slow.'],
    [{ status: 'failed', status_details: { error: { type: 'server_error', message: 'Broken.' } } }, 'server_error', 'Broken.'],
    [{ status: 'failed', status_details: { type: 'failed', reason: 'response_timeout' } }, 'response_timeout', ''],
    [{ status: 'failed', status_details: 'failed' }, 'response_failed', ''],
    [{ status: 'incomplete', status_details: { reason: 'content_filter' } }, 'content_filter', ''],
    [{ status: 'incomplete', status_details: { reason: 'max_output_tokens' }, output: [{}] }, undefined, undefined],
    [{ status: 'cancelled', status_details: { reason: 'turn_detected' } }, undefined, undefined],
    [{ status: 'completed' }, undefined, undefined],
    [null, undefined, undefined],
  ])('learns why there is no answer: %j', (response, code, message) => {
    const failure = failureOf({ type: 'response.done', response });
    expect([failure?.code, failure?.message]).toEqual([code, message]);
  });

  it('goes on while its upstream is renewed', () => {
    const renewing = reduce({ ...live, playing: true }, { type: 'bridge.upstream.renewing', reason: 'expiry' }, 1);
    expect([renewing.renewing, renewing.playing, renewing.phase]).toEqual([true, true, 'live']);
    expect(reduce(renewing, { type: 'bridge.upstream.renewed', gap_ms: 3 }, 1).renewing).toBe(false);
    const duplex = reduce(live, { type: 'bridge.upstream.renewed', duplex: true }, 1);
    expect([renewing.duplex, duplex.duplex, reduce(duplex, { type: 'bridge.upstream.renewed' }, 1).duplex]).toEqual([false, true, false]);
    const answers = (events: object[]) => events.reduce<CallState>((c, e) => reduce(c, e as Record<string, unknown>, 1), idleCall);
    const ready = [{ type: 'bridge.ready', upstream: 'house', voice: 'slt' }, { type: 'session.updated', session: { audio: { output: { voice: 'awb' } } } }, { type: 'bridge.upstream.renewed' }];
    expect(answers(ready)).toMatchObject({ upstream: 'house', voice: 'awb' });
    expect(answers([...ready, { type: 'bridge.upstream.renewed', upstream: 'grok', voice: 'eve' }])).toMatchObject({ upstream: 'grok', voice: 'eve' });
    expect(reduce(live, { type: 'bridge.upstream.lost', reason: 'closed' }, 1)).toMatchObject({ renewing: true, phase: 'live' });
  });
});

describe('settings', () => {
  it.each([
    ['nothing', null, defaultSettings],
    ['no JSON', '{', defaultSettings],
    ['wrong values', '{"mode":"shout","speed":9,"volume":-1,"halfDuplex":"yes"}', { ...defaultSettings, speed: 1.5, volume: 0 }],
    ['good ones', '{"mode":"hold","voice":"marin","awake":false}', { ...defaultSettings, mode: 'hold', voice: 'marin', awake: false }],
  ])('are read from %s', (_, text, want) => {
    expect(readSettings(text)).toEqual(want);
  });
  it('are told to the call, as far as they differ', () => {
    const told = { ...defaultSettings };
    expect(sessionUpdate(told, told, null, null)).toBeNull();
    expect(sessionUpdate(told, told, null, [])).toEqual({ type: 'session.update', session: { type: 'realtime', tools: [] } });
    expect(sessionUpdate({ ...told, mode: 'hold', voice: 'ash', speed: 1.25 }, told, null, [{ name: 't' }])).toEqual({
      type: 'session.update',
      session: { type: 'realtime', tools: [{ name: 't' }], audio: { input: { turn_detection: null }, output: { voice: 'ash', speed: 1.25 } } },
    });
  });
  it('can be taken back during a call', () => {
    const told = { ...defaultSettings, mode: 'hold', speed: 1.25 } as const;
    const audio = (turns: object | null) => sessionUpdate(defaultSettings, told, turns as Record<string, unknown> | null, null);
    const back = (turn_detection: object) => ({ type: 'session.update', session: { type: 'realtime', audio: { input: { turn_detection }, output: { speed: 1 } } } });
    expect(audio({ type: 'semantic_vad', eagerness: 'low' })).toEqual(back({ type: 'semantic_vad', eagerness: 'low' }));
    expect(audio(null)).toEqual(back({ type: 'server_vad' }));
  });
  it('go back to how the session noticed speech before', () => {
    const session = (turn_detection: unknown) => ({ type: 'session.updated', session: { audio: { input: { turn_detection } } } });
    const events = [session({ type: 'semantic_vad' }), session(null), { type: 'session.updated', session: null }];
    expect(events.reduce((call, event) => reduce(call, event, 1), live)).toMatchObject({ turns: { type: 'semantic_vad' }, held: true });
    // Sessions are made without, whatever they will do.
    expect(reduce(live, { ...session(null), type: 'session.created' }, 1).held).toBe(false);
    expect(reduce({ ...live, held: true }, session({ type: 'server_vad' }), 1).held).toBe(false);
  });
  it('list the devices that have a name', () => {
    const device = (kind: MediaDeviceKind, deviceId: string, label: string) => ({ kind, deviceId, label });
    const list = [device('audioinput', 'default', 'Default'), device('audioinput', 'a', 'Desk'), device('audioinput', 'b', ''), device('audiooutput', 'c', 'Box')];
    expect(devicesOf(list, 'audioinput')).toEqual([{ id: 'a', label: 'Desk' }]);
  });
});

describe('a reloaded page', () => {
  it.each([
    ['comes back', '{"callId":"c","threadId":"t","at":1000}', { callId: 'c', threadId: 't' }],
    ['is too late', '{"callId":"c","threadId":"t","at":-70000}', null],
    ['finds nothing', null, null],
    ['finds rubbish', '{"callId":7}', null],
  ])('%s', (_, text, want) => {
    expect(readRemembered(text, 2000)).toEqual(want);
  });
});

describe('a muted microphone', () => {
  it('is told of when somebody speaks, not for a bang', () => {
    const ear = new Unheard();
    expect([ear.hear(0.9, 0), ear.hear(0.1, 100), ear.hear(0.6, 200), ear.hear(0.6, 600), ear.hear(0.6, 750), ear.hear(0, 3000), ear.hear(0, 5000)]).toEqual([
      false, false, false, false, true, true, false,
    ]);
  });
});
