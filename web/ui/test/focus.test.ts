// @vitest-environment jsdom
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { keepFocus } from '../src/view/parts/focus';

const button = (testid: string) => `<button data-testid="${testid}">x</button>`;
const row = (id: string) => `<li id="${id}">${button('up')}${button('remove')}</li>`;
const find = (selector: string) => document.querySelector<HTMLElement>(selector)!;
const settled = () => new Promise<void>((resolve) => setTimeout(resolve));

async function focusAfter(selector: string, change: (element: HTMLElement) => void): Promise<string> {
  const element = find(selector);
  element.focus();
  change(element);
  await settled();
  const at = document.activeElement as HTMLElement;
  return [at.closest('li')?.id, at.dataset.testid ?? at.id].filter(Boolean).join(' ') || at.tagName;
}

describe('the focus', () => {
  beforeAll(keepFocus);
  afterAll(() => {
    document.body.innerHTML = '';
    return settled();
  });
  beforeEach(() => {
    document.body.innerHTML = `<main id="transcript" tabindex="0"><p>${button('copy')}</p></main><ol>${row('a')}${row('b')}${row('c')}</ol>
      <section data-then="[data-testid=gone] [data-testid=talk]">${button('hangup')}</section>${button('talk')}<p>${button('dismiss')}</p><textarea id="textbox"></textarea>`;
  });

  it.each([
    ['stays on what is moved', '#b [data-testid=up]', (e: HTMLElement) => find('ol').prepend(e.closest('li')!), 'b up'],
    ['goes to a neighbour of what is switched off', '#a [data-testid=up]', (e: HTMLElement) => e.setAttribute('disabled', ''), 'a remove'],
    ['goes to the same button of the next item', '#b [data-testid=remove]', (e: HTMLElement) => e.closest('li')!.remove(), 'c remove'],
    ['goes to that of the last item', '#c [data-testid=remove]', (e: HTMLElement) => e.closest('li')!.remove(), 'b remove'],
    ['goes where its part says', '[data-testid=hangup]', (e: HTMLElement) => e.parentElement!.remove(), 'talk'],
    ['stays in the thread', '[data-testid=copy]', (e: HTMLElement) => e.parentElement!.remove(), 'transcript'],
    ['goes to the box', '[data-testid=dismiss]', (e: HTMLElement) => e.parentElement!.remove(), 'textbox'],
  ])('%s', async (_, selector, change, want) => {
    expect(await focusAfter(selector, change)).toBe(want);
  });

  it('may be left by a press beside everything', async () => {
    find('[data-testid=talk]').focus();
    document.body.dispatchEvent(new Event('pointerdown', { bubbles: true }));
    find('[data-testid=talk]').blur();
    document.body.dispatchEvent(new Event('pointerup', { bubbles: true }));
    find('[data-testid=talk]').remove();
    await settled();
    expect(document.activeElement).toBe(document.body);
  });
});
