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
