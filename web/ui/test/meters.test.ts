// @vitest-environment jsdom
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { atBeats, audible, History } from '../src/view/parts/meters';

describe('the meters of a call', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.useRealTimers();
    vi.restoreAllMocks();
  });

  it('draw together, and only while they are there and can be seen', () => {
    let drawn = '';
    const draw = (name: string) => atBeats(() => (drawn += name));
    const [leaveA, leaveB] = [draw('a'), draw('b')];
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(80);
    leaveA();
    vi.advanceTimersByTime(40);
    const seen = vi.spyOn(document, 'visibilityState', 'get').mockReturnValue('hidden');
    vi.advanceTimersByTime(200);
    seen.mockReturnValue('visible');
    vi.advanceTimersByTime(40);
    leaveB();
    expect([drawn, vi.getTimerCount()]).toEqual(['ababbb', 0]);
    draw('c')();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('show nothing of a quiet room', () => {
    expect([0, 0.09, 0.1, 1].map(audible)).toEqual([0, 0, 0.1, 1]);
  });

  it('stay as they are while nothing moves', () => {
    const history = new History();
    const steps: [level: number, room: number, moves: boolean][] = [
      [0, 3, false], [0.5, 3, true], [0, 3, true], [0, 3, true], [0, 3, true], [0, 3, false], [0.5, 3, true], [0.5, 4, true], [0.5, 4, true], [0.5, 4, true], [0.5, 4, false], [0.5, 2, false], [0, 0, false],
    ];
    for (const [at, [level, room, moves]] of steps.entries()) expect([at, history.add(level, room), history.levels.length]).toEqual([at, moves, room]);
  });
});
