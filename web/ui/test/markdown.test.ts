// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import { renderMarkdown } from '../src/view/parts/markdown';

describe('renderMarkdown', () => {
  it('renders structure', () => {
    expect(renderMarkdown('**a** `b`\n\n1. c')).toContain('<strong>a</strong> <code>b</code>');
  });

  it('shows images as links, tasks as signs, and HTML as it is written', () => {
    expect(renderMarkdown('![A "cat"](https://example.org/cat.png)')).toContain('>A "cat"</a>');
    expect(renderMarkdown('![](https://example.org/cat.png)')).toContain('href="https://example.org/cat.png"');
    expect(renderMarkdown('- [ ] a\n- [x] b').replace(/\s+/g, ' ')).toBe('<ul> <li>☐ a</li> <li>☑ b</li> </ul> ');
    expect(renderMarkdown('<div>\n  <b>x</b>\n</div>\n\ny')).toBe('<pre>&lt;div&gt;\n  &lt;b&gt;x&lt;/b&gt;\n&lt;/div&gt;</pre><p>y</p>\n');
  });

  it('opens links in a new tab without a referrer', () => {
    const html = renderMarkdown('[x](https://example.org)');
    expect(html).toContain('href="https://example.org"');
    expect(html).toContain('rel="noopener noreferrer nofollow"');
  });

  it.each([
    ['Energy \\( E_1 = m*c*d \\).', '<p>Energy <code>\\( E_1 = m*c*d \\)</code>.</p>'],
    ['\\[\na \\\\\n- b\n\\]\n\nNext', '<pre><code>\\[\na \\\\\n- b\n\\]</code></pre><p>Next</p>'],
    ['$$\n\\{a<b\\}\n$$', '<pre><code>$$\n\\{a&lt;b\\}\n$$</code></pre>'],
    ['\\(no end, $5 and $6', '<p>(no end, $5 and $6</p>'],
  ])('shows the formula of %j as it is written', (text, html) => {
    expect(renderMarkdown(text).replaceAll('</p>\n', '</p>')).toBe(html);
  });

  it.each([
    ['<img src=x onerror=alert(1)>', '<img'],
    ['<script>alert(1)</script>', '<script'],
    ['<b style="position:fixed">x</b>', '<b style'],
    ['[x](javascript:alert(1))', 'javascript:'],
    ['![x](https://example.org/track.png)', '<img'],
    ['<iframe src="https://example.org"></iframe>', '<iframe'],
  ])('lets %s do nothing', (text, never) => {
    expect(renderMarkdown(text)).not.toContain(never);
  });
});
