import { describe, expect, it } from 'vitest';
import { atEnd, stick, type Stick, type StickEvent } from '../src/view/thread/stick';
import { Heights, sliceOf, topOf } from '../src/view/thread/window';

const after = (...events: StickEvent[]) => events.reduce<Stick>(stick, atEnd);
const hand = (up: boolean, top = 500): StickEvent => ({ type: 'hand', up, top });
const scroll = (top: number, distance: number): StickEvent => ({ type: 'scroll', top, distance });

describe('stick', () => {
  it.each([
    ['content grows and the layout scrolls', [scroll(500, 0), scroll(500, 400), scroll(200, 700)], true],
    ['the reader turns the wheel up', [scroll(500, 0), hand(true), scroll(300, 200)], false],
    ['the reader turns the wheel, and the first step is small', [scroll(500, 0), hand(true), scroll(498, 2)], false],
    ['the first step of a smooth scroll is less than a pixel', [scroll(500, 0), hand(true), scroll(499.6, 0.4), scroll(499.6, 0.4)], false],
    ['the reader leaves, and only then is reported what the layout scrolled before', [scroll(500, 0), hand(true, 540), scroll(540, 0), scroll(539, 1)], false],
    ['content grows while the reader moves down', [scroll(500, 0), hand(false), scroll(520, 300)], true],
    ['the reader comes back to the end', [scroll(500, 0), hand(true), scroll(300, 200), scroll(490, 10)], true],
    ['the layout scrolls after the reader has left', [scroll(500, 0), hand(true), scroll(300, 200), { type: 'rest' }, scroll(460, 5)], false],
    ['a message is sent', [scroll(500, 0), hand(true), scroll(300, 200), { type: 'end' }], true],
    ['a place is shown that was searched for', [{ type: 'elsewhere' }], false],
  ] as [string, StickEvent[], boolean][])('when %s', (_, events, stuck) => {
    expect(after(...events).stuck).toBe(stuck);
  });
});

describe('the window of a long list', () => {
  const keys = Array.from({ length: 10_000 }, (_, at) => `m${at}`);

  it('draws what is in view and tells the rest by its height', () => {
    const heights = new Heights();
    for (const key of keys.slice(0, 10)) heights.note(key, 50);
    const slice = sliceOf(keys, heights, 5000, 6000);
    expect([slice.start, slice.end]).toEqual([100, 120]);
    expect(slice.before + slice.after + 20 * 50).toBe(10_000 * 50);
    expect(topOf(keys, heights, 100)).toBe(slice.before);
  });

  it('knows each height once', () => {
    const heights = new Heights();
    expect([heights.note('a', 40), heights.note('a', 40.2), heights.note('a', 80)]).toEqual([true, false, true]);
    expect([heights.get('a'), heights.guess]).toEqual([80, 80]);
  });

  it('has nothing of nothing', () => {
    expect(sliceOf([], new Heights(), 0, 1000)).toEqual({ start: 0, end: 0, before: 0, after: 0 });
  });
});
