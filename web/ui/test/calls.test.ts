import { describe, expect, it } from 'vitest';
import { readMessage, type Message } from '../src/message/message';
import { answerMs, callsOf, median } from '../src/thread/calls';

const message = (id: string, role: string, second: number, metadata: object = {}): Message =>
  readMessage({ id, role, parts: [], metadata: { created_at: new Date(second * 1000).toISOString(), ...metadata } })!;

describe('calls of a thread', () => {
  it('are told by their last message', () => {
    const calls = callsOf([
      message('1', 'user', 0),
      message('2', 'user', 10, { call_id: 'a' }),
      message('3', 'assistant', 12, { call_id: 'a', usage: { total_tokens: 50 }, latency_ms: { response: 300, commit: 100, first_packet: 820, first_audio: 800, total: 9 } }),
      message('4', 'user', 20, { call_id: 'b', latency_ms: { commit: 1 } }),
      message('5', 'assistant', 30, { call_id: 'a', usage: { total_tokens: 7 }, latency_ms: { commit: 10 } }),
    ]);
    expect([...calls.keys()]).toEqual(['5', '4']);
    expect(calls.get('4')).toEqual({ callId: 'b', tokens: 0, answers: [], sounds: [] });
    const a = calls.get('5')!;
    expect([a.callId, a.tokens]).toEqual(['a', 57]);
    expect(a.answers.map((answer) => answer.map(({ stage }) => stage))).toEqual([['commit', 'response', 'first_audio', 'first_packet'], ['commit']]);
    expect(a.answers.map(answerMs)).toEqual([820, 10]);
  });
  it('have stages that never go back', () => {
    const [call] = callsOf([message('1', 'assistant', 0, { call_id: 'a', latency_ms: { commit: 500, response: 200, first_audio: 900 } })]).values();
    expect(call!.answers[0]!.map(({ ms }) => ms)).toEqual([500, 500, 900]);
  });
  it('bear messages without a time', () => {
    const one = readMessage({ id: '1', role: 'user', metadata: { call_id: 'a', created_at: 'soon' } })!;
    expect([...callsOf([one, message('2', 'user', 9, { call_id: 'a' })]).values()]).toEqual([{ callId: 'a', tokens: 0, answers: [], sounds: [] }]);
  });
  it('have a middle', () => {
    expect([median([]), median([3]), median([9, 1, 5])]).toEqual([undefined, 3, 5]);
  });
});
