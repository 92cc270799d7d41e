/** Marks the words of the search in the text of an element, without changing it. */
export function highlighted(words: string[]): (element: HTMLElement) => (() => void) | undefined {
  return (element) => {
    if (words.length === 0 || !('highlights' in CSS)) return;
    const ranges = rangesOf(element, words);
    const all = CSS.highlights.get('found') ?? new Highlight();
    CSS.highlights.set('found', all);
    ranges.forEach((range) => all.add(range));
    return () => ranges.forEach((range) => all.delete(range));
  };
}

/** Marks what is still to be said of a text, from a letter on; a box that shows a part of it follows the word that is being said. */
export function saidTo(letters: number | undefined): (element: HTMLElement) => (() => void) | undefined {
  return (element) => {
    const text = element.textContent ?? '';
    if (letters === undefined) return void (element.scrollTop = element.scrollHeight);
    const word = text.slice(letters).search(/\s/);
    const range = rangeFrom(element, word < 0 || letters === 0 ? letters : letters + word);
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

/** Where the words are in the text of an element. */
export function rangesOf(element: HTMLElement, words: string[]): Range[] {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const ranges: Range[] = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = (node.textContent ?? '').toLowerCase();
    const end = (node as Text).length; // lower case may be longer: İ
    for (const word of words) {
      for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(node, Math.min(at, end));
        range.setEnd(node, Math.min(at + word.length, end));
        ranges.push(range);
      }
    }
  }
  return ranges;
}

/** Makes a box as tall as its text in browsers whose CSS cannot (field-sizing). */
export function fitted(text: string): (box: HTMLTextAreaElement) => void {
  return (box) => {
    void text; // it fits each text anew
    if (CSS.supports('field-sizing', 'content')) return;
    box.style.height = 'auto';
    box.style.height = `${box.scrollHeight + box.offsetHeight - box.clientHeight}px`;
  };
}
