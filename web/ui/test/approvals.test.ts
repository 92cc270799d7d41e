import { describe, expect, it } from 'vitest';
import type { Approval } from '../src/message/live';
import { answerTo, questions, reduceApprovals } from '../src/thread/approvals';

const take = (list: Approval[], ...events: [string, object][]) =>
  events.reduce((l, [type, data]) => reduceApprovals(l, { type, data: data as Record<string, unknown> }, 1000), list);
const ask = (id: string, nonce = `n-${id}`): [string, object] => [
  'bridge.tool.approval_required',
  { tool_call_id: id, name: 'http', input: { url: 'https://x.example' }, nonce },
];
const close = (id: string): [string, object] => ['bridge.tool.approval_closed', { tool_call_id: id, approved: false, reason: 'timeout' }];

describe('questions', () => {
  it('wait until they are closed', () => {
    const one = take([], ask('1'));
    expect(one).toEqual([{ toolCallId: '1', name: 'http', input: { url: 'https://x.example' }, nonce: 'n-1', until: 61_000 }]);
    expect(take(one, ask('2'), close('1')).map((a) => a.toolCallId)).toEqual(['2']);
    expect(take(one, close('1'), close('1'))).toEqual([]);
  });
  it.each([[500, 61_000], [31_000, 31_000], [90_000, 61_000]])('that expire at %d by the server’s clock can be answered until %d', (expires, until) => {
    const [type, data] = ask('1');
    expect(take([], [type, { ...data, expires_at: new Date(expires).toISOString() }]).map((a) => a.until)).toEqual([until]);
  });
  it('are asked once, with the newest nonce', () => {
    expect(take([], ask('1'), ask('1', 'newer')).map((a) => a.nonce)).toEqual(['newer']);
  });
  it('are forgotten with the connection: the server asks again', () => {
    expect(take([], ask('1'), ['connected', {}])).toEqual([]);
    expect(take([], ask('1'), ['connected', {}], ask('1'))).toHaveLength(1);
  });
  it('of this page’s own call are asked once', () => {
    const [one, two] = take([], ask('1'), ask('2'));
    expect(questions([one!], [{ ...one! }, two!])).toEqual([one, two]);
    expect(questions([], [two!])).toEqual([two]);
  });
  it('without a nonce cannot be answered', () => {
    const none: Approval[] = [];
    const { nonce: _, ...data } = ask('1')[1] as { nonce: string };
    expect(take(none, ['bridge.tool.approval_required', data])).toBe(none);
    expect(take(none, ['tool_approval_required', data])).toBe(none);
  });
  it('stay bounded', () => {
    expect(take([], ...Array.from({ length: 50 }, (_, i) => ask(String(i))))).toHaveLength(16);
  });
  it.each([{}, { tool_call_id: [], nonce: {} }, { tool_call_id: '', nonce: 'n' }])('with %j are none', (data) => {
    const none: Approval[] = [];
    expect(take(none, ['bridge.tool.approval_required', data], ['bridge.tool.approval_closed', data], ['message', data])).toBe(none);
  });
});

describe('answers', () => {
  it('carry the nonce', () => {
    const [approval] = take([], ask('1'));
    expect(answerTo(approval!, true)).toEqual({ type: 'bridge.tool.approve', tool_call_id: '1', nonce: 'n-1' });
    expect(answerTo(approval!, false)).toMatchObject({ type: 'bridge.tool.deny' });
  });
});
