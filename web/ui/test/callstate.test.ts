import { describe, expect, it } from 'vitest';
import { functionCallOf, reduce } from '../src/call/reduce';
import { answered, calmWordOf, canStop, ended, idleCall, plainWord, stopping, wordOf, type CallState } from '../src/call/state';

const live: CallState = { ...idleCall, phase: 'live', threadId: 't' };
const open = { muted: false, resting: false };
const run = (events: object[], from: CallState = live) =>
  events.reduce<CallState>((call, event) => reduce(call, event as Record<string, unknown>), from);

describe('the word', () => {
  it('follows a turn from silence to silence', () => {
    const steps: [object, string][] = [
      [{ type: 'bridge.ready', call_id: 'c', thread_id: 't', replayed: 2 }, 'listening'],
      [{ type: 'input_audio_buffer.speech_started', item_id: 'u1' }, 'hearing'],
      [{ type: 'input_audio_buffer.speech_stopped', item_id: 'u1' }, 'listening'],
      [{ type: 'input_audio_buffer.committed', item_id: 'u1' }, 'thinking'],
      [{ type: 'response.created', response: { id: 'r1' } }, 'thinking'],
      [{ type: 'output_audio_buffer.started', response_id: 'r1' }, 'speaking'],
      [{ type: 'response.done', response: { id: 'r1' } }, 'speaking'],
      [{ type: 'output_audio_buffer.stopped', response_id: 'r1' }, 'listening'],
    ];
    let call: CallState = { ...idleCall, phase: 'connecting' };
    expect(wordOf(call)).toBe('connecting');
    for (const [event, word] of steps) {
      call = reduce(call, event as Record<string, unknown>);
      expect([event, wordOf(call)]).toEqual([event, word]);
      expect(calmWordOf(call, open)).toBe('listening');
    }
    expect(call).toMatchObject({ callId: 'c', threadId: 't', replayed: 2 });
  });

  it('hears the user as soon as one speaks into an answer', () => {
    const speaking = run([{ type: 'response.created', response: { id: 'r' } }, { type: 'output_audio_buffer.started' }]);
    expect(canStop(speaking)).toBe(true);
    const cut = run([{ type: 'input_audio_buffer.speech_started', item_id: 'u' }, { type: 'output_audio_buffer.cleared' }], speaking);
    expect([wordOf(cut), plainWord(wordOf(cut)), wordOf(cut, { ...open, muted: true })]).toEqual(['hearing', 'listening', 'thinking']);
    expect(cut.playing).toBe(false);
  });

  it('thinks while a tool runs, with no response active', () => {
    const running = run([{ type: 'bridge.tool.started', tool_call_id: '1', name: 'x', executor: 'mcp' }]);
    expect([wordOf(running), plainWord(wordOf(running))]).toEqual(['tool', 'thinking']);
    expect(wordOf(run([{ type: 'bridge.tool.failed', tool_call_id: '1', error: 'no' }], running))).toBe('listening');
  });

  it('has a form that stays over the turns, and changes for what else the user should know', () => {
    const tool = { type: 'bridge.tool.started', tool_call_id: '1', name: 'x', executor: 'mcp' };
    const answer = { type: 'response.created', response: { id: 'r' } };
    const words = [[answer], [answer, tool], [answer, { type: 'bridge.upstream.renewing' }]].map((events) => calmWordOf(run(events), open));
    expect(words).toEqual(['listening', 'tool', 'renewing']);
    expect([calmWordOf(run([answer]), { ...open, muted: true }), calmWordOf(run([answer]), { ...open, resting: true })]).toEqual(['muted', 'held']);
  });

  it('says when the upstream is being renewed, and forgets the old answer', () => {
    const speaking = run([{ type: 'response.created', response: { id: 'r' } }, { type: 'output_audio_buffer.started' }]);
    const renewing = run([{ type: 'bridge.upstream.renewing', reason: 'session_expired' }], speaking);
    expect(wordOf(renewing)).toBe('renewing');
    expect(wordOf(run([{ type: 'bridge.upstream.renewed' }], renewing))).toBe('listening');
  });
});

describe('captions', () => {
  it('grow by deltas and end with the final text', () => {
    const call = run([
      { type: 'input_audio_buffer.speech_started', item_id: 'u' },
      { type: 'conversation.item.input_audio_transcription.delta', item_id: 'u', delta: 'Hel' },
      { type: 'response.output_audio_transcript.delta', item_id: 'a', delta: 'Good ' },
      { type: 'response.output_audio_transcript.delta', item_id: 'a', delta: 'mor' },
      { type: 'conversation.item.input_audio_transcription.completed', item_id: 'u', transcript: 'Hello!' },
      { type: 'response.output_audio_transcript.done', item_id: 'a', transcript: 'Good morning.' },
      { type: 'response.output_text.delta', item_id: 'b', delta: 'typed' },
    ]);
    expect(call.captions.map(({ itemId, role, text }) => [itemId, role, text])).toEqual([
      ['u', 'user', 'Hello!'],
      ['a', 'assistant', 'Good morning.'],
      ['b', 'assistant', 'typed'],
    ]);
  });

  it('leave nothing behind for a noise', () => {
    const call = run([
      { type: 'input_audio_buffer.speech_started', item_id: 'noise' },
      { type: 'input_audio_buffer.speech_stopped', item_id: 'noise' },
      { type: 'input_audio_buffer.speech_started', item_id: 'u' },
    ]);
    expect(call.captions.map((c) => c.itemId)).toEqual(['u']);
    expect(run([{ type: 'input_audio_buffer.cleared' }], call).captions).toEqual([]);
  });

  it('mark a failed transcription', () => {
    const call = run([{ type: 'conversation.item.input_audio_transcription.failed', item_id: 'u', error: {} }]);
    expect(call.captions).toEqual([{ itemId: 'u', role: 'user', text: '', failed: true }]);
  });

  it('stay bounded in a long call', () => {
    const events = Array.from({ length: 100 }, (_, i) => ({ type: 'response.output_text.delta', item_id: `i${i}`, delta: 'x' }));
    const call = run(events);
    expect(call.captions).toHaveLength(40);
    expect(call.captions.at(-1)?.itemId).toBe('i99');
  });
});

