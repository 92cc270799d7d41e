import DOMPurify from 'dompurify';
import { Marked } from 'marked';

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

// HTML in an answer is shown as text, never as markup.
const marked = new Marked({ renderer: { html: ({ text }) => escaped(text) } });

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
