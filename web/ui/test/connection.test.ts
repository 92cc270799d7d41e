import { describe, expect, it } from 'vitest';
import { goodConnection, learn, troubleOf, type Connection, type Fact } from '../src/link/connection';

const knowing = (...facts: Fact[]) => facts.reduce<Connection>(learn, goodConnection);
const peer = (step: Connection['peer'], at = 0): Fact => ({ of: 'peer', step, at });

describe('what is wrong with the connection', () => {
  it.each([
    ['nothing', [], 0, null],
    ['a socket that broke', [{ of: 'socket', up: false }], 0, 'reconnecting'],
    ['a server that is gone, which breaks its sockets too', [{ of: 'socket', up: false }, { of: 'server', up: false }], 0, 'away'],
    ['no network, whatever else', [peer('weak'), { of: 'server', up: false }, { of: 'network', up: false }], 0, 'offline'],
    ['a server that came back', [{ of: 'server', up: false }, { of: 'socket', up: false }, { of: 'server', up: true }, { of: 'socket', up: true }], 0, null],
    ['a socket that opened again', [{ of: 'server', up: false }, { of: 'socket', up: true }], 0, null],
    ['a call that is young', [peer('connecting', 1000)], 10_999, null],
    ['sound that does not get through', [peer('connecting', 1000)], 11_000, 'media'],
    ['an answer that does not come', [peer('asking', 1000)], 11_000, 'slow'],
    ['a call that connected late', [peer('connecting', 1000), peer('connected', 12_000)], 13_000, null],
    ['a weak path', [peer('connected'), peer('weak', 5)], 6, 'weak'],
    ['a call that is over', [peer('connecting'), peer('none', 1)], 60_000, null],
  ] as [string, Fact[], number, string | null][])('%s', (_, facts, now, want) => {
    expect(troubleOf(knowing(...facts), now)).toBe(want);
  });

  it('stays the same object when nothing is new', () => {
    const known = knowing({ of: 'server', up: false }, peer('asking', 1));
    expect(learn(known, { of: 'server', up: false })).toBe(known);
    expect(learn(known, peer('asking', 2))).toBe(known);
  });
});