describe('tools', () => {
  it('carry progress and ignore what comes after the end', () => {
    const call = run([
      { type: 'bridge.tool.started', tool_call_id: '1', name: 'create_bar_chart', executor: 'app' },
      { type: 'bridge.tool.progress', tool_call_id: '1', message: 'Halfway', percent: 50 },
      { type: 'bridge.tool.done', tool_call_id: '1' },
      { type: 'bridge.tool.progress', tool_call_id: '1', message: 'late', percent: 60 },
    ]);
    expect(call.tools).toMatchObject([
      { id: '1', name: 'create_bar_chart', executor: 'app', state: 'done', message: 'Halfway', percent: 50 },
    ]);
  });

  it('are being stopped until they have ended, as cancelled or not', () => {
    const started = run([{ type: 'bridge.tool.started', tool_call_id: '1', name: 'x', executor: 'mcp' }]);
    const asked = stopping(started, '1');
    const more = run([{ type: 'bridge.tool.progress', tool_call_id: '1', percent: 10 }], asked);
    expect(more.tools[0]).toMatchObject({ state: 'running', stopping: true, percent: 10 });
    const over = run([{ type: 'bridge.tool.failed', tool_call_id: '1', error: 'cancelled it', cancelled: true }], more);
    expect(over.tools[0]).toMatchObject({ state: 'cancelled', message: 'cancelled it' });
    expect(over.tools[0]?.stopping).toBeUndefined();
    expect(run([{ type: 'bridge.tool.done', tool_call_id: '1' }], asked).tools[0]?.state).toBe('done');
    expect(run([{ type: 'bridge.tool.failed', tool_call_id: '1', cancelled: 'yes' }], asked).tools[0]?.state).toBe('failed');
    expect(run([{ type: 'bridge.tool.failed', tool_call_id: '1', error: 'no', sign_in: 'post' }], asked).tools[0]?.signIn).toBe('post');
    expect(stopping(started, '2').tools).toEqual(started.tools);
  });

  it('wait for an approval until it is answered or the tool goes on', () => {
    const ask = { type: 'bridge.tool.approval_required', tool_call_id: '1', name: 'rm', input: { a: 1 }, nonce: 'n' };
    const asking = run([ask, ask]);
    expect(asking.approvals).toMatchObject([{ toolCallId: '1', name: 'rm', input: { a: 1 }, nonce: 'n' }]);
    expect(answered(asking, '1').approvals).toEqual([]);
    expect(run([{ type: 'bridge.tool.failed', tool_call_id: '1', message: 'denied' }], asking).approvals).toEqual([]);
  });
});

describe('the end', () => {
  it('keeps the first reason and the thread', () => {
    const over = run([{ type: 'bridge.ended', reason: 'taken_over' }]);
    expect(over).toMatchObject({ phase: 'ended', endReason: 'taken_over', threadId: 't', captions: [] });
    expect(ended(over, 'connection_lost')).toBe(over);
    expect(wordOf(over)).toBe('ended');
  });
});

describe('hostile events', () => {
  it.each([
    {},
    { type: 5 },
    { type: 'unheard.of', deep: { a: [] } },
    { type: 'response.created', response: 'text' },
    { type: 'bridge.tool.started' },
    { type: 'bridge.tool.started', tool_call_id: { x: 1 } },
    { type: 'response.output_audio_transcript.delta', delta: 'x' },
    { type: 'response.output_audio_transcript.delta', item_id: 'a', delta: { x: 1 } },
  ])('%j does not throw', (event) => {
    expect(() => wordOf(run([event]))).not.toThrow();
  });

  it('leaves the state as it is for unknown types', () => {
    expect(run([{ type: 'rate_limits.updated', rate_limits: [] }])).toBe(live);
  });
});

describe('functionCallOf', () => {
  const item = { type: 'function_call', status: 'completed', call_id: 'c', name: 'f', arguments: '{}' };
  it('finds a completed call', () => {
    expect(functionCallOf({ type: 'response.output_item.done', item })).toEqual({ callId: 'c', name: 'f', args: '{}' });
  });
  it.each([
    ['another event', { type: 'response.done', item }],
    ['an interrupted call', { type: 'response.output_item.done', item: { ...item, status: 'incomplete' } }],
    ['a message', { type: 'response.output_item.done', item: { ...item, type: 'message' } }],
    ['a call without id', { type: 'response.output_item.done', item: { ...item, call_id: undefined } }],
  ])('ignores %s', (_, event) => {
    expect(functionCallOf(event)).toBeNull();
  });
});
