// Whether a scroller stays at its end while its content grows. Only the reader's own hand releases it:
// a scroll event alone may as well be the layout's.

export interface Stick {
  /** It stays at the end. */
  stuck: boolean;
  /** The reader is moving it by wheel, finger, key or scroll bar. */
  moving: boolean;
  /** Where it was last, in pixels from the top. */
  top: number;
}

export const atEnd: Stick = { stuck: true, moving: false, top: 0 };

export type StickEvent =
  /** The reader's hand moves it from top; up is away from the end. */
  | { type: 'hand'; up: boolean; top: number }
  | { type: 'scroll'; top: number; distance: number }
  | { type: 'rest' }
  /** A thread was opened, something was sent, or the latest was asked for. */
  | { type: 'end' }
  /** Something else is to be shown, such as a search result. */
  | { type: 'elsewhere' };

/** This close to the end counts as at the end, in pixels. */
export const slack = 48;

export function stick(known: Stick, event: StickEvent): Stick {
  switch (event.type) {
    case 'hand':
      // What the layout has scrolled until now may be reported later: it is not the hand's.
      return { ...known, moving: true, top: event.top, stuck: known.stuck && !event.up };
    case 'rest':
      return { ...known, moving: false };
    case 'end':
      return { ...known, stuck: true, moving: false };
    case 'elsewhere':
      return { ...known, stuck: false, moving: false };
    case 'scroll': {
      const { top, distance } = event;
      if (!known.moving) return { ...known, top };
      // Content growing below the reader does not count as scrolling.
      if (top < known.top - 1) return { ...known, top, stuck: false };
      // The first step of a smooth scroll may be less than a pixel: only going down reaches the end.
      return { ...known, top, stuck: known.stuck || (top > known.top && distance <= slack) };
    }
  }
}

const keys: Record<string, 'up' | 'down'> = { ArrowUp: 'up', PageUp: 'up', Home: 'up', ArrowDown: 'down', PageDown: 'down', End: 'down' };

/** Which way a key moves a scroller; null if it does not. */
export function wayOf({ key, shiftKey, target }: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'target'>): 'up' | 'down' | null {
  if (target instanceof Element && target.closest('input, textarea, select, button, summary, [contenteditable]')) return null;
  return key === ' ' ? (shiftKey ? 'up' : 'down') : (keys[key] ?? null);
}
