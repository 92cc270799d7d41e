import { wordEnd } from '../../message/live';

/** Marks what is still to be said of a text, from a letter on; a box that shows a part of it follows the word that is being said. */
export function saidTo(letters: number | undefined): (element: HTMLElement) => (() => void) | undefined {
  return (element) => {
    const text = element.textContent ?? '';
    if (letters === undefined) return void (element.scrollTop = element.scrollHeight);
    const range = rangeFrom(element, wordEnd(text, letters));
    const { top } = range.getBoundingClientRect?.() ?? { top: 0 };
    element.scrollTop += top - element.getBoundingClientRect().top - element.clientHeight / 2;
    if (!('highlights' in CSS)) return;
    const all = CSS.highlights.get('unsaid') ?? new Highlight();
    CSS.highlights.set('unsaid', all);
    all.add(range);
    return () => void all.delete(range);
  };
}

/** The text of an element from a letter on. */
function rangeFrom(element: HTMLElement, letters: number): Range {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const range = new Range();
  range.selectNodeContents(element);
  range.collapse();
  let left = letters;
  for (let node = walker.nextNode() as Text | null; node; node = walker.nextNode() as Text | null) {
    if (left <= node.length) {
      range.setStart(node, left);
      break;
    }
    left -= node.length;
  }
  range.setEnd(element, element.childNodes.length);
  return range;
}
