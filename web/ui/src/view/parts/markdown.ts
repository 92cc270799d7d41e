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
  extensions: formulas,
});

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (char) => escapes[char] ?? char);
}

// Parsing ends in an error where quotes or lists are nested thousands deep.
function htmlOf(text: string): string {
  try {
    return marked.parse(text, { async: false, gfm: true, breaks: true });
  } catch {
    return `<pre>${escaped(text)}</pre>`;
  }
}

/** Turns a model's Markdown into HTML that contains only text and links. */
export function renderMarkdown(text: string): string {
  // Where it cannot work the sanitizer returns its input, not an error.
  if (!DOMPurify.isSupported) return escaped(text);
  return DOMPurify.sanitize(htmlOf(text), {
    ALLOWED_TAGS: allowed,
    ALLOWED_ATTR: ['href', 'title', 'start'],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  });
}
