const usable = ':is(a[href], button, input, select, textarea, summary, [tabindex="0"]):not(:disabled)';

/**
 * Keeps the keyboard's place in a page whose parts come and go. When what has the focus is moved, it keeps it. When it is
 * switched off, its neighbour gets it. When it is gone, the same button of the next item in its list gets it, or what its part
 * of the page names in data-then, or else the thread or the text box.
 */
export function keepFocus(): void {
  let last: HTMLElement | null = null;
  let byKey = false;
  let row = 0;
  let pressed = false;

  const onFocus = ({ target }: FocusEvent) => {
    last = target instanceof HTMLElement ? target : null;
    byKey = last?.matches(':focus-visible') ?? false;
    const item = last?.closest('li');
    row = [...(item?.parentElement?.children ?? [])].findIndex((other) => other === item);
  };
  // A press beside everything takes the focus away on purpose.
  const onPress = ({ type }: PointerEvent) => void (pressed = type === 'pointerdown');
  const onBlur = ({ relatedTarget }: FocusEvent) => {
    if (pressed && relatedTarget === null) last = null;
  };

  const observer = new MutationObserver((changes) => {
    const [before, now] = [last, document.activeElement];
    if (!before || (now !== document.body && now !== before) || before.closest('dialog')) return;
    const removed = (node: Node) => changes.find(({ removedNodes }) => [...removedNodes].some((one) => one.contains(node)));
    if (before.isConnected && !before.matches(':disabled')) {
      if (now !== before && removed(before)) before.focus({ preventScroll: true });
      return;
    }
    let place: Element = before;
    for (let change = removed(place); change && !place.isConnected; change = removed(place)) place = change.target as Element;
    if (place.isConnected) next(before, place)?.focus({ preventScroll: place !== before });
  });

  function next(before: HTMLElement, place: Element): HTMLElement | null | undefined {
    if (place === before) return before.parentElement?.querySelector<HTMLElement>(usable);
    const list = place.matches('ol, ul') ? place : null;
    const item = list?.children[Math.min(row, list.children.length - 1)];
    const same = item && [...item.querySelectorAll<HTMLElement>(usable)];
    const named = before.closest<HTMLElement>('[data-then]')?.dataset.then?.split(' ') ?? [];
    return (
      same?.find(({ dataset }) => dataset.testid === before.dataset.testid) ??
      same?.[0] ??
      named.map((one) => document.querySelector<HTMLElement>(one)).find(Boolean) ??
      (byKey ? (place.closest<HTMLElement>('#transcript') ?? document.getElementById('textbox')) : null)
    );
  }

  document.addEventListener('focusin', onFocus);
  document.addEventListener('focusout', onBlur);
  for (const type of ['pointerdown', 'pointerup', 'pointercancel'] as const) document.addEventListener(type, onPress, true);
  observer.observe(document.body, { subtree: true, childList: true, attributeFilter: ['disabled'] });
}
