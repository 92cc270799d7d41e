const farPx = 48;

/** Calls back when a finger has moved far enough: up or down, or else aside. */
export function swiped(onswipe: (way: 'up' | 'down' | 'aside') => void): (element: HTMLElement) => () => void {
  return (element) => {
    let begun: { x: number; y: number } | null = null;
    const start = ({ touches }: TouchEvent) => {
      const finger = touches.length === 1 ? touches[0] : undefined;
      begun = finger ? { x: finger.clientX, y: finger.clientY } : null;
    };
    const end = ({ changedTouches }: TouchEvent) => {
      const finger = changedTouches[0];
      if (!begun || !finger) return;
      const aside = Math.abs(finger.clientX - begun.x);
      const down = finger.clientY - begun.y;
      begun = null;
      if (Math.max(aside, Math.abs(down)) < farPx) return;
      onswipe(aside > Math.abs(down) ? 'aside' : down > 0 ? 'down' : 'up');
    };
    const stop = () => (begun = null);
    element.addEventListener('touchstart', start, { passive: true });
    element.addEventListener('touchend', end, { passive: true });
    element.addEventListener('touchcancel', stop, { passive: true });
    return () => {
      element.removeEventListener('touchstart', start);
      element.removeEventListener('touchend', end);
      element.removeEventListener('touchcancel', stop);
    };
  };
}
