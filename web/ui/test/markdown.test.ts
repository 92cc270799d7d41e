// @vitest-environment jsdom
import { describe, expect, it, vi } from 'vitest';
import { tokensOf } from '../src/view/parts/syntax';
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

describe('a text made to freeze the page', () => {
  // On a machine that is as slow as can be.
  function drawn(text: string): [number, string] {
    let now = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 1000));
    const html = renderMarkdown(text);
    const asked = clock.mock.calls.length;
    clock.mockRestore();
    return [asked, html];
  }

  it.each([
    ['emphasis that does not end', '*_a'],
    ['underscores in words', 'a_b_'],
    ['nested quotes', '> '],
    ['nested lists', '1. '],
    ['underlined headings', 'a\n-\n'],
    ['links that do not end', '[a]('],
  ])('is cut into plain text: %s', (_, piece) => {
    const text = piece.repeat(5000);
    const [asked, html] = drawn(text);
    expect(asked).toBeLessThan(1000);
    const words = new DOMParser().parseFromString(html, 'text/html').body.textContent ?? '';
    expect(words).toContain(piece.repeat(1000).trimEnd());
    expect(words.match(/a/g)?.length).toBe(text.match(/a/g)?.length);
  });

  it('does not cut what others write', () => {
    const text = '## Title\n\nSome **bold** words and `code`.\n\n- one\n- two\n\n'.repeat(200);
    const [, html] = drawn(text);
    expect([html.match(/<strong>/g)?.length, html.match(/<li>/g)?.length]).toEqual([200, 400]);
  });

  it('is coloured without looking for the end of each comment at the end of the program', () => {
    expect(tokensOf(`/* ${'a'.repeat(6000)} */ if`).map(({ kind }) => kind)).toEqual(['keyword']);
    expect(tokensOf('/* a */ if').map(({ kind }) => kind)).toEqual(['comment', 'keyword']);
  });
});
