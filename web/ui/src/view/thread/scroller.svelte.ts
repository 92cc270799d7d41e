import { Heights, sliceOf, topOf, type Slice } from './window';
import { atEnd, slack, stick, wayOf, type Stick, type StickEvent } from './stick';

const around = 900;
const restMs = 250;
/** How many of the newest lines are always drawn. */
const fewest = 40;

function withAtLeast(slice: Slice, keys: string[], heights: Heights): Slice {
  const start = Math.max(0, Math.min(slice.start, keys.length - fewest));
  return start === slice.start ? slice : { ...slice, start, before: topOf(keys, heights, start) };
}

/**
 * Scrolls a long list of which only a part is drawn. What the reader looks at stays in place, whatever
 * grows or is inserted above it; at the end the list follows.
 */
export class Scroller {
  stick = $state.raw<Stick>(atEnd);
  /** What the reader looks at: a line, and where it is in view. Heights above it may change. */
  #anchor = $state.raw<{ key: string; offset: number } | null>(null);
  #height = $state(800);
  #measured = $state(0);

  /** @param onHome is called when the reader wants to see the beginning of everything */
  constructor(private readonly onHome: () => void = () => this.toLine(this.#keys, 0)) {}

  readonly #heights = new Heights();
  #box: HTMLElement | undefined;
  #list: HTMLElement | undefined;
  #rows = new Map<Element, string>();
  #keys: string[] = [];
  #lastTop = 0;
  #moves = 0;
  #rest: ReturnType<typeof setTimeout> | undefined;
  readonly #observer = typeof ResizeObserver === 'function' ? new ResizeObserver((changes) => this.#resized(changes)) : undefined;

  /** The part of a list to draw. */
  slice(keys: string[]): Slice {
    void this.#measured;
    this.#keys = keys;
    const at = this.stick.stuck || !this.#anchor ? -1 : keys.indexOf(this.#anchor.key);
    const top = at < 0 ? topOf(keys, this.#heights, keys.length) - this.#height : topOf(keys, this.#heights, at) - (this.#anchor?.offset ?? 0);
    const slice = sliceOf(keys, this.#heights, top - around, top + this.#height + around);
    // At the end all of the newest lines are drawn, up to a limit.
    return this.stick.stuck ? withAtLeast(slice, keys, this.#heights) : slice;
  }

  /** Follows the element that scrolls. */
  box = (box: HTMLElement): (() => void) => {
    this.#box = box;
    const on = box.addEventListener.bind(box);
    const hand = (up: boolean) => this.#do({ type: 'hand', up, top: box.scrollTop });
    let finger = 0;
    on('wheel', ({ deltaY }) => deltaY !== 0 && hand(deltaY < 0), { passive: true });
    on('touchstart', ({ touches }) => (finger = touches[0]?.clientY ?? 0), { passive: true });
    on('touchmove', ({ touches }) => hand((touches[0]?.clientY ?? 0) > finger), { passive: true });
    on('keydown', (event) => {
      const way = wayOf(event);
      if (way) hand(way === 'up');
      // What scrolls by itself inside a line has a beginning and an end of its own.
      if (way && event.target instanceof Element && event.target.closest('[tabindex]') === box) this.#jump(event);
    });
    // On the scroll bar, which is not an element of its own.
    on('pointerdown', (event) => event.target === box && event.offsetX >= box.clientWidth && hand(true));
    on('focusin', ({ target }) => target instanceof HTMLElement && target !== box && this.#focused(target));
    on('scroll', () => this.#scrolled(), { passive: true });
    on('scrollend', () => this.#do({ type: 'rest' }));
    this.#observer?.observe(box);
    return () => {
      this.#observer?.disconnect();
      clearTimeout(this.#rest);
    };
  };

  /** Follows the element that holds the lines. */
  list = (list: HTMLElement): (() => void) => {
    this.#list = list;
    this.#observer?.observe(list);
    return () => this.#observer?.unobserve(list);
  };

  /** Measures a line. */
  row = (key: string) => (element: HTMLElement): (() => void) => {
    this.#rows.set(element, key);
    this.#observer?.observe(element);
    return () => {
      this.#rows.delete(element);
      this.#observer?.unobserve(element);
    };
  };

  /** Goes to the end and stays there. */
  toEnd(smooth = false): void {
    this.#do({ type: 'end' });
    const still = !smooth || matchMedia('(prefers-reduced-motion: reduce)').matches;
    this.#box?.scrollTo({ top: this.#box.scrollHeight, behavior: still ? 'instant' : 'smooth' });
  }

  /** Counts what the reader did to go elsewhere, so that what was asked for earlier does not overrule it. */
  get moves(): number {
    return this.#moves;
  }

  /** Shows one line. */
  toLine(keys: string[], at: number): void {
    this.#do({ type: 'elsewhere' });
    const key = keys[at];
    if (!this.#box || key === undefined) return;
    this.#anchor = { key, offset: 80 };
    this.#box.scrollTo({ top: this.#listTop() + topOf(keys, this.#heights, at) - 80, behavior: 'instant' });
  }

  /** Another list is shown. */
  reset(): void {
    this.#heights.clear();
    this.#anchor = null;
    this.#do({ type: 'end' });
  }

  /** Puts what the reader looks at back to its place; called whenever the content has changed. */
  settle(): void {
    const box = this.#box;
    if (!box) return;
    if (this.stick.stuck) {
      if (box.scrollHeight - box.scrollTop - box.clientHeight > 1) box.scrollTop = box.scrollHeight;
      return;
    }
    const row = this.#anchor && this.#rowOf(this.#anchor.key);
    if (!row || !this.#anchor) return;
    // Scrolling since then that was not reported yet must be kept.
    const byHand = this.stick.moving ? box.scrollTop - this.#lastTop : 0;
    const moved = this.#offset(row) + byHand - this.#anchor.offset;
    if (Math.abs(moved) <= 0.5) return;
    box.scrollTop += moved;
    this.#lastTop = box.scrollTop - byHand;
  }

  /** Goes all the way at once: a smooth scroll of the browser's stops where lines turn out higher or lower than was guessed. */
  #jump(event: KeyboardEvent): void {
    if (event.shiftKey || (event.key !== 'Home' && event.key !== 'End')) return;
    event.preventDefault();
    if (event.key === 'End') this.toEnd();
    else this.onHome();
  }

  #do(event: StickEvent): void {
    if (event.type === 'hand' || event.type === 'end' || event.type === 'elsewhere') this.#moves++;
    const next = stick(this.stick, event);
    if (next.stuck !== this.stick.stuck || next.moving !== this.stick.moving || next.top !== this.stick.top) this.stick = next;
    if (event.type !== 'hand') return;
    // Browsers without scrollend.
    clearTimeout(this.#rest);
    this.#rest = setTimeout(() => this.#do({ type: 'rest' }), restMs * 4);
  }

  /** Keeps the keyboard focus in view, even while the end grows. */
  #focused(target: HTMLElement): void {
    const box = this.#box;
    if (!box || !target.matches(':focus-visible')) return;
    target.scrollIntoView({ block: 'nearest', behavior: 'instant' });
    if (box.scrollHeight - box.scrollTop - box.clientHeight <= slack) return;
    this.#do({ type: 'elsewhere' });
    this.#anchor = this.#visible();
  }

  #scrolled(): void {
    const box = this.#box;
    if (!box) return;
    this.#do({ type: 'scroll', top: box.scrollTop, distance: box.scrollHeight - box.scrollTop - box.clientHeight });
    this.#lastTop = box.scrollTop;
    if (!this.stick.stuck) this.#anchor = this.#visible() ?? this.#guessed();
  }

  #resized(changes: ResizeObserverEntry[]): void {
    let changed = false;
    for (const { target } of changes) {
      const key = this.#rows.get(target);
      if (key !== undefined) changed = this.#heights.note(key, target.getBoundingClientRect().height) || changed;
    }
    if (this.#box && this.#height !== this.#box.clientHeight) this.#height = this.#box.clientHeight;
    if (changed) this.#measured++;
    this.settle();
  }

  /** The first line that is drawn in view. */
  #visible(): { key: string; offset: number } | null {
    let first: { key: string; offset: number } | null = null;
    for (const [row, key] of this.#rows) {
      const offset = this.#offset(row);
      if (offset + row.clientHeight > 0 && offset < this.#height && (!first || offset < first.offset)) first = { key, offset };
    }
    return first;
  }

  /** The line that should be in view where none is drawn yet: the reader has jumped. */
  #guessed(): { key: string; offset: number } | null {
    const y = (this.#box?.scrollTop ?? 0) - this.#listTop();
    const { start, before } = sliceOf(this.#keys, this.#heights, y, y);
    const key = this.#keys[Math.min(start, this.#keys.length - 1)];
    return key === undefined ? null : { key, offset: before - y };
  }

  #rowOf(key: string): Element | undefined {
    for (const [row, known] of this.#rows) if (known === key) return row;
    return undefined;
  }

  #offset(row: Element): number {
    return row.getBoundingClientRect().top - (this.#box?.getBoundingClientRect().top ?? 0);
  }

  #listTop(): number {
    return this.#list && this.#box ? this.#offset(this.#list) + this.#box.scrollTop : 0;
  }
}
