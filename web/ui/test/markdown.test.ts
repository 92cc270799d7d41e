// @vitest-environment jsdom
import { describe, expect, it } from 'vitest';
import { renderMarkdown } from '../src/view/parts/markdown';

describe('renderMarkdown', () => {
  it('renders structure', () => {
    expect(renderMarkdown('**a** `b`\n\n1. c')).toContain('<strong>a</strong> <code>b</code>');
  });

  it('opens links in a new tab without a referrer', () => {
    const html = renderMarkdown('[x](https://example.org)');
    expect(html).toContain('href="https://example.org"');
    expect(html).toContain('rel="noopener noreferrer nofollow"');
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
