import DOMPurify from 'dompurify';
import { Marked, type TokenizerAndRendererExtension, type Tokens } from 'marked';

// Loaded with the first typed answer.

const allowed = [
  'a', 'b', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'hr', 'i', 'li', 'ol', 'p', 'pre', 's',
  'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul',
];

DOMPurify.addHook('afterSanitizeAttributes', (node) => {
  if (node.tagName !== 'A') return;
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer nofollow');
});

const escapes: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** How long a text may take that reads much more than its length: unclosed emphasis, nested quotes and underlined headings take its square. */
const budgetMs = 100;
let end = Infinity;
let read: Record<string, number> = {};

// Asked at each step of the parser: beyond both limits the rest is shown as it is written. free is what any text may read,
// however slow the machine is, in letters.
const rest = (type: string, free: number) => (text: string) => {
  read[type] = (read[type] ?? 0) + text.length;
  return read[type] > free && performance.now() > end ? { type, raw: text } : undefined;
};
const rests: TokenizerAndRendererExtension[] = [
  { name: 'rest', level: 'block', tokenizer: rest('rest', 20_000_000), renderer: ({ raw }) => `<pre>${escaped(raw)}</pre>` },
  { name: 'rest of a line', level: 'inline', tokenizer: rest('rest of a line', 5_000_000), renderer: ({ raw }) => escaped(raw) },
];

// A formula is shown as it is written: Markdown would take its backslashes and asterisks for its own.
const formulas: TokenizerAndRendererExtension[] = [
  {
    name: 'lines of formulas',
    level: 'block',
    tokenizer: (text) => token('lines of formulas', /^[ \t]*(?:\\\[[^]{1,2000}?\\\]|\$\$[^]{1,2000}?\$\$)[ \t]*(?:\n|$)/.exec(text)),
    renderer: ({ raw }) => `<pre><code>${escaped(raw.trim())}</code></pre>`,
  },
  {
    name: 'formula',
    level: 'inline',
    tokenizer: (text) => token('formula', /^(?:\\\([^]{1,2000}?\\\)|\\\[[^]{1,2000}?\\\]|\$\$[^]{1,2000}?\$\$)/.exec(text)),
    renderer: ({ raw }) => `<code>${escaped(raw)}</code>`,
  },
];

function token(type: string, found: RegExpExecArray | null): Tokens.Generic | undefined {
  return found ? { type, raw: found[0] } : undefined;
}

// HTML in an answer is shown as text, never as markup, and an image as a link: to load it would tell its server who looks.
const marked = new Marked({
  renderer: {
    html: ({ text, block }) => (block ? `<pre>${escaped(text.trimEnd())}</pre>` : escaped(text)),
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ '),
    image: ({ href, text }) => `<a href="${escaped(href)}">${escaped(text || href)}</a>`,
  },
  extensions: [...formulas, ...rests], // the last one is asked first
});

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (char) => escapes[char] ?? char);
}

// Parsing ends in an error where quotes or lists are nested thousands deep.
function htmlOf(text: string): string {
  [end, read] = [performance.now() + budgetMs, {}];
  try {
    return marked.parse(text, { async: false, gfm: true, breaks: true });
  } catch {
    return `<pre>${escaped(text)}</pre>`;
  }
}

// Rows that are scrolled away and back are drawn anew.
const drawn = new Map<string, string>();
const slowMs = 20;
const longest = 4000; // letters of what is kept though it is drawn quickly
const mostDrawn = 300;

/** Turns a model's Markdown into HTML that contains only text and links. What would take too long is shown as it is written. */
export function renderMarkdown(text: string): string {
  // Where it cannot work the sanitizer returns its input, not an error.
  if (!DOMPurify.isSupported) return escaped(text);
  const known = drawn.get(text);
  if (known !== undefined) return known;
  const begun = performance.now();
  const html = sanitized(text);
  if (text.length <= longest || performance.now() - begun > slowMs) drawn.set(text, html);
  if (drawn.size > mostDrawn) drawn.delete(drawn.keys().next().value ?? '');
  return html;
}

function sanitized(text: string): string {
  return DOMPurify.sanitize(htmlOf(text), {
    ALLOWED_TAGS: allowed,
    ALLOWED_ATTR: ['href', 'title', 'start'],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  });
}
