// Colours for programs in answers: the few kinds of words that all languages share.

export type Kind = 'comment' | 'string' | 'number' | 'keyword';

export interface Token {
  kind: Kind;
  start: number;
  end: number;
}

const keywords =
  'and as async await break case catch class const continue def default defer del do elif else end enum except export extends false finally fn for from func function go if impl import in interface is lambda let match mod mut new nil none not null or package pass pub raise return select self static struct super switch this throw trait true try type typeof undefined use var void where while with yield';

const pattern = new RegExp(
  [
    String.raw`(?<comment>\/\/[^\n]*|\/\*[\s\S]{0,5000}?\*\/|(?<=^|\s)#[^\n]*|(?<=^|\s)--\s[^\n]*)`,
    '(?<string>"(?:[^"\\\\\\n]|\\\\.)*"|\'(?:[^\'\\\\\\n]|\\\\.)*\'|`(?:[^`\\\\]|\\\\.)*`)',
    String.raw`(?<number>\b\d[\w.]*\b)`,
    String.raw`(?<keyword>\b(?:${keywords.split(' ').join('|')})\b)`,
  ].join('|'),
  'gm',
);

const longest = 20_000;

/** The coloured words of a program. */
export function tokensOf(code: string): Token[] {
  const tokens: Token[] = [];
  for (const match of code.slice(0, longest).matchAll(pattern)) {
    const kind = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0] as Kind;
    tokens.push({ kind, start: match.index, end: match.index + match[0].length });
  }
  return tokens;
}

/** Colours the programs below an element, without changing it. Returns a function that removes the colours. */
export function colour(element: Element): () => void {
  if (!('highlights' in CSS)) return () => undefined;
  const ranges: [Highlight, Range][] = [];
  for (const code of element.matches('code') ? [element] : element.querySelectorAll('pre code')) {
    const text = code.firstChild;
    if (!text || text.nodeType !== Node.TEXT_NODE || code.childNodes.length !== 1) continue;
    for (const { kind, start, end } of tokensOf(text.textContent ?? '')) {
      const name = `code-${kind}`;
      const highlight = CSS.highlights.get(name) ?? new Highlight();
      CSS.highlights.set(name, highlight);
      const range = new Range();
      range.setStart(text, start);
      range.setEnd(text, end);
      highlight.add(range);
      ranges.push([highlight, range]);
    }
  }
  return () => ranges.forEach(([highlight, range]) => highlight.delete(range));
}
